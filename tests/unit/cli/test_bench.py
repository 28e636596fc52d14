"""The figures of `ottla bench`, and the checks of `ottla start` before it creates anything."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli import main
from ottla.cli.bench import _number, _ratios
from ottla.cli.benchmarks import Measured, histogram, percentile
from ottla.cli.start import print_instructions
from ottla.cluster.layout import Plan, write_layout

times = st.lists(st.floats(0, 1e6), min_size=1, max_size=50)


@given(times)
def test_percentiles_are_increasing_measured_values(found: list[float]) -> None:
    ordered = sorted(round(one, 3) for one in found)
    shown = [percentile(ordered, percent) for percent in (0, 50, 95, 99, 99.9)]

    assert shown == sorted(one for one in shown if one is not None)
    assert set(shown) <= set(ordered)


@given(times)
def test_each_time_is_in_one_bucket_of_a_histogram(found: list[float]) -> None:
    buckets = histogram(found)

    assert sum(count for _, _, count in buckets) == len(found)
    assert all(low < high for low, high, _ in buckets)


def test_a_row_has_rates_and_times() -> None:
    row = Measured(1000, 100_000, 2.0, [float(one) for one in range(1, 101)]).row()

    assert (row["records_per_second"], row["mb_per_second"]) == (500.0, 0.05)
    assert (row["p50_ms"], row["p99_ms"], row["p999_ms"], row["max_ms"]) == (51.0, 100.0, 100.0, 100.0)
    assert Measured().row()["p50_ms"] is None
    assert (histogram([]), percentile([], 50)) == ([], None)


def test_two_clusters_are_compared_by_rate_and_by_half_the_times() -> None:
    rows = [
        {"part": "produce", "cluster": "a", "records_per_second": 300.0, "p50_ms": 1.0},
        {"part": "produce", "cluster": "b", "records_per_second": 100.0, "p50_ms": 1.0},
        {"part": "latency", "cluster": "a", "records_per_second": 1.0, "p50_ms": 1.0},
        {"part": "latency", "cluster": "b", "records_per_second": 1.0, "p50_ms": 2.0},
    ]

    assert [(one["part"], one["ratio"]) for one in _ratios(rows)] == [("produce", 3.0), ("latency", 2.0)]
    assert [_number(one) for one in (None, 1234.5, 12.34, 1.234, "x")] == ["-", "1,234", "12.3", "1.23", "x"]


def test_a_used_port_is_reported_before_anything_is_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = main(["start", "--data", str(tmp_path / "data"), "--port", str(port)])

    assert code == 1
    assert f"Cannot bind port {port}" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_data_of_another_kind_is_not_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_layout(tmp_path / "cluster", Plan(nodes=2))
    assert main(["start", "--nodes", "3", "--data", str(tmp_path / "cluster")]) == 1
    assert "contains a cluster of 2 nodes" in capsys.readouterr().err

    (tmp_path / "meta.properties").write_text("version=1\n")
    assert main(["start", "--nodes", "3", "--data", str(tmp_path)]) == 1
    assert "data of a single node" in capsys.readouterr().err
    assert main(["start", "--override", "nonsense", "--port", "0", "--data", str(tmp_path / "new")]) == 2


def test_suggested_commands_name_an_unusual_port(capsys: pytest.CaptureFixture[str]) -> None:
    print_instructions("Node started", "localhost:9092")
    assert "export" not in capsys.readouterr().out
    print_instructions("Two nodes run", "localhost:1234,localhost:1235")
    assert "export OTTLA_BOOTSTRAP_SERVERS=localhost:1234\n" in capsys.readouterr().out


def test_invalid_measurements_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "speed"]) == 2
    assert "Use one of produce, consume, latency" in capsys.readouterr().err
