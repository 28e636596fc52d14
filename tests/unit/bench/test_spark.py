"""The table of Spark's rows, from invented measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from bench.spark.results import Measurement, Results, markdown
from bench.spark.rows import DEFAULT, OTTLA, TUNED


def _results(
    row: str, warm_ups: Mapping[str, Sequence[float]], rounds: Mapping[str, Sequence[float]]
) -> Results:
    found = [
        Measurement(row=row, contender=name, round=number, value=value, is_warm_up=is_warm_up)
        for is_warm_up, values in ((True, warm_ups), (False, rounds))
        for name, figures in values.items()
        for number, value in enumerate(figures)
    ]
    return Results({"processor": "one"}, {"rounds": 3, "scale": 1.0, "broker": "ottla"}, found)


def test_rounds_before_sparks_connector_was_warm_are_shown_and_do_not_count(tmp_path: Path) -> None:
    warm = {OTTLA: [900, 901, 902], DEFAULT: [300, 299, 301], TUNED: [310, 311, 312]}
    results = _results("count-100", warm, {OTTLA: [400, 410, 500], DEFAULT: [300, 200, 310], TUNED: [400]})
    results.write(tmp_path / "run.json")
    (line,) = Results.read(tmp_path / "run.json").lines()
    assert line.values == {OTTLA: 410, DEFAULT: 300, TUNED: 400}
    assert line.is_met
    page = markdown(results, "plot.png")
    title = "| count, records of 100 B | 1000 records/s "
    assert title + "| (900 901 902) 400 410 500 | (300 299 301) 300 200 310 | (310 311 312) 400 |" in page


def test_a_row_in_which_sparks_connector_still_improved_is_marked() -> None:
    warm = {OTTLA: [900, 900, 900], DEFAULT: [100, 200, 300], TUNED: [310, 311, 312]}
    results = _results("count-100", warm, {OTTLA: [400], DEFAULT: [300], TUNED: [400]})
    assert r"| count, records of 100 B \* |" in markdown(results, "plot.png")


def test_of_times_the_smaller_one_is_better() -> None:
    warm = {OTTLA: [1, 1, 1], DEFAULT: [1100, 900, 800]}
    results = _results("micro-batch", warm, {OTTLA: [100], DEFAULT: [700]})
    assert not results.lines()[0].is_warm
    warm = {OTTLA: [1, 1, 1], DEFAULT: [1100, 1100, 1090]}
    results = _results("micro-batch", warm, {OTTLA: [100], DEFAULT: [700]})
    assert results.lines()[0].is_warm
