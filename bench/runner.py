"""One run: starts, warm-up, rounds. In any case it stops every process that it started."""

from __future__ import annotations

import itertools
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench import generators, groups, machine
from bench.clusters import ClusterContender
from bench.contenders import SETTINGS, Contender, make_broker, time_start
from bench.failover import time_failovers
from bench.generators import Target
from bench.many_partitions import measure_many
from bench.offset_load import time_loads
from bench.reign import measure_reign
from bench.results import CEILING, NAMES, OTTLA, Measurement, Results
from bench.rows import Kind, Row, fill

WARM_UP_SHARE = 0.25
WARM_UP_SHARE_QUICK = 0.1
PASSES = 10
PASSES_QUICK = 4
PASSES_WARM_UP = 2
_topic_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a run."""

    rows: Sequence[Row]
    has_ceiling: bool = True
    rounds: int = 3
    starts: int = 5
    is_quick: bool = False
    load_timeout_s: int = 180
    patience_s: float = 0.0
    directory: Path | None = None

    def records_of(self, row: Row) -> int:
        return row.quick_records if self.is_quick else row.records

    @property
    def warm_up_share(self) -> float:
        return WARM_UP_SHARE_QUICK if self.is_quick else WARM_UP_SHARE

    @property
    def passes(self) -> int:
        """How often consumers read a topic."""
        return PASSES_QUICK if self.is_quick else PASSES


def run(plan: Plan, progress: Callable[[str], None]) -> Results:
    """Run the plan. `progress` gets a progress line for each step."""
    generators.build_all()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=plan.directory) as temporary:
        directory = Path(temporary)
        results = Results(
            machine.facts(directory),
            {
                "rounds": plan.rounds,
                "starts": plan.starts,
                "is_quick": plan.is_quick,
                "warm_up_share": plan.warm_up_share,
                "broker": dict(SETTINGS),
                "begun": time.strftime("%Y-%m-%d %H:%M %Z"),
            },
        )
        if any(row.kind is Kind.START for row in plan.rows):
            results.measurements += _time_starts(plan, directory, progress)
        for row in plan.rows:
            if row.kind is Kind.HOLD:
                results.measurements += _measure_holds(row, plan, progress)
            elif row.kind is Kind.LOAD:
                results.measurements += time_loads(
                    row.name, plan.records_of(row), plan.rounds, directory, plan.patience_s, progress
                )
        results.measurements += _measure_clusters(plan, directory, progress)
        for is_cluster in (False, True):
            rows = [row for row in plan.rows if row.load is not None and row.is_cluster is is_cluster]
            if rows:
                one = replace(plan, rows=rows, has_ceiling=plan.has_ceiling and not is_cluster)
                _Rounds(one, directory, progress, results.measurements, is_cluster=is_cluster).run()
    return results


def _time_starts(plan: Plan, directory: Path, progress: Callable[[str], None]) -> list[Measurement]:
    """Start each broker several times, in turn, on a formatted directory after a clean stop."""
    found: list[Measurement] = []
    with ExitStack() as stack:
        brokers = {name: make_broker(name, directory / f"start-{name}") for name in NAMES}
        for broker in brokers.values():
            stack.callback(broker.close)
            broker.start()
            broker.stop()
        for number in range(plan.starts):
            machine.wait_for_quiet(plan.patience_s)
            for name, broker in brokers.items():
                seconds, cpu_s = time_start(broker)
                broker.stop()
                found.append(
                    Measurement(row=Kind.START, broker=name, round=number, value=seconds, cpu_s=cpu_s)
                )
                progress(f"start {number + 1}/{plan.starts}  {name:6} {seconds:.3f} s  (CPU {cpu_s:.2f} s)")
    return found


def _measure_holds(row: Row, plan: Plan, progress: Callable[[str], None]) -> list[Measurement]:
    """Measure inside Ottla's processes how long an assignor holds the loop."""
    found: list[Measurement] = []
    for number in range(plan.rounds):
        held = groups.assignor_holds(plan.load_timeout_s)
        found.append(
            Measurement(
                row=row.name, broker=OTTLA, round=number, value=held.value, details=dict(held.details)
            )
        )
        progress(f"round {number + 1}/{plan.rounds}  {row.name:20} {OTTLA:6} {held.value:>12,.2f} {row.unit}")
    return found


def _measure_clusters(plan: Plan, directory: Path, progress: Callable[[str], None]) -> list[Measurement]:
    """Measure three nodes without a load: failovers, many partitions, a controller's work."""
    found: list[Measurement] = []
    failovers = [row for row in plan.rows if row.kind is Kind.FAILOVER]
    if failovers:
        found += time_failovers(failovers, plan.rounds, directory, plan.patience_s, progress)
    many = [row for row in plan.rows if row.kind in (Kind.MANY, Kind.MANY_MEMORY, Kind.STALL)]
    if many:
        found += measure_many(plan.records_of(many[0]), 1, directory, plan.patience_s, progress)
    for row in plan.rows:
        if row.kind is Kind.REIGN:
            for number in range(plan.rounds):
                figures = measure_reign(plan.records_of(row))
                found.append(
                    Measurement(
                        row=row.name,
                        broker=OTTLA,
                        round=number,
                        value=figures["both_ms"],
                        details=dict(figures),
                    )
                )
                progress(
                    f"round {number + 1}/{plan.rounds}  {row.name:20} {OTTLA:6} {figures['both_ms']:,.1f} ms"
                )
    return found


class _Rounds:
    """The measured rounds over two running brokers."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        progress: Callable[[str], None],
        found: list[Measurement],
        *,
        is_cluster: bool = False,
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._progress = progress
        self._found = found
        self._is_cluster = is_cluster
        self._contenders: list[Contender] = []

    def run(self) -> None:
        try:
            for name in (*NAMES, CEILING) if self._plan.has_ceiling else NAMES:
                self._contenders.append(self._make(name))
            self._warm_up()
            for number in range(self._plan.rounds):
                self._round(number)
            if not self._is_cluster:
                self._note_memory()
        finally:
            for contender in self._contenders:
                contender.close()

    def _make(self, name: str) -> Contender:
        if self._is_cluster:
            return ClusterContender(name, self._directory / f"cluster-{name}")
        return Contender(name, self._directory / name)

    def _warm_up(self) -> None:
        """Run the same unmeasured load on each: every row once, with fewer records."""
        for contender in self._contenders:
            started = time.monotonic()
            filled: set[str] = set()
            for row in self._rows_for(contender):
                records = self._plan.records_of(row)
                if row.filled and _topic_of(row) not in filled:
                    filled.add(_topic_of(row))
                    contender.create_topic(_topic_of(row), row.partitions)
                    fill(self._target(contender, _topic_of(row), row.partitions, records), row.size)
                if row.kind is not Kind.LATENCY:
                    count = records if row.filled else int(records * self._plan.warm_up_share)
                    self._load(row, contender, count, passes=PASSES_WARM_UP)
            self._progress(f"warmed up {contender.name} in {time.monotonic() - started:.0f} s")

    def _round(self, number: int) -> None:
        for row in self._plan.rows:
            if row.load is None:
                continue
            machine.wait_for_quiet(self._plan.patience_s)
            for contender in self._contenders:
                if row not in self._rows_for(contender):
                    continue
                measured = self._measure(row, contender, number)
                self._found.append(measured)
                self._progress(
                    f"round {number + 1}/{self._plan.rounds}  {row.name:20} {contender.name:6} "
                    f"{measured.value:>12,.2f} {row.unit:6} {measured.wall_s:5.1f} s, "
                    f"CPU {measured.cpu_s:6.2f} s, client {measured.client_cpu_s:5.2f} s, "
                    f"others {measured.other_cpu_s:5.2f} s, {measured.memory_mb:.0f} MB"
                )

    def _rows_for(self, contender: Contender) -> list[Row]:
        """The rows with a load; the ceiling broker has no records to read, and no latency to compare."""
        return [
            row
            for row in self._plan.rows
            if row.load is not None
            and (contender.name != CEILING or (row.kind is Kind.THROUGHPUT and not row.filled))
        ]

    def _measure(self, row: Row, contender: Contender, number: int) -> Measurement:
        others = [one for one in self._contenders if one is not contender]
        records, passes = self._plan.records_of(row), self._plan.passes
        return self._load(row, contender, records, number=number, passes=passes, others=others)

    def _load(
        self,
        row: Row,
        contender: Contender,
        records: int,
        *,
        passes: int,
        number: int = -1,
        others: Sequence[Contender] = (),
    ) -> Measurement:
        """Run a row's load on one broker, on its own topic, and check that every record arrived."""
        assert row.load is not None
        topic = _topic_of(row)
        created = time.monotonic()
        if not row.filled:
            contender.create_topic(topic, row.partitions)
        created = time.monotonic() - created
        target = self._target(contender, topic, row.partitions, records, passes if row.filled else 1)
        primed = 0
        if row.primed:
            primed = records
            row.load(target)
        cpu, idle, client = contender.cpu_s(), sum(one.cpu_s() for one in others), _client_cpu_s()
        busy, started = machine.busy_cpu_s(), time.monotonic()
        outcome = row.load(target)
        wall = time.monotonic() - started
        busy = machine.busy_cpu_s() - busy
        cpu = contender.cpu_s() - cpu
        idle = sum(one.cpu_s() for one in others) - idle
        client = _client_cpu_s() - client
        if not row.filled:
            stored = contender.record_count(topic, row.partitions) if row.is_stored else primed + records
            if stored != primed + records:
                raise generators.GeneratorFailed(
                    f"{row.name}: {contender.name} holds {stored} of the {primed + records} records sent."
                )
            contender.delete_topic(topic)
        return Measurement(
            row=row.name,
            broker=contender.name,
            round=number,
            value=outcome.value,
            wall_s=wall,
            cpu_s=cpu,
            idle_cpu_s=idle,
            client_cpu_s=client,
            other_cpu_s=max(0.0, busy - cpu - idle - client),
            memory_mb=contender.memory_mb(),
            details={**outcome.details, "create_topic_s": created},
        )

    def _note_memory(self) -> None:
        for contender in self._contenders[: len(NAMES)]:
            memory = contender.memory_mb()
            self._found.append(
                Measurement(row=Kind.MEMORY, broker=contender.name, round=0, value=memory, memory_mb=memory)
            )
            self._progress(f"memory  {contender.name:6} {memory:.0f} MB")

    def _target(
        self, contender: Contender, topic: str, partitions: int, records: int, passes: int = 1
    ) -> Target:
        return Target(
            port=contender.port,
            topic=topic,
            partitions=partitions,
            records=records,
            passes=passes,
            timeout_s=self._plan.load_timeout_s,
        )


def _topic_of(row: Row) -> str:
    """The topic that a row reads, or a new one that it fills."""
    if row.filled:
        return f"filled-{row.size}-{row.partitions}"
    return f"load-{next(_topic_numbers)}"


def _client_cpu_s() -> float:
    """CPU seconds of all exited children: the load generators."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
