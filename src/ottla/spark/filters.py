"""Filters that Spark pushes down: on topic, partition, offset and timestamp.

They first narrow the ranges: they drop partitions, limit offsets at both ends, and a lower bound of
timestamps moves the start to the first record that the log's time index allows. Then they are applied to the
fetched rows. Rule: an accepted filter must be exact, since Spark does not apply it again; all others are
returned to Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from ottla.client.values import Range, TopicPartition

_LOWEST = -(1 << 63)
_HIGHEST = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = ("partition", "offset", "timestamp")


class Times(Protocol):
    """Looks up the first offset at or after a timestamp."""

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


@dataclass(slots=True)
class Interval:
    """Numbers from `low` to `high`, both inclusive; `among` restricts them further and `without` excludes
    some."""

    low: int = _LOWEST
    high: int = _HIGHEST
    among: frozenset[int] | None = None
    without: frozenset[int] = frozenset()

    def has(self, number: int) -> bool:
        return (
            self.low <= number <= self.high
            and (self.among is None or number in self.among)
            and number not in self.without
        )

    @property
    def is_open(self) -> bool:
        return self == Interval()


@dataclass(slots=True)
class Filters:
    """The conjunction of the accepted filters. Timestamps are milliseconds; topics are compared as
    strings."""

    partition: Interval
    offset: Interval
    timestamp: Interval
    topics: frozenset[str] | None = None

    @classmethod
    def of(cls, filters: Sequence[Any]) -> tuple[Filters, list[Any]]:
        """Return the accepted filters and those that Spark must apply itself."""
        made = cls(Interval(), Interval(), Interval())
        return made, [one for one in filters if not made._take(one)]

    def _take(self, one: Any) -> bool:
        kind = type(one).__name__
        if kind == "Not":
            return self._take_not(one.child)
        if kind == "IsNotNull":
            return one.attribute in ((name,) for name in ("topic", *_NUMBERS))
        name = _column(one)
        if name == "topic":
            return self._take_topic(kind, one.value)
        if name not in _NUMBERS:
            return False
        interval: Interval = getattr(self, name)
        if kind == "In":
            values = [_exact(name, value) for value in one.value if value is not None]
            if any(value is NotImplemented for value in values):
                return False
            named = frozenset(value for value in values if value is not None)
            interval.among = named if interval.among is None else interval.among & named
            return True
        return _narrow(interval, kind, name, one.value)

    def _take_topic(self, kind: str, value: Any) -> bool:
        if kind in ("EqualTo", "EqualNullSafe") and isinstance(value, str):
            named = frozenset([value])
        elif kind == "In" and all(isinstance(one, str) for one in value):
            named = frozenset(value)
        else:
            return False
        self.topics = named if self.topics is None else self.topics & named
        return True

    def _take_not(self, child: Any) -> bool:
        name = _column(child)
        kind = type(child).__name__
        if name not in ("partition", "offset") or kind not in ("EqualTo", "EqualNullSafe", "In"):
            return False
        values = child.value if kind == "In" else (child.value,)
        if not all(_is_whole(value) for value in values):
            return False
        interval: Interval = getattr(self, name)
        interval.without |= frozenset(values)
        return True

    # Narrowing ranges.

    def narrow(self, spans: Iterable[Range], times: Times) -> list[Range]:
        """The ranges without the offsets that the filters certainly exclude."""
        left = []
        for span in spans:
            if self.topics is not None and span.topic not in self.topics:
                continue
            if self.partition.has(span.partition):
                left.append(self._cut(span))
        return self._cut_by_time([span for span in left if span.start < span.end], times)

    def _cut(self, span: Range) -> Range:
        low, high = self.offset.low, self.offset.high
        if self.offset.among is not None:
            low = max(low, min(self.offset.among, default=_HIGHEST))
            high = min(high, max(self.offset.among, default=_LOWEST))
        start = min(max(span.start, low), span.end)
        return span._replace(start=start, end=max(min(span.end, high + 1), start))

    def _cut_by_time(self, spans: list[Range], times: Times) -> list[Range]:
        low = self.timestamp.low
        if self.timestamp.among is not None:
            low = max(low, min(self.timestamp.among, default=_HIGHEST))
        if low <= 0 or not spans:
            return spans
        found = times.at_times({span.key: low for span in spans})
        cut = []
        for span in spans:
            first = found[span.key]  # all before it are older; later ones may be older, too
            if first is not None and first < span.end:
                cut.append(span._replace(start=max(span.start, first)))
        return cut

    # Filtering rows.

    def apply(self, batch: Any) -> Any:
        """The rows that pass the filters."""
        import pyarrow.compute as pc

        mask = None
        for name in _NUMBERS:
            interval: Interval = getattr(self, name)
            if not interval.is_open:
                column = batch.column(name)
                numbers = column.cast("int64") if name != "offset" else column
                for part in _conditions(pc, numbers, interval):
                    mask = part if mask is None else pc.and_(mask, part)
        return batch if mask is None else batch.filter(mask)


def _conditions(pc: Any, numbers: Any, interval: Interval) -> list[Any]:
    import pyarrow as pa

    found = []
    if interval.low != _LOWEST:
        found.append(pc.greater_equal(numbers, interval.low))
    if interval.high != _HIGHEST:
        found.append(pc.less_equal(numbers, interval.high))
    if interval.among is not None:
        found.append(pc.is_in(numbers, pa.array(sorted(interval.among), pa.int64())))
    if interval.without:
        found.append(pc.invert(pc.is_in(numbers, pa.array(sorted(interval.without), pa.int64()))))
    return found


def _column(one: Any) -> str | None:
    attribute = getattr(one, "attribute", None)
    return attribute[0] if attribute is not None and len(attribute) == 1 else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _LOWEST <= value <= _HIGHEST


def _micros(value: Any) -> int | None:
    """Convert a timestamp from Spark, which is in UTC, to microseconds since 1970."""
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _exact(name: str, value: Any) -> Any:
    """The integer that equals a value; None if no record can have it, NotImplemented for other types."""
    if name != "timestamp":
        return value if _is_whole(value) else NotImplemented
    micros = _micros(value)
    if micros is None:
        return NotImplemented
    return micros // 1000 if micros % 1000 == 0 else None


def _narrow(interval: Interval, kind: str, name: str, value: Any) -> bool:
    """Accept a comparison. Records have whole milliseconds; the compared value may be more precise."""
    number = _micros(value) if name == "timestamp" else value if _is_whole(value) else None
    if number is None:
        return False
    unit = 1000 if name == "timestamp" else 1
    match kind:
        case "EqualTo" | "EqualNullSafe":
            low, high = -(-number // unit), number // unit
        case "GreaterThan":
            low, high = number // unit + 1, _HIGHEST
        case "GreaterThanOrEqual":
            low, high = -(-number // unit), _HIGHEST
        case "LessThan":
            low, high = _LOWEST, -(-number // unit) - 1
        case "LessThanOrEqual":
            low, high = _LOWEST, number // unit
        case _:
            return False
    interval.low, interval.high = max(interval.low, low), min(interval.high, high)
    return True
