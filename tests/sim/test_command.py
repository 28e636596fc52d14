"""The output of `python -m tests.sim` for failing runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from ottla.testing.world import World
from tests.sim import __main__ as command
from tests.sim import quorum, smoke


def test_a_failing_run_prints_its_replay_command_and_is_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_it(world: World, options: argparse.Namespace) -> None:
        world.note("node-1", "loses everything")
        if world.seed == 8:
            raise smoke.Broken("a record is lost")

    monkeypatch.setattr(command, "_run_story", break_it)
    monkeypatch.setattr(sys, "argv", ["tests.sim", "7", "2", "--seconds", "40", "--faults", "power,cut"])
    monkeypatch.chdir(tmp_path)
    assert command.main() == 1
    said = capsys.readouterr().out
    assert "seed 7: right" in said
    assert "node-1       loses everything" in said
    assert "a record is lost" in said
    assert "FAILED: seed 8, commit " in said
    assert "replay: python -m tests.sim 8 --seconds 40 --faults 'power,cut'" in said
    assert "1 of 2 seeds failed: 8" in said
    assert (tmp_path / "sim-8.svg").read_text().startswith("<svg")
    assert not (tmp_path / "sim-7.svg").exists()


def test_runs_with_growing_memory_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[list[list[int]]] = []

    def keep_much(world: World, options: argparse.Namespace) -> None:
        kept.append([[] for _ in range(command.OBJECTS_GROWTH_MAX + 10_000)] if world.seed == 9 else [])

    monkeypatch.setattr(command, "_run_story", keep_much)
    monkeypatch.setattr(command, "MEMORY_RUNS", 2)
    monkeypatch.setattr(sys, "argv", ["tests.sim", "7", "5"])
    assert command.main() == 1
    said = capsys.readouterr().out
    assert "seed 8: right" in said
    assert "FAILED: after seed 9 the process has " in said


def test_a_failing_quorum_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_it(seed: int) -> None:
        if seed == 4:
            raise AssertionError("two lead")

    monkeypatch.setattr(quorum, "run", break_it)
    monkeypatch.setattr(sys, "argv", ["tests.sim.quorum", "3", "3"])
    assert quorum.main() == 1
    said = capsys.readouterr().out
    assert "two lead" in said
    assert "replay: python -m tests.sim.quorum 1 4" in said
    assert "1 failed: 4" in said
