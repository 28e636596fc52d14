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

from bench.rows import ROWS, Kind, Row, Section

KAFKA = "kafka"
OTTLA = "ottla"
CEILING = "ceiling"
NAMES = (KAFKA, OTTLA)

THROUGHPUT_RATIO_MIN = 1.5
CPU_RATIO_MAX = 0.5
LATENCY_RATIO_MAX = 1.0
GROUP_RATIO = 1.0
TRANSACTION_RATIO_MIN = 1.3
COMMITTED_SHARE_MIN = 0.95
REPLICATED_RATIO_MIN = 1.3
FAILOVER_RATIO_MAX = 1.0
MANY_RATIO_MAX = 1.0
MANY_MEMORY_MB_MAX = 150.0
STALL_MS_MAX = 500.0
"""A quarter of the time between two heartbeats."""
REIGN_MS_MAX = 1000.0
HOLD_MS_MAX = 10.0
START_SECONDS_MAX = 0.4
MEMORY_MB_MAX = 80.0
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

    `cpu_s` is the broker's; `other_cpu_s` is the CPU time of unrelated processes: the noise.
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

    def of(self, row: str, broker: str) -> list[Measurement]:
        return [one for one in self.measurements if one.row == row and one.broker == broker]

    def lines(self) -> list[Line]:
        """The table: one line for each row that both brokers ran, or Ottla if only Ottla can."""
        return [
            Line.of(row, self.of(row.name, KAFKA), self.of(row.name, OTTLA), self.of(row.name, CEILING))
            for row in ROWS
            if self.of(row.name, OTTLA) and (self.of(row.name, KAFKA) or row.kind in ONLY_OTTLA)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the table: medians over the rounds, and the verdict."""

    name: str
    title: str
    unit: str
    kind: Kind
    section: Section
    rounds: int
    kafka: float | None
    ottla: float
    ratio: float | None
    ratio_least: float | None
    ratio_most: float | None
    kafka_cpu_s: float
    ottla_cpu_s: float
    cpu_ratio: float | None
    ottla_busy: float | None
    noise: float
    ceiling: float | None
    wanted: str
    verdict: Verdict

    @classmethod
    def of(
        cls, row: Row, kafka: list[Measurement], ottla: list[Measurement], most: list[Measurement]
    ) -> Line:
        kafka_value = median(one.value for one in kafka) if kafka else None
        ottla_value = median(one.value for one in ottla)
        kafka_cpu_s = median(one.cpu_s for one in kafka) if kafka else 0.0
        ottla_cpu_s = median(one.cpu_s for one in ottla)
        pairs = [b.value / a.value for a, b in zip(kafka, ottla, strict=False) if a.value]
        ratio = ottla_value / kafka_value if kafka_value else None
        is_loaded = row.load is not None or row.kind is Kind.LOAD
        cpu_ratio = ottla_cpu_s / kafka_cpu_s if is_loaded and kafka_cpu_s else None
        ceiling = median(one.value for one in most) if most else None
        wanted, verdict = _judge(row.kind, ottla_value, ratio or 0.0, cpu_ratio, ceiling)
        walls = [one for one in kafka + ottla if one.wall_s]
        is_busy_known = row.load is not None and bool(walls)
        return cls(
            name=row.name,
            title=row.title,
            unit=row.unit,
            kind=row.kind,
            section=row.section,
            rounds=len(ottla),
            kafka=kafka_value,
            ottla=ottla_value,
            ratio=ratio,
            ratio_least=min(pairs, default=ratio),
            ratio_most=max(pairs, default=ratio),
            kafka_cpu_s=kafka_cpu_s,
            ottla_cpu_s=ottla_cpu_s,
            cpu_ratio=cpu_ratio,
            ottla_busy=median(one.cpu_s / one.wall_s for one in ottla) if is_busy_known else None,
            noise=median(one.other_cpu_s / one.wall_s for one in walls) if walls else 0.0,
            ceiling=ceiling,
            wanted=wanted,
            verdict=verdict,
        )


def _judge(
    kind: Kind, ottla: float, ratio: float, cpu_ratio: float | None, ceiling: float | None
) -> tuple[str, Verdict]:
    is_thrifty = cpu_ratio is None or cpu_ratio <= CPU_RATIO_MAX
    if kind is Kind.THROUGHPUT:
        wanted = f"≥ {THROUGHPUT_RATIO_MIN:g}x, CPU ≤ {CPU_RATIO_MAX:g}x"
        if is_thrifty and ratio < THROUGHPUT_RATIO_MIN and ceiling and ottla >= CEILING_SHARE_MIN * ceiling:
            return wanted, Verdict.LIMITED
        return wanted, _met(is_thrifty and ratio >= THROUGHPUT_RATIO_MIN)
    if kind is Kind.LATENCY:
        wanted = f"≤ {LATENCY_RATIO_MAX:g}x, CPU ≤ {CPU_RATIO_MAX:g}x"
        return wanted, _met(is_thrifty and ratio <= LATENCY_RATIO_MAX)
    if kind is Kind.RATE:
        return f"≥ {GROUP_RATIO:g}x", _met(ratio >= GROUP_RATIO)
    if kind is Kind.TRANSACTIONS:
        return f"≥ {TRANSACTION_RATIO_MIN:g}x", _met(ratio >= TRANSACTION_RATIO_MIN)
    if kind is Kind.REPLICATED:
        return f"≥ {REPLICATED_RATIO_MIN:g}x", _met(ratio >= REPLICATED_RATIO_MIN)
    if kind is Kind.REPLICATED_LATENCY:
        return f"≤ 1/{REPLICATED_RATIO_MIN:g}x", _met(ratio * REPLICATED_RATIO_MIN <= 1)
    if kind is Kind.FAILOVER:
        return f"≤ {FAILOVER_RATIO_MAX:g}x", _met(ratio <= FAILOVER_RATIO_MAX)
    if kind is Kind.MANY:
        return f"≤ {MANY_RATIO_MAX:g}x", _met(ratio <= MANY_RATIO_MAX)
    if kind is Kind.MANY_MEMORY:
        return f"< {MANY_MEMORY_MB_MAX:g} MB", _met(ottla < MANY_MEMORY_MB_MAX)
    if kind is Kind.STALL:
        return f"≤ {STALL_MS_MAX:g} ms", _met(ottla <= STALL_MS_MAX)
    if kind is Kind.REIGN:
        return f"< {REIGN_MS_MAX:g} ms", _met(ottla < REIGN_MS_MAX)
    if kind is Kind.COMMITTED:
        return f"≥ {COMMITTED_SHARE_MIN:g}", _met(ottla >= COMMITTED_SHARE_MIN)
    if kind in (Kind.TIME, Kind.LOAD):
        return f"≤ {GROUP_RATIO:g}x", _met(ratio <= GROUP_RATIO)
    if kind is Kind.HOLD:
        return f"≤ {HOLD_MS_MAX:g} ms", _met(ottla <= HOLD_MS_MAX)
    if kind is Kind.START:
        return f"≤ {START_SECONDS_MAX:g} s", _met(ottla <= START_SECONDS_MAX)
    return f"< {MEMORY_MB_MAX:g} MB", _met(ottla < MEMORY_MB_MAX)


def _met(is_met: bool) -> Verdict:
    return Verdict.MET if is_met else Verdict.SHORT


def longest_gap_s(times: Sequence[float], since: float) -> float:
    """The longest time without an acknowledgment, from the last one before `since` on."""
    first = max((at for at, one in enumerate(times) if one <= since), default=0)
    return max(later - earlier for earlier, later in itertools.pairwise(times[first:]))
