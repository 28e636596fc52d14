"""Spark's reports become progress lines; the reason of a failed query is one message."""

from __future__ import annotations

import pytest

from ottla.spark.pipeline.model import Restart
from ottla.spark.pipeline.progress import is_idle, lag_of, progress_of
from ottla.spark.pipeline.run import is_permanent, reason_of


def test_lag_counts_unread_records() -> None:
    source = {
        "endOffset": {"a": {"0": 10, "1": 5}, "#ids": {"a": "x"}},
        "latestOffset": {"a": {"0": 12, "1": 5, "2": 3}},
    }
    assert lag_of([source]) == 5
    assert lag_of([{"endOffset": 3, "latestOffset": None}]) is None


def test_a_report_becomes_a_line() -> None:
    told = {
        "batchId": 4,
        "numInputRows": 100,
        "inputRowsPerSecond": 10.0,
        "processedRowsPerSecond": 20.0,
        "durationMs": {"triggerExecution": 5000},
        "stateOperators": [
            {"numRowsTotal": 7, "memoryUsedBytes": 70, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 1, "memoryUsedBytes": 30},
        ],
        "sources": [],
    }
    found = progress_of("out", told, rows_before=50, restarts=1)
    assert (found.batch, found.rows, found.rows_total, found.batch_ms) == (4, 100, 150, 5000)
    assert (found.state_rows, found.state_bytes, found.late_rows, found.restarts) == (8, 100, 2, 1)


def test_an_idle_report_is_recognized() -> None:
    assert is_idle({"numInputRows": 0, "durationMs": {"latestOffset": 3, "triggerExecution": 3}})
    assert not is_idle({"numInputRows": 0, "durationMs": {"addBatch": 5}})
    assert not is_idle({"numInputRows": 1, "durationMs": {}})


@pytest.mark.parametrize(
    ("text", "reason", "hopeless"),
    [
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback\n"
            '  File "x.py", line 3, in f\n'
            "ottla.spark.tables.marker.CheckpointChanged: rows has batches of another checkpoint.\n\n"
            "\tat org.apache.Spark SQLSTATE: XXKST",
            "rows has batches of another checkpoint.",
            True,
        ),
        (
            "Job aborted\n[USER_RAISED_EXCEPTION] A record of the source 'o' is bad: it is not JSON. "
            "SQLSTATE: P0001",
            "A record of the source 'o' is bad: it is not JSON.",
            True,
        ),
        ("[SOME_THING] Spark says so. SQLSTATE: 1", "[SOME_THING] Spark says so.", False),
        ("", "RuntimeError", False),
    ],
)
def test_the_reason_of_a_failure_is_its_innermost_message(text: str, reason: str, hopeless: bool) -> None:
    assert reason_of(RuntimeError(text)) == reason
    assert is_permanent(RuntimeError(text)) is hopeless


def test_the_time_before_a_restart_doubles_up_to_its_limit() -> None:
    policy = Restart(attempts=9, delay_ms=100, delay_ms_max=1000)
    assert [policy.delay_of(attempt) for attempt in (1, 2, 3, 4, 5, 60)] == [100, 200, 400, 800, 1000, 1000]
