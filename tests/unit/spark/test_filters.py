"""Filters from Spark: applied exactly, or returned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.values import Range, TopicPartition
from ottla.spark.filters import Filters

pa = pytest.importorskip("pyarrow")
datasource = pytest.importorskip("pyspark.sql.datasource")

START = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


class Log:
    """A log with one record per millisecond, offset 0 at START: a stand-in for a broker's time index."""

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return {key: max(time - START_MS, 0) for key, time in times.items()}


def rows(span: Range) -> Any:
    offsets = list(range(span.start, span.end))
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([span.topic] * len(offsets), pa.string()).dictionary_encode(),
            "partition": pa.array([span.partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([START_MS + offset for offset in offsets], pa.timestamp("ms")),
        }
    )


def kept(filters: list[Any], spans: list[Range]) -> list[tuple[str, int, int]]:
    made, left = Filters.of(filters)
    assert not left
    found = []
    for span in made.narrow(spans, Log()):
        for row in made.apply(rows(span)).to_pylist():
            found.append((row["topic"], row["partition"], row["offset"]))
    return found


NUMBERS = st.integers(-2, 12)
MICROS = st.integers(-2000, 12_000)


def times(micros: int) -> datetime:
    return START + timedelta(microseconds=micros)


COMPARISONS: dict[str, Any] = {
    "EqualTo": lambda one, two: one == two,
    "GreaterThan": lambda one, two: one > two,
    "GreaterThanOrEqual": lambda one, two: one >= two,
    "LessThan": lambda one, two: one < two,
    "LessThanOrEqual": lambda one, two: one <= two,
    "In": lambda one, two: one in two,
}


@st.composite
def conditions(draw: Any) -> tuple[Any, Any]:
    """A filter of Spark's, and its predicate on (topic, partition, offset)."""
    column = draw(st.sampled_from(["partition", "offset", "timestamp", "topic"]))
    if column == "topic":
        named = draw(st.lists(st.sampled_from(["a", "b", "z"]), min_size=1))
        return datasource.In(("topic",), tuple(named)), lambda row: row[0] in named
    kind = draw(st.sampled_from(sorted(COMPARISONS)))
    values: Any = MICROS.map(times) if column == "timestamp" else NUMBERS
    value = tuple(draw(st.lists(values, min_size=1, max_size=4))) if kind == "In" else draw(values)
    place: Any = {"partition": lambda row: row[1], "offset": lambda row: row[2]}.get(
        column, lambda row: times(row[2] * 1000)
    )
    made = getattr(datasource, kind)((column,), value)
    if kind in ("EqualTo", "In") and column != "timestamp" and draw(st.booleans()):
        return datasource.Not(made), lambda row: not COMPARISONS[kind](place(row), value)
    return made, lambda row: COMPARISONS[kind](place(row), value)


@given(st.lists(conditions(), max_size=4))
def test_accepted_filters_are_exact(drawn: list[tuple[Any, Any]]) -> None:
    spans = [Range(topic, partition, 0, 10) for topic in ("a", "b") for partition in (0, 1)]
    every = [(span.topic, span.partition, offset) for span in spans for offset in range(10)]
    wanted = [row for row in every if all(holds(row) for _, holds in drawn)]
    assert kept([one for one, _ in drawn], spans) == wanted


def test_ranges_are_narrowed_before_reading() -> None:
    made, left = Filters.of(
        [
            datasource.GreaterThanOrEqual(("offset",), 100),
            datasource.LessThan(("offset",), 200),
            datasource.EqualTo(("partition",), 1),
            datasource.GreaterThan(("timestamp",), START + timedelta(milliseconds=150)),
            datasource.IsNotNull(("offset",)),
        ]
    )
    assert left == []
    spans = [Range("a", partition, 0, 1000) for partition in range(3)]
    assert made.narrow(spans, Log()) == [Range("a", 1, 151, 200)]


def test_an_upper_time_bound_does_not_narrow_ranges() -> None:
    made, left = Filters.of([datasource.LessThan(("timestamp",), START + timedelta(milliseconds=3))])
    assert left == []
    [span] = made.narrow([Range("a", 0, 0, 10)], Log())
    assert span == Range("a", 0, 0, 10)
    assert made.apply(rows(span)).num_rows == 3


def test_unsupported_filters_are_returned() -> None:
    filters = [
        datasource.EqualTo(("value",), b"x"),
        datasource.StringStartsWith(("topic",), "a"),
        datasource.IsNull(("key",)),
        datasource.Not(datasource.GreaterThan(("offset",), 3)),
        datasource.EqualTo(("offset",), 1.5),
        datasource.EqualTo(("value", "offset"), 3),
    ]
    made, left = Filters.of(filters)
    assert left == filters
    spans = [Range("a", 0, 0, 10)]
    assert made.narrow(spans, Log()) == spans
