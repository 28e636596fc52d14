"""The order of the rounds of a row, with invented contenders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from bench.contenders import Contender
from bench.results import CEILING, KAFKA, OTTLA, PLAIN, Measurement, Results
from bench.rows import ROWS, Row
from bench.runner import Plan, _Loads

(PRODUCE,) = (row for row in ROWS if row.name == "produce-100")


class Named:
    """A contender of which only the name is needed."""

    def __init__(self, name: str) -> None:
        self.name = name


def _run(
    monkeypatch: pytest.MonkeyPatch,
    kafka: Sequence[float],
    names: Sequence[str] = (KAFKA, OTTLA),
    warm_ups_max: int = 8,
) -> Results:
    """Kafka's figures of the warm-up rounds are given; all others are 1."""
    figures: Mapping[str, Sequence[float]] = {KAFKA: kafka}

    def measure(
        _loads: _Loads, row: Row, contender: Contender, number: int, *, is_warm_up: bool
    ) -> Measurement:
        value = figures[KAFKA][number] if is_warm_up and contender.name == KAFKA else 1.0
        return Measurement(
            row=row.name, broker=contender.name, round=number, value=value, is_warm_up=is_warm_up
        )

    monkeypatch.setattr(_Loads, "_measure", measure)
    monkeypatch.setattr(_Loads, "_make", lambda _loads, name: Named(name))
    monkeypatch.setattr(Named, "close", lambda _self: None, raising=False)
    monkeypatch.setattr(_Loads, "_note_memory", lambda _loads: None)
    plan = Plan(
        rows=[PRODUCE],
        has_ceiling=CEILING in names,
        has_plain=PLAIN in names,
        warm_ups_max=warm_ups_max,
    )
    results = Results({}, {"begun": "today"})
    kept: list[int] = []
    _Loads(plan, Path(), lambda _line: None, results).run(lambda now: kept.append(len(now.measurements)))
    assert kept[0] == len(results.measurements), "the row is kept when it is complete"
    return results


def _order(results: Results) -> list[str]:
    return [("w " if one.is_warm_up else "") + one.broker for one in results.measurements]


def test_both_take_turns_until_kafka_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    results = _run(monkeypatch, [10, 20, 30, 30, 29, 99, 99, 99])
    assert _order(results) == ["w kafka", "w ottla"] * 5 + ["kafka", "ottla"] * 3


def test_warm_up_rounds_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    results = _run(monkeypatch, [1, 2, 4, 8, 16, 32, 64, 128], warm_ups_max=6)
    assert _order(results) == ["w kafka", "w ottla"] * 6 + ["kafka", "ottla"] * 3


def test_contenders_without_a_run_time_compiler_warm_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    results = _run(monkeypatch, [10, 10, 10], names=(KAFKA, OTTLA, CEILING, PLAIN))
    warm_ups = ["w kafka", "w ottla", "w ceiling", "w ottla-plain"] + ["w kafka", "w ottla"] * 2
    assert _order(results) == warm_ups + ["kafka", "ottla", "ceiling", "ottla-plain"] * 3
