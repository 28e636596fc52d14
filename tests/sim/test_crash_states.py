"""Every prefix and legal reordering of unsynced writes, at every step of a log's life: recovery is right.

`OTTLA_TEST_STATES` sets how many states are tried (`make sim-ci`: 20,000), `OTTLA_TEST_SEED` the first life;
a failure names the life, the step and the state, which is all that it takes to see it again.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from ottla.testing.world.disk import Model, power_losses
from tests.sim.crash_life import Life

STATES = int(os.environ.get("OTTLA_TEST_STATES", "4000"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))
STEPS_MAX = 40
STATES_OF_A_STEP_MAX = 60


async def live(seed: int, model: Model, limit: int) -> int:
    """One life, with every step's crash states judged; how many there were."""
    life = Life(seed, model)
    await life.begin()
    judged = 0
    for step in range(STEPS_MAX):
        await life.step()
        losses = list(power_losses(life.disk.storage))
        if len(losses) > STATES_OF_A_STEP_MAX:
            chosen = sorted(life.chance.sample(range(len(losses)), STATES_OF_A_STEP_MAX))
        else:
            chosen = list(range(len(losses)))
        for number in chosen:
            wrong = await life.judge(losses[number].state())
            assert wrong is None, (
                f"seed {seed}, {model}, step {step} ({', '.join(life.steps)}), state {number}: {wrong}"
            )
        judged += len(chosen)
        if judged >= limit:
            break
    return judged


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_log_recovers_from_every_state_that_a_loss_of_power_may_leave(model: Model) -> None:
    judged, seed = 0, SEED
    while judged < STATES // 2:
        judged += asyncio.run(live(seed, model, STATES // 2 - judged))
        seed += 1
    print(f"{judged} states of {seed - SEED} lives")
