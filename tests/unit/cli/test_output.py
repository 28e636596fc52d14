"""Tables, JSON and YAML of the same rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from rich.console import Console

import ottla.cli.output
from ottla.cli.output import Styled, clean, count_text, duration_text, show, size_text, time_text
from ottla.cli.session import Flags, Session

ROWS: list[dict[str, Any]] = [
    {"topic": "a", "size_bytes": 1536, "replicas": [1, 2], "internal": False, "id": "x", "leader": None},
    {"topic": "orders", "size_bytes": 5, "replicas": [], "internal": True, "id": "y", "leader": 3},
]
COLUMNS = ["topic", "size_bytes", "replicas", "internal", "leader"]


def shown(capsys: pytest.CaptureFixture[str], output: str, data: Any = ROWS, **options: Any) -> str:
    options.setdefault("columns", COLUMNS)
    show(Session(Flags(output=output)), data, wide=["id"], formats={"size_bytes": size_text}, **options)
    return capsys.readouterr().out


def test_a_pipe_gets_aligned_columns_with_one_row_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "table") == (
        "TOPIC      SIZE  REPLICAS  INTERNAL  LEADER\n"
        "a       1.5 KiB  1,2       no             -\n"
        "orders      5 B  -         yes            3\n"
    )
    assert shown(capsys, "wide").splitlines()[0].endswith("LEADER  ID")


def test_programs_get_every_field_unformatted(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(shown(capsys, "json")) == ROWS
    assert yaml.safe_load(shown(capsys, "yaml")) == ROWS
    assert json.loads(shown(capsys, "json", [])) == []


def test_an_empty_result_is_reported_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    show(Session(Flags(output="table")), [], empty="There are none.")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "There are none.\n")


def test_one_object_has_a_line_per_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "table", ROWS[0], columns=["topic", "size_bytes"]) == "topic  a\nsize   1.5 KiB\n"


def test_a_terminal_gets_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ottla.cli.output, "is_terminal", lambda: True)
    monkeypatch.setattr(
        "rich.console.Console", lambda: Console(force_terminal=True, width=80, color_system="standard")
    )
    monkeypatch.delenv("NO_COLOR", raising=False)
    session = Session(Flags(output="table"))
    show(session, [{"state": "[bold]offline"}], formats={"state": lambda text: Styled(text, "red")})
    assert "\x1b[31m[bold]offline" in capsys.readouterr().out
    show(session, {"state": "down"}, formats={"state": lambda text: Styled(text, "red")}, title="Node")
    assert "\x1b[31mdown" in capsys.readouterr().out


def test_names_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert clean("a\x1b[31mb\n") == "a\\x1b[31mb\\n"
    assert "\x1b" not in shown(capsys, "table", [{"topic": "\x1b]0;owned\x07"}], columns=["topic"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0, "0s"), (1.54, "1.5s"), (59, "59s"), (93784, "1d 2h"), (3600, "1h"), (-90, "-1m 30s")],
)
def test_durations_are_readable(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


def test_sizes_counts_and_times_are_readable() -> None:
    assert [size_text(one) for one in (None, 0, 1023, 1024, 5 << 30, 3 << 50)] == [
        "-",
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 GiB",
        "3072.0 TiB",
    ]
    assert [count_text(one, "partition") for one in (0, 1, 2)] == [
        "0 partitions",
        "1 partition",
        "2 partitions",
    ]
    assert time_text(0) == "1970-01-01 00:00:00Z"
    assert time_text(-1) == "-"
    assert time_text(2**63 - 1) == str(2**63 - 1)
