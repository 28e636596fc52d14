"""Recovery is correct from every prefix and legal reordering of unsynced writes, at every step of a log's
life.

`OTTLA_TEST_STATES` sets the number of states (`make sim-ci`: 20,000), `OTTLA_TEST_SEED` the first life; a
failure names the life, the step and the state, which suffice to reproduce it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import pytest

from ottla.testing.world.disk import Model, Storage, power_losses
from ottla.testing.world.storage import PowerLoss, numbers_by_file_system
from tests.sim.crash_life import KINDS, SCRIPTS, Life, Step
from tests.sim.planted import exchange_without_syncs

STATES = int(os.environ.get("OTTLA_TEST_STATES", "4000"))
SEED = int(os.environ.get("OTTLA_TEST_SEED", "1"))
STEPS_MAX = 40
STATES_OF_A_STEP = 24
STATES_OF_A_MOMENT = 12


async def live(seed: int, model: Model, kind: str, limit: int) -> int:
    """One life, with the crash states of every step checked; returns their number."""
    life = Life(seed, model, kind)
    await life.begin()
    judged = 0
    for step in range(STEPS_MAX):
        *within, after = await life.step()
        where = f"{kind}, seed {seed}, {model}, step {step} ({', '.join(life.steps)})"
        wrong = await life.judge(killed(after), is_killed=True)
        assert wrong is None, f"{where}, after a kill: {wrong}"
        judged += 1
        if within:
            number = life.rng.randrange(len(within))
            states = choose_losses(life, within[number], STATES_OF_A_MOMENT)
            judged += await judge_all(life, states, f"{where}, sync {number}", is_within=True)
        states = choose_losses(life, after, STATES_OF_A_STEP)
        judged += await judge_all(life, states, where, is_within=False)
        if judged >= limit:
            break
    return judged


async def judge_all(life: Life, losses: list[PowerLoss], where: str, *, is_within: bool) -> int:
    for loss in losses:
        wrong = await life.judge(loss.state(), is_within=is_within)
        assert wrong is None, (
            f"{where}, with {sorted(loss.kept)} and {loss.torn} of {loss.storage.pending}: {wrong}"
        )
    return len(losses)


def choose_losses(life: Life, storage: Storage, count: int) -> list[PowerLoss]:
    """Random losses, and for several file systems those where one has all its changes and the others none."""
    losses = list(power_losses(storage))
    chosen = life.rng.sample(losses, min(len(losses), count))
    numbers = numbers_by_file_system(storage)
    if len(numbers) > 1:
        chosen += [PowerLoss(storage, kept, {}) for kept in numbers.values()]
    return chosen


def killed(storage: Storage) -> Storage:
    """The content after a kill of the process: everything written."""
    left = storage.copy()
    left.sync_all()
    return left


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_log_recovers_from_every_state_after_a_power_loss(model: Model, kind: str) -> None:
    judged, seed, wanted = 0, SEED, STATES // 2 // len(KINDS)
    while judged < wanted:
        judged += asyncio.run(live(seed, model, kind, wanted - judged))
        seed += 1
    print(f"{kind}, {model}: {judged} states of {seed - SEED} lives")


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_log_recovers_from_a_power_loss_at_any_moment(model: Model, name: str) -> None:
    kind, steps = SCRIPTS[name]
    judged = asyncio.run(follow(model, kind, steps))
    print(f"{name}, {model}: {judged} states")


def test_an_unsynced_swap_of_segments_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, planted in exchange_without_syncs():
        monkeypatch.setattr(owner, name, planted)
    with pytest.raises(AssertionError, match="moment"):
        asyncio.run(follow("posix", *SCRIPTS["exchange"]))


async def follow(model: Model, kind: str, steps: Sequence[Step]) -> int:
    """Take these steps and check some states of every moment; return their number."""
    life = Life(SEED, model, kind)
    await life.begin()
    judged = 0
    for chosen in steps:
        *within, after = await life.step(chosen)
        where = f"{kind}, {model} ({', '.join(life.steps)})"
        wrong = await life.judge(killed(after), is_killed=True)
        assert wrong is None, f"{where}, after a kill: {wrong}"
        judged += 1
        for number, moment in enumerate([*within, after]):
            states = choose_losses(life, moment, STATES_OF_A_MOMENT)
            place = f"{where}, moment {number} of {len(within)}"
            judged += await judge_all(life, states, place, is_within=moment is not after)
    return judged
