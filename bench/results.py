"""The measurements of a run, their evaluation, and their storage as JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Any

from bench.goals import Figures
from bench.rows import ROWS, Kind, Row, Section
from bench.settling import is_settled

KAFKA = "kafka"
OTTLA = "ottla"
CEILING = "ceiling"
PLAIN = "ottla-plain"
"""Ottla with nothing compiled."""
NAMES = (KAFKA, OTTLA)
BROKERS = (KAFKA, OTTLA, CEILING, PLAIN)

ONLY_OTTLA = (Kind.HOLD, Kind.REIGN)
"""Measurements inside Ottla's own code."""
CEILING_SHARE_MIN = 0.93
"""Above this share of a broker that stores nothing, the load generator is the limit."""


class Verdict(StrEnum):
    MET = "met"
    LIMITED = "generator's limit"
    SHORT = "short"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One load on one broker.

    `cpu_s` is the broker's, for `operations` records or requests; `other_cpu_s` is the CPU time of unrelated
    processes: the noise. Rounds before a row's brokers are warm do not count (`is_warm_up`).
    """

    row: str
    broker: str
    round: int
    value: float
    wall_s: float = 0.0
    cpu_s: float = 0.0
    idle_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    other_cpu_s: float = 0.0
    memory_mb: float = 0.0
    operations: int = 0
    is_warm_up: bool = False
    details: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Results:
    """The results of one run."""

    machine: dict[str, str]
    settings: dict[str, Any]
    measurements: list[Measurement] = field(default_factory=list)

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps(asdict(self) | {"summary": [asdict(line) for line in self.lines()]}, indent=1)
        )

    @classmethod
    def read(cls, path: Path) -> Results:
        document = json.loads(path.read_text())
        return cls(
            document["machine"],
            document["settings"],
            [Measurement(**one) for one in document["measurements"]],
        )

    def with_others(self, others: Iterable[Results]) -> Results:
        """Merge several runs: if several have a row, the last one counts."""
        joined = Results(self.machine, dict(self.settings), list(self.measurements))
        runs = [str(self.settings["begun"])]
        for other in others:
            replaced = {one.row for one in other.measurements}
            joined.measurements = [one for one in joined.measurements if one.row not in replaced]
            joined.measurements += other.measurements
            runs.append(str(other.settings["begun"]))
        joined.settings["begun"] = ", ".join(dict.fromkeys(runs))
        return joined

    def continued(self, now: Results) -> Results:
        """These results, if a run on the machine of `now` may add rows to them."""
        if self.machine != now.machine:
            different = [name for name in now.machine if self.machine.get(name) != now.machine[name]]
            raise AssertionError(
                f"The results so far are of another machine: {', '.join(different)} differs."
            )
        begun = dict.fromkeys([*str(self.settings["begun"]).split(", "), str(now.settings["begun"])])
        return Results(self.machine, {**self.settings, "begun": ", ".join(begun)}, self.measurements)

    def of(self, row: str, broker: str, *, is_warm_up: bool = False) -> list[Measurement]:
        """The rounds of a row that count, or those before."""
        return [
            one
            for one in self.measurements
            if one.row == row and one.broker == broker and one.is_warm_up is is_warm_up
        ]

    def has(self, row: str) -> bool:
        """Whether this row was measured."""
        return bool(self.of(row, OTTLA))

    def lines(self) -> list[Line]:
        """The table: one line for each row that both brokers ran, or Ottla if only Ottla can."""
        return [
            self._line(row)
            for row in ROWS
            if self.has(row.name) and (self.of(row.name, KAFKA) or row.kind in ONLY_OTTLA)
        ]

    def _line(self, row: Row) -> Line:
        rounds = {name: self.of(row.name, name) for name in BROKERS}
        return Line.of(row, rounds, {name: self.of(row.name, name, is_warm_up=True) for name in NAMES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table: medians over the rounds, and the verdict.

    `rounds` and `warm_ups` have the figures of each contender in the order of the rounds.
    """

    name: str
    title: str
    unit: str
    kind: Kind
    section: Section
    rounds: Mapping[str, Sequence[float]]
    warm_ups: Mapping[str, Sequence[float]]
    is_kafka_warm: bool
    kafka: float | None
    ottla: float
    ratio: float | None
    ratios: Sequence[float]
    kafka_cpu_s: float
    ottla_cpu_s: float
    cpu_ratio: float | None
    ottla_cpu_us: float | None
    ottla_busy: float | None
    noise: float
    ceiling: float | None
    plain: float | None
    plain_cpu_ratio: float | None
    wanted: str
    verdict: Verdict

    @classmethod
    def of(
        cls,
        row: Row,
        rounds: Mapping[str, list[Measurement]],
        warm_ups: Mapping[str, list[Measurement]],
    ) -> Line:
        kafka, ottla = rounds[KAFKA], rounds[OTTLA]
        medians = {name: median(one.value for one in found) for name, found in rounds.items() if found}
        cpu_s = {name: median(one.cpu_s for one in found) for name, found in rounds.items() if found}
        kafka_value, ottla_value = medians.get(KAFKA), medians[OTTLA]
        ratio = ottla_value / kafka_value if kafka_value else None
        ratios = [b.value / a.value for a, b in zip(kafka, ottla, strict=False) if a.value]
        is_loaded = row.load is not None or row.kind is Kind.LOAD
        cpu_ratio = cpu_s[OTTLA] / cpu_s[KAFKA] if is_loaded and cpu_s.get(KAFKA) else None
        plain_cpu_ratio = cpu_s[PLAIN] / cpu_s[OTTLA] if PLAIN in cpu_s and cpu_s[OTTLA] else None
        operations = ottla[0].operations
        figures = Figures(
            value=ottla_value,
            ratio=ratio,
            ratios=ratios,
            cpu_ratio=cpu_ratio,
            cpu_us=cpu_s[OTTLA] / operations * 1e6 if operations and is_loaded else None,
        )
        walls = [one for one in kafka + ottla if one.wall_s]
        is_busy_known = row.load is not None and bool(walls)
        return cls(
            name=row.name,
            title=row.title,
            unit=row.unit,
            kind=row.kind,
            section=row.section,
            rounds={name: [one.value for one in found] for name, found in rounds.items()},
            warm_ups={name: [one.value for one in found] for name, found in warm_ups.items()},
            is_kafka_warm=is_warm(row, warm_ups[KAFKA]),
            kafka=kafka_value,
            ottla=ottla_value,
            ratio=ratio,
            ratios=ratios,
            kafka_cpu_s=cpu_s.get(KAFKA, 0.0),
            ottla_cpu_s=cpu_s[OTTLA],
            cpu_ratio=cpu_ratio,
            ottla_cpu_us=figures.cpu_us,
            ottla_busy=median(one.cpu_s / one.wall_s for one in ottla) if is_busy_known else None,
            noise=median(one.other_cpu_s / one.wall_s for one in walls) if walls else 0.0,
            ceiling=medians.get(CEILING),
            plain=medians.get(PLAIN),
            plain_cpu_ratio=plain_cpu_ratio if is_loaded else None,
            wanted=row.goal.text(row.unit),
            verdict=_judge(row, figures, medians.get(CEILING)),
        )


def is_warm(row: Row, warm_ups: Sequence[Measurement]) -> bool:
    """Whether a contender no longer got better; a row without a repeated load needs no warm-up."""
    if row.load is None:
        return True
    if row.is_paced:
        return is_settled([one.cpu_s for one in warm_ups], is_less_better=True)
    return is_settled([one.value for one in warm_ups], is_less_better=row.is_less_better)


def _judge(row: Row, figures: Figures, ceiling: float | None) -> Verdict:
    if row.goal.is_met(figures):
        return Verdict.MET
    is_close = ceiling is not None and figures.value >= CEILING_SHARE_MIN * ceiling
    return Verdict.LIMITED if is_close and row.goal.is_cpu_met(figures) else Verdict.SHORT


def longest_gap_s(times: Sequence[float], since: float) -> float:
    """The longest time without an acknowledgment, from the last one before `since` on."""
    first = max((at for at, one in enumerate(times) if one <= since), default=0)
    return max(later - earlier for earlier, later in itertools.pairwise(times[first:]))
