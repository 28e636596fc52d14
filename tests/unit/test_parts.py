"""`python -m tests` divides the tests into parts."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.__main__ import (
    PART_SECONDS_MAX,
    QUICK_SECONDS_MAX,
    ROOT,
    TESTS,
    Part,
    Run,
    parts_below,
    ports_of,
)


def test_every_module_is_in_one_part() -> None:
    durations = {
        str(module.relative_to(ROOT)): 10.0 * number
        for number, module in enumerate(sorted(TESTS.rglob("test_*.py")))
    }
    for known in ({}, durations):
        parts = parts_below([TESTS], known)
        modules = [module for part in parts for module in part.modules]
        assert sorted(modules) == sorted(TESTS.rglob("test_*.py"))
        assert len({part.results for part in parts}) == len(parts)


def test_a_directory_that_takes_long_is_divided_and_the_longest_part_starts_first() -> None:
    slow = "tests/unit/records/test_kernel.py"
    parts = parts_below([TESTS / "unit" / "records"], {slow: PART_SECONDS_MAX})
    assert [part.name for part in parts] == ["unit/records/test_kernel", "unit/records"]
    assert parts[0].modules == [ROOT / slow]
    assert ROOT / slow not in parts[1].modules


def test_modules_that_take_long_can_be_left_out() -> None:
    slow = "tests/unit/records/test_kernel.py"
    modules = [
        module
        for part in parts_below([TESTS / "unit" / "records"], {slow: 8.1}, QUICK_SECONDS_MAX)
        for module in part.modules
    ]
    assert ROOT / slow not in modules
    assert len(modules) == len([*(TESTS / "unit" / "records").glob("test_*.py")]) - 1


def test_workers_use_different_ports() -> None:
    ranges = [tuple(map(int, ports_of(worker, 5).split("-"))) for worker in range(5)]
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ranges))


def test_a_failure_and_a_crash_are_reported_by_their_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.__main__.ROOT", tmp_path)
    monkeypatch.setattr("tests.__main__.RESULTS", tmp_path / "results")
    texts = {
        "good": "def test_a(): pass\ndef test_b(): pass\n",
        "bad": "def test_a(): pass\ndef test_b(): assert False, 'this is why'\n",
        "crash": "import os\ndef test_a(): os._exit(3)\n",
    }
    parts = []
    for name, text in texts.items():
        module = tmp_path / f"test_{name}.py"
        module.write_text(text)
        parts.append(Part(name, [module], 1.0))
    run = Run(parts, 2)
    run.run()
    assert {part.name: part.failed for part in run.done} == {
        "good": [],
        "bad": ["test_bad.py::test_b"],
        "crash": ["test_crash.py"],
    }
    assert {part.name: dict(part.outcomes) for part in run.done if part.name != "crash"} == {
        "good": {"passed": 2},
        "bad": {"passed": 1, "failure": 1},
    }
    out = capsys.readouterr().out
    assert "this is why" in out
    assert "3/3" in out
