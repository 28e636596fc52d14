"""The table of the client libraries, from invented measurements."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.library.results import Measurement, Results, markdown, plot
from bench.library.rows import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, OTTLA, PLAIN, ROWS

ROWS_BY_NAME = {row.name: row for row in ROWS}


def results(**values: dict[str, list[float]]) -> Results:
    found = [
        Measurement(row=row.replace("_", "-"), client=client, round=number, value=value)
        for row, clients in values.items()
        for client, numbers in clients.items()
        for number, value in enumerate(numbers)
    ]
    return Results({"processor": "one"}, {"rounds": 3, "begun": "now"}, found)


def test_a_row_compares_medians_with_every_named_client() -> None:
    others = {CONFLUENT: [100.0, 1.0, 100.0], AIOKAFKA: [20.0], KAFKA_PYTHON: [1.0]}
    (line,) = results(send_100={OTTLA: [80.0, 1000.0, 70.0], **others}).lines()
    assert line.ours == 80.0
    assert line.is_met
    assert line.wanted == "≥ 0.8x confluent-kafka, ≥ 3x aiokafka"
    (line,) = results(send_100={OTTLA: [79.0], **others}).lines()
    assert not line.is_met
    (line,) = results(send_100={OTTLA: [200.0], **others, AIOKAFKA: [100.0]}).lines()
    assert not line.is_met


def test_smaller_times_are_better() -> None:
    (line,) = results(latency={OTTLA: [2.0], CONFLUENT: [2.0]}).lines()
    assert line.is_met
    (line,) = results(latency={OTTLA: [2.1], CONFLUENT: [2.0]}).lines()
    assert not line.is_met


def test_a_limit_applies_to_figures_that_only_our_client_has() -> None:
    assert results(memory={OTTLA: [19.0]}).lines()[0].is_met
    assert not results(memory={OTTLA: [21.0]}).lines()[0].is_met


def test_a_row_without_its_reference_client_is_skipped() -> None:
    assert results(send_100={OTTLA: [1.0]}, plain_send={KAFKA_PYTHON: [1.0]}).lines() == []


def test_results_are_saved_printed_and_plotted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    kept = results(
        iterate_100={OTTLA: [300.0], CONFLUENT: [100.0], AIOKAFKA: [10.0], KAFKA_PYTHON: [1.0]},
        plain_send={PLAIN: [3.0], KAFKA_PYTHON: [4.0]},
    )
    kept.write(tmp_path / "run.json")
    read = Results.read(tmp_path / "run.json")
    assert read.measurements == kept.measurements
    page = markdown(read, "plot.png")
    assert "| iterate, 100 B | rec/s | 300 |" in page
    assert "≥ 1x kafka-python: **short**" in page
    assert "| send, 100 B, nothing compiled | rec/s |  | 3 | " in page
    plot(read, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_the_page_shows_each_round() -> None:
    found = results(iterate_1k={OTTLA: [300.0, 310.0, 290.0], CONFLUENT: [100.0, 101.0, 99.0]})
    assert "| iterate, 1 KiB | rec/s | 300 310 290 |  | 100 101 99 |  |  |" in markdown(found, "plot.png")
    assert found.has(ROWS_BY_NAME["iterate-1k"])
    assert not found.has(ROWS_BY_NAME["iterate-100"])


@pytest.mark.parametrize(
    ("row", "bound"),
    [("iterate-1k", 1.2), ("send-1k", 1.0), ("send-1k-default", 1.0), ("arrow-in", 5.0), ("latency", 1.0)],
)
def test_the_goals_beside_confluent_kafka(row: str, bound: float) -> None:
    assert ROWS_BY_NAME[row].wanted[CONFLUENT] == bound


def test_every_row_starts_with_our_client_and_has_a_target() -> None:
    for row in ROWS:
        assert row.clients[0] in (OTTLA, PLAIN)
        assert set(row.wanted) < set(row.clients)
        assert row.wanted or row.most is not None
