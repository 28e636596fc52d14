"""One run, row by row: rounds until Kafka is warm, then those that count. Results are kept after each row.

In any case it stops every process that it started.
"""

from __future__ import annotations

import itertools
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from bench import generators, groups, machine, settling
from bench.clusters import ClusterContender
from bench.contenders import SETTINGS, Contender, make_broker, time_start
from bench.failover import time_failovers
from bench.generators import Target
from bench.many_partitions import measure_many
from bench.offset_load import time_loads
from bench.reign import measure_reign
from bench.results import CEILING, KAFKA, NAMES, OTTLA, PLAIN, Measurement, Results, is_warm
from bench.rows import Kind, Row, fill

PASSES = 6
PASSES_QUICK = 4
_topic_numbers = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The parameters of a run."""

    rows: Sequence[Row]
    has_ceiling: bool = True
    has_plain: bool = False
    warm_ups_max: int = settling.ROUNDS_MAX
    rounds: int = 3
    starts: int = 5
    is_quick: bool = False
    load_timeout_s: int = 180
    patience_s: float = 0.0
    directory: Path | None = None

    def records_of(self, row: Row) -> int:
        return row.quick_records if self.is_quick else row.records

    @property
    def passes(self) -> int:
        """How often consumers read a topic."""
        return PASSES_QUICK if self.is_quick else PASSES


def new_results(plan: Plan) -> Results:
    """Results without measurements: the machine, and the settings of the plan."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=plan.directory) as temporary:
        facts = machine.facts(Path(temporary))
    settings = {
        "rounds": plan.rounds,
        "starts": plan.starts,
        "is_quick": plan.is_quick,
        "warm_ups_max": plan.warm_ups_max,
        "broker": dict(SETTINGS),
        "begun": time.strftime("%Y-%m-%d %H:%M %Z"),
    }
    return Results(facts, settings)


def run(
    plan: Plan, results: Results, keep: Callable[[Results], None], progress: Callable[[str], None]
) -> None:
    """Run the rows of the plan that `results` does not have; `keep` gets the results after each part.

    `progress` gets a line for each step.
    """
    generators.build_all()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=plan.directory) as temporary:
        directory = Path(temporary)
        missing = replace(plan, rows=[row for row in plan.rows if not results.has(row.name)])
        for part in _parts(missing, directory, progress):
            results.measurements += part()
            keep(results)
        for is_cluster in (False, True):
            rows = [row for row in missing.rows if row.load is not None and row.is_cluster is is_cluster]
            if rows:
                one = replace(missing, rows=rows, has_ceiling=plan.has_ceiling and not is_cluster)
                _Loads(one, directory, progress, results, is_cluster=is_cluster).run(keep)


def _parts(
    plan: Plan, directory: Path, progress: Callable[[str], None]
) -> list[Callable[[], list[Measurement]]]:
    """The measurements without a repeated load on running brokers."""

    def kept(kinds: Sequence[Kind]) -> list[Row]:
        return [row for row in plan.rows if row.kind in kinds]

    parts: list[Callable[[], list[Measurement]]] = []
    if kept([Kind.START]):
        parts.append(lambda: _time_starts(plan, directory, progress))
    for row in kept([Kind.HOLD]):
        parts.append(partial(_measure_holds, row, plan, progress))
    for row in kept([Kind.LOAD]):
        names = (*NAMES, PLAIN) if plan.has_plain else NAMES
        records = plan.records_of(row)
        parts.append(
            partial(time_loads, row.name, records, plan.rounds, directory, plan.patience_s, progress, names)
        )
    if failovers := kept([Kind.FAILOVER]):
        parts.append(lambda: time_failovers(failovers, plan.rounds, directory, plan.patience_s, progress))
    if many := kept([Kind.MANY, Kind.MANY_MEMORY, Kind.STALL]):
        parts.append(lambda: _measure_many(many, plan, directory, progress))
    for row in kept([Kind.REIGN]):
        parts.append(partial(_measure_reigns, row, plan, progress))
    return parts


def _time_starts(plan: Plan, directory: Path, progress: Callable[[str], None]) -> list[Measurement]:
    """Start each broker several times, in turn, on a formatted directory after a clean stop."""
    found: list[Measurement] = []
    with ExitStack() as stack:
        names = (*NAMES, PLAIN) if plan.has_plain else NAMES
        brokers = {name: make_broker(name, directory / f"start-{name}") for name in names}
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
                progress(f"start {number + 1}/{plan.starts}  {name:11} {seconds:.3f} s  (CPU {cpu_s:.2f} s)")
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
        progress(
            f"round {number + 1}/{plan.rounds}  {row.name:20} {OTTLA:11} {held.value:>12,.2f} {row.unit}"
        )
    return found


def _measure_many(
    rows: Sequence[Row], plan: Plan, directory: Path, progress: Callable[[str], None]
) -> list[Measurement]:
    """Measure three nodes with many partitions: one story has the figures of several rows."""
    names = {row.name for row in rows}
    found = measure_many(plan.records_of(rows[0]), plan.rounds, directory, plan.patience_s, progress)
    return [one for one in found if one.row in names]


def _measure_reigns(row: Row, plan: Plan, progress: Callable[[str], None]) -> list[Measurement]:
    """Measure a new controller's work in this process."""
    found: list[Measurement] = []
    for number in range(plan.rounds):
        figures = measure_reign(plan.records_of(row))
        value = figures["both_ms"]
        found.append(
            Measurement(row=row.name, broker=OTTLA, round=number, value=value, details=dict(figures))
        )
        progress(f"round {number + 1}/{plan.rounds}  {row.name:20} {OTTLA:11} {value:,.1f} ms")
    return found


class _Loads:
    """The rows with a load, over running brokers."""

    def __init__(
        self,
        plan: Plan,
        directory: Path,
        progress: Callable[[str], None],
        results: Results,
        *,
        is_cluster: bool = False,
    ) -> None:
        self._plan = plan
        self._directory = directory
        self._progress = progress
        self._results = results
        self._is_cluster = is_cluster
        self._contenders: list[Contender] = []
        self._filled: set[str] = set()

    def run(self, keep: Callable[[Results], None]) -> None:
        others = [CEILING] * self._plan.has_ceiling + [PLAIN] * self._plan.has_plain
        try:
            for name in (*NAMES, *others):
                self._contenders.append(self._make(name))
            for row in self._plan.rows:
                self._results.measurements += self._rounds(row)
                keep(self._results)
            if not self._is_cluster and not self._results.has(Kind.MEMORY):
                self._note_memory()
                keep(self._results)
        finally:
            for contender in self._contenders:
                contender.close()

    def _make(self, name: str) -> Contender:
        if self._is_cluster:
            return ClusterContender(name, self._directory / f"cluster-{name}")
        return Contender(name, self._directory / name)

    def _rounds(self, row: Row) -> list[Measurement]:
        """Both brokers run the same unmeasured rounds until Kafka is warm; then all contenders, in turn."""
        contenders = self._contenders_of(row)
        if row.filled:
            for contender in contenders:
                self._fill(row, contender)
        found: list[Measurement] = []
        for number in range(self._plan.warm_ups_max):
            # Those without a run-time compiler get only the first.
            taking_part = contenders if number == 0 else [one for one in contenders if one.name in NAMES]
            found += self._round(row, number, taking_part, is_warm_up=True)
            if is_warm(row, [one for one in found if one.broker == KAFKA]):
                break
        for number in range(self._plan.rounds):
            found += self._round(row, number, contenders)
        return found

    def _round(
        self, row: Row, number: int, contenders: Sequence[Contender], *, is_warm_up: bool = False
    ) -> list[Measurement]:
        machine.wait_for_quiet(self._plan.patience_s)
        found: list[Measurement] = []
        for contender in contenders:
            measured = self._measure(row, contender, number, is_warm_up=is_warm_up)
            found.append(measured)
            said = f"warm-up {number + 1}" if is_warm_up else f"round {number + 1}/{self._plan.rounds}"
            self._progress(
                f"{said:9}  {row.name:20} {contender.name:11} "
                f"{measured.value:>12,.2f} {row.unit:6} {measured.wall_s:5.1f} s, "
                f"CPU {measured.cpu_s:6.2f} s, client {measured.client_cpu_s:5.2f} s, "
                f"others {measured.other_cpu_s:5.2f} s, {measured.memory_mb:.0f} MB"
            )
        return found

    def _contenders_of(self, row: Row) -> list[Contender]:
        """The ceiling broker has no records to read, and no latency to compare."""
        has_ceiling = row.kind is Kind.THROUGHPUT and not row.filled
        return [one for one in self._contenders if one.name != CEILING or has_ceiling]

    def _fill(self, row: Row, contender: Contender) -> None:
        topic = _topic_of(row)
        if f"{contender.name} {topic}" not in self._filled:
            self._filled.add(f"{contender.name} {topic}")
            contender.create_topic(topic, row.partitions)
            records = self._plan.records_of(row)
            fill(self._target(contender, topic, row.partitions, records), row.size)

    def _measure(self, row: Row, contender: Contender, number: int, *, is_warm_up: bool) -> Measurement:
        """Run a row's load on one broker, on its own topic, and check that every record arrived."""
        assert row.load is not None
        others = [one for one in self._contenders if one is not contender]
        records, passes = self._plan.records_of(row), self._plan.passes
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
            operations=records,
            is_warm_up=is_warm_up,
            details={**outcome.details, "create_topic_s": created},
        )

    def _note_memory(self) -> None:
        for contender in self._contenders[: len(NAMES)]:
            memory = contender.memory_mb()
            self._results.measurements.append(
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
