"""Each scenario of `tests.sim.scenarios` keeps every guarantee, and really has its named effects.

`OTTLA_TEST_SCENARIO_SEEDS=20` runs more seeds for each, starting at `OTTLA_TEST_SEED`.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from ottla.rare_paths import rarely
from tests.sim.replays import traces_of
from tests.sim.scenarios import SCENARIOS, of_seed
from tests.sim.workload import run_story

SEEDS = int(os.environ.get("OTTLA_TEST_SCENARIO_SEEDS", "1"))
FIRST_SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))
SEEDS_MORE = 9
"""The number of further seeds if the first ones lack some of the scenario's effects."""
SECONDS = 12.0
CALM_S = 3.0


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_survived_and_had_its_effects(name: str) -> None:
    scenario = SCENARIOS[name]
    effects: Counter[str] = Counter()
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS + SEEDS_MORE):
        missing = [effect for effect in scenario.effects if not effects[effect]]
        if seed >= FIRST_SEED + SEEDS and not missing:
            break
        outcome = run_story(seed, seconds=SECONDS, scenario=scenario, calm_s=CALM_S)
        assert outcome.is_right, f"{outcome.report()}\nreplay: {_replay(seed, name)}"
        effects += outcome.effects
    missing = [effect for effect in scenario.effects if not effects[effect]]
    assert not missing, f"{missing} did not happen; what did: {dict(effects)}"


def _replay(seed: int, name: str) -> str:
    return f"python -m tests.sim {seed} --seconds {SECONDS:g} --calm {CALM_S:g} --scenario '{name}'"


def test_a_sweep_over_seeds_has_all_scenarios_and_random_mixes() -> None:
    chosen = [of_seed(seed) for seed in range(2 * len(SCENARIOS))]
    assert {scenario.name for scenario in chosen if scenario is not None} == {*SCENARIOS}
    assert chosen.count(None) == len(SCENARIOS)


def test_rare_paths_are_taken_only_in_simulations() -> None:
    assert not rarely("a point that no world knows")
    taken: Counter[str] = Counter()
    for seed in range(3):
        taken += run_story(seed, seconds=SECONDS, scenario=SCENARIOS["rare paths"], calm_s=CALM_S).effects
    assert len(taken) >= 5, taken
    assert not rarely("a point that no world knows")


def test_a_scenario_replays_in_another_process_with_other_hashes() -> None:
    # Hash seeds change the order of log directories.
    assert len(traces_of("7", "--seconds", "6", "--scenario", "rare paths")) == 1


def test_the_scenarios_match_the_list_of_faults() -> None:
    assert [scenario.number for scenario in SCENARIOS.values()] == list(range(28))
