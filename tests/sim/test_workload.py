"""The workload keeps every guarantee that the checker knows, and a seed can be replayed."""

from __future__ import annotations

import os

import pytest

from tests.sim.replays import traces_of
from tests.sim.workload import run_story

SEEDS = int(os.environ.get("OTTLA_TEST_WORKLOADS", "3"))
FIRST_SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))
SECONDS = 20.0


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_every_guarantee_holds_under_random_faults(seed: int) -> None:
    outcome = run_story(seed, seconds=SECONDS)
    assert outcome.is_right, f"{outcome.report()}\nreplay: python -m tests.sim {seed} --seconds {SECONDS:g}"


def test_a_run_without_faults_has_no_unknown_outcome() -> None:
    outcome = run_story(8, seconds=8.0)
    assert outcome.is_right, outcome.report()
    history = outcome.history
    for what in ("sends", "transactions", "reads", "final", "leads", "watermarks", "replicas", "metadata"):
        assert getattr(history, what), what
    assert {one.group for one in history.committed} == {"classic-group", "consumer-group", "application"}
    assert {one.group for one in history.assigned} == {"classic-group", "consumer-group", "application"}
    assert any(send.source is not None for send in history.sends)
    assert {read.committed for read in history.reads} == {False, True}


def test_a_seed_of_the_workload_replays_in_another_process_with_other_hashes() -> None:
    # These hash seeds change the order of the topics.
    assert len(traces_of("20", "--seconds", "6", hash_seeds=("11", "21"))) == 1
