"""The results of a benchmark run: medians, ratios, verdicts, and files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bench.__main__ import chosen_rows
from bench.generators import produce_frame
from bench.report import markdown
from bench.results import CEILING, KAFKA, OTTLA, PLAIN, Measurement, Results, Verdict
from bench.rows import Section

from ottla.records.record import read_records
from ottla.wire.frame import read_request


def _results(
    row: str, kafka: list[float], ottla: list[float], ceiling: float | None = None, cpu_s: float = 1.0
) -> Results:
    results = Results({"processor": "2 x something"}, {"rounds": len(kafka), "begun": "today"})
    for name, values in ((KAFKA, kafka), (OTTLA, ottla), (CEILING, [ceiling] if ceiling else [])):
        for number, value in enumerate(values):
            results.measurements.append(
                Measurement(
                    row=row,
                    broker=name,
                    round=number,
                    value=value,
                    wall_s=4.0,
                    cpu_s=cpu_s if name == OTTLA else 4.0,
                    other_cpu_s=1.0,
                )
            )
    return results


def test_a_line_compares_the_medians_of_the_rounds() -> None:
    (line,) = _results("produce-100", [100, 900, 110], [220, 10, 230]).lines()
    assert (line.kafka, line.ottla, line.ratio) == (110, 220, 2.0)
    assert line.ratios == pytest.approx([2.2, 10 / 900, 230 / 110])
    assert line.rounds[KAFKA] == [100, 900, 110]
    assert line.cpu_ratio == 0.25
    assert line.ottla_busy == 0.25
    assert line.noise == 0.25


@pytest.mark.parametrize(
    ("row", "kafka", "ottla", "ceiling", "cpu_s", "verdict"),
    [
        ("produce-100", 100, 150, None, 2.0, Verdict.MET),
        ("produce-100", 100, 149, None, 1.0, Verdict.SHORT),
        ("produce-100", 100, 150, None, 2.1, Verdict.SHORT),
        ("produce-100", 100, 120, 125, 1.0, Verdict.LIMITED),
        ("produce-100", 100, 120, 150, 1.0, Verdict.SHORT),
        ("produce-100", 100, 120, 125, 3.0, Verdict.SHORT),
        ("latency", 5, 5, None, 2.0, Verdict.MET),
        ("latency", 5, 5.1, None, 1.0, Verdict.SHORT),
        ("partitions-1000", 100, 150, None, 2.0, Verdict.MET),
        ("connections-500", 100, 100, None, 9.0, Verdict.MET),
        ("connections-500", 100, 99, None, 1.0, Verdict.SHORT),
        ("group-commits", 100, 120, None, 9.0, Verdict.MET),
        ("group-commits", 100, 119, None, 1.0, Verdict.SHORT),
        ("group-rebalance-1000", 2, 2.1, None, 1.0, Verdict.SHORT),
        ("transactions-4", 100, 130, None, 9.0, Verdict.MET),
        ("transactions-4", 100, 129, None, 1.0, Verdict.SHORT),
        ("read-committed", 0.5, 0.95, None, 9.0, Verdict.MET),
        ("read-committed", 0.9, 0.94, None, 1.0, Verdict.SHORT),
        ("group-join-1000", 2, 2, None, 9.0, Verdict.MET),
        ("group-join-1000", 2, 2.1, None, 1.0, Verdict.SHORT),
        ("group-load-1m", 2, 2, None, 9.0, Verdict.MET),
        ("group-load-1m", 2, 2.1, None, 1.0, Verdict.SHORT),
        ("start", 3, 0.4, None, 1.0, Verdict.MET),
        ("start", 3, 0.41, None, 1.0, Verdict.SHORT),
        ("cluster-100", 100, 130, None, 9.0, Verdict.MET),
        ("cluster-100", 100, 129, None, 1.0, Verdict.SHORT),
        ("cluster-latency", 13, 10, None, 9.0, Verdict.MET),
        ("cluster-latency", 13, 10.1, None, 1.0, Verdict.SHORT),
        ("failover-kill", 3, 3, None, 1.0, Verdict.MET),
        ("failover-kill", 3, 3.1, None, 1.0, Verdict.SHORT),
        ("many-restart", 3, 3, None, 1.0, Verdict.MET),
        ("many-restart", 3, 3.1, None, 1.0, Verdict.SHORT),
        ("many-memory", 900, 149, None, 1.0, Verdict.MET),
        ("many-memory", 900, 150, None, 1.0, Verdict.SHORT),
        ("many-stall", 1, 500, None, 1.0, Verdict.MET),
        ("many-stall", 900, 501, None, 1.0, Verdict.SHORT),
        ("memory", 900, 79, None, 1.0, Verdict.MET),
        ("memory", 900, 80, None, 1.0, Verdict.SHORT),
    ],
)
def test_each_kind_of_row_has_its_own_target(
    row: str, kafka: float, ottla: float, ceiling: float | None, cpu_s: float, verdict: Verdict
) -> None:
    (line,) = _results(row, [kafka], [ottla], ceiling, cpu_s).lines()
    assert line.verdict is verdict


def test_three_nodes_must_reach_their_goal_in_every_round() -> None:
    (met,) = _results("cluster-100", [100, 100, 100], [130, 300, 131]).lines()
    assert (met.verdict, met.wanted) == (Verdict.MET, "≥ 1.3x in every round")
    (short,) = _results("cluster-100", [100, 100, 100], [129, 300, 300]).lines()
    assert short.verdict is Verdict.SHORT


def test_a_request_has_a_limit_of_cpu() -> None:
    for cpu_s, verdict in ((13.0, Verdict.MET), (13.1, Verdict.SHORT)):
        results = _results("connections-500", [100], [150], cpu_s=cpu_s)
        results.measurements = [replace(one, operations=1_000_000) for one in results.measurements]
        (line,) = results.lines()
        assert (line.verdict, line.wanted) == (verdict, "≥ 1x, CPU ≤ 13 µs each")


def _with_warm_ups(row: str, kafka: list[float], ottla: list[float], cpu_s: Sequence[float] = ()) -> Results:
    results = _results(row, [100, 110, 105], [220, 221, 222])
    for name, values in ((KAFKA, kafka), (OTTLA, ottla)):
        for number, value in enumerate(values):
            one = results.measurements[0]
            used = cpu_s[number] if cpu_s else 4.0
            warm_up = replace(one, broker=name, round=number, value=value, cpu_s=used, is_warm_up=True)
            results.measurements.append(warm_up)
    return results


def test_warm_up_rounds_are_shown_and_do_not_count() -> None:
    results = _with_warm_ups("produce-100", [20, 99, 98, 100], [218, 1000, 219, 217])
    (line,) = results.lines()
    assert (line.kafka, line.ottla) == (105, 221)
    assert line.is_kafka_warm
    page = markdown(results, {})
    shown = "| rec/s | (20 99 98 100) 100 110 105 | (218 1,000 219 217) 220 221 222 | 2.20 2.01 2.11 |"
    assert "| 100 B, acks=1 " + shown in page
    assert "still improved" not in page


def test_a_row_in_which_kafka_still_improved_is_marked() -> None:
    results = _with_warm_ups("produce-100", [20, 40, 80, 90], [220, 220, 220, 220])
    assert not results.lines()[0].is_kafka_warm
    assert r"| 100 B, acks=1 \* | rec/s |" in markdown(results, {})
    assert r"\* Kafka's figures still improved" in markdown(results, {})


def test_at_a_fixed_pace_the_cpu_says_whether_kafka_is_warm() -> None:
    used = [4.0, 2.0, 2.0, 1.99]
    assert _with_warm_ups("latency", [9, 1, 7, 0.1], [1, 1, 1, 1], used).lines()[0].is_kafka_warm
    used = [4.0, 3.0, 2.0, 1.5]
    assert not _with_warm_ups("latency", [1, 1, 1, 1], [1, 1, 1, 1], used).lines()[0].is_kafka_warm


def test_the_page_says_how_much_slower_plain_python_is() -> None:
    results = _results("produce-100", [100], [200], cpu_s=2.0)
    assert "## Not compiled" not in markdown(results, {})
    one = results.measurements[0]
    results.measurements.append(replace(one, broker=PLAIN, value=150.0, cpu_s=3.0))
    assert "| 100 B, acks=1 | 200 | 150 | rec/s | 0.75 | 1.50 | 150 |" in markdown(results, {})


def test_a_run_continues_only_on_the_same_machine_and_versions() -> None:
    first, again = _results("produce-100", [100], [200]), _results("produce-100", [], [])
    again.settings["begun"] = "tomorrow"
    continued = first.continued(again)
    assert continued.has("produce-100")
    assert continued.settings["begun"] == "today, tomorrow"
    again.machine["processor"] = "another"
    with pytest.raises(AssertionError, match="processor"):
        first.continued(again)


def test_a_row_that_only_one_broker_ran_has_no_line() -> None:
    assert _results("produce-100", [100], []).lines() == []


def test_loop_holds_are_measured_for_ottla_only() -> None:
    (met,) = _results("group-hold", [], [10.0]).lines()
    assert (met.kafka, met.ratio, met.verdict) == (None, None, Verdict.MET)
    results = _results("group-hold", [], [10.1])
    assert results.lines()[0].verdict is Verdict.SHORT
    assert "| longest hold of the loop by an assignor |  | 10.1 |  | ms |  |" in markdown(results, {})


def test_results_survive_a_round_trip_through_a_file(tmp_path: Path) -> None:
    results = _results("produce-100", [100, 120], [220, 210], 300)
    results.write(tmp_path / "results.json")
    again = Results.read(tmp_path / "results.json")
    assert again == results
    assert again.lines() == results.lines()


def test_the_page_shows_each_line_and_the_machine() -> None:
    page = markdown(_results("produce-100", [100], [120], 200), {Section.BROKER: "plot.png"})
    assert "| 100 B, acks=1 | 100 | 120 | 200 | rec/s | 1.20 |" in page
    assert "**short**" in page
    assert "- processor: 2 x something" in page
    assert "(plot.png)" in page
    assert "## One broker" in page
    assert "## Three nodes" not in page


def test_several_runs_make_one_page_and_the_last_one_counts() -> None:
    first, again = _results("produce-100", [100], [120]), _results("produce-100", [100], [150, 160])
    again.settings["begun"] = "tomorrow"
    cluster = _results("cluster-100", [100], [200])
    joined = first.with_others([cluster, again])
    assert [(line.name, line.ottla) for line in joined.lines()] == [
        ("produce-100", 155),
        ("cluster-100", 200),
    ]
    page = markdown(joined, {})
    assert page.index("## One broker") < page.index("## Three nodes")
    assert "run: today, tomorrow;" in page
    assert "1 to 2 rounds" in page


def test_rows_are_chosen_by_name_and_by_section() -> None:
    chosen = [row.name for row in chosen_rows("transactions,produce-100, latency")]
    transactions = ["transactions-4", "transactions-1", "read-process-write", "read-committed"]
    assert chosen == ["produce-100", "latency", *transactions]
    with pytest.raises(argparse.ArgumentTypeError, match="no row nonsense"):
        chosen_rows("latency,nonsense")


def test_the_frame_of_many_connections_is_a_produce_request_with_one_record() -> None:
    frame = produce_frame("news", 100)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    key, version, _, _, request = read_request(memoryview(frame)[4:])
    assert (key, version, request.acks) == (0, 12, 1)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    assert topic.name == "news"
    assert [record.value for record in read_records(partition.records)] == [b"x" * 100]
