"""Simulated quorums under faults. A failure names its seed, which replays it, and the end of the history."""

from __future__ import annotations

import pytest
from tests.unit.raft.simulation import World

SEEDS = 8


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_dynamic_quorum_keeps_committed_records_and_makes_progress_after_faults(seed: int) -> None:
    World(seed).run()


@pytest.mark.parametrize("seed", range(1000, 1000 + SEEDS))
def test_a_static_quorum_keeps_committed_records_and_makes_progress_after_faults(seed: int) -> None:
    World(seed, is_static=True, voters=3 if seed % 2 else 5).run()


def test_a_seed_replays_the_same_history() -> None:
    first, second = World(7), World(7)
    first.run(faults_ms=8_000)
    second.run(faults_ms=8_000)
    assert first.history == second.history
    assert first.ledger == second.ledger
