"""Turns Spark's progress reports of a query into values to display. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one query after a batch. Rates are rows per second; lag is the number of unread
    records."""

    sink: str
    state: str
    batch: int | None = None
    rows: int = 0
    rows_total: int = 0
    input_rate: float = 0.0
    processed_rate: float = 0.0
    lag: int | None = None
    batch_ms: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    restarts: int = 0
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def offsets_of(value: Any) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition; empty if the source has another kind of offset."""
    if not isinstance(value, Mapping):
        return {}
    return {
        topic: {str(partition): int(offset) for partition, offset in each.items()}
        for topic, each in value.items()
        if not topic.startswith("#") and isinstance(each, Mapping)
    }


def lag_of(sources: list[Mapping[str, Any]]) -> int | None:
    """Records between the end of the batch and the end of the logs; None if no source reports it."""
    total = None
    for source in sources:
        end, latest = offsets_of(source.get("endOffset")), offsets_of(source.get("latestOffset"))
        for topic, partitions in latest.items():
            for partition, offset in partitions.items():
                behind = offset - end.get(topic, {}).get(partition, 0)
                total = (total or 0) + max(0, behind)
    return total


def is_idle(report: Mapping[str, Any]) -> bool:
    """Whether the report only says that there was no data."""
    return not report.get("numInputRows") and "addBatch" not in (report.get("durationMs") or {})


def progress_of(sink: str, report: Mapping[str, Any], *, rows_before: int, restarts: int) -> Progress:
    """Convert one report of Spark."""
    states = report.get("stateOperators") or []
    rows = int(report.get("numInputRows") or 0)
    return Progress(
        sink=sink,
        state="running",
        batch=int(report["batchId"]),
        rows=rows,
        rows_total=rows_before + rows,
        input_rate=float(report.get("inputRowsPerSecond") or 0.0),
        processed_rate=float(report.get("processedRowsPerSecond") or 0.0),
        lag=lag_of(list(report.get("sources") or [])),
        batch_ms=int(
            (report.get("durationMs") or {}).get("triggerExecution") or report.get("batchDuration") or 0
        ),
        state_rows=sum(int(one.get("numRowsTotal") or 0) for one in states),
        state_bytes=sum(int(one.get("memoryUsedBytes") or 0) for one in states),
        late_rows=sum(int(one.get("numRowsDroppedByWatermark") or 0) for one in states),
        restarts=restarts,
    )
