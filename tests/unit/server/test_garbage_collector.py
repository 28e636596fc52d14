"""When a node looks for garbage: a look is at few objects, and none keeps garbage for ever."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from ottla.host import HostClock
from ottla.server.garbage_collector import (
    COLLECTED_MAX,
    FEW_OBJECTS,
    FULL_INTERVAL_S,
    PATIENCE_S,
    GarbageCollector,
)
from ottla.server.net.step_runner import CollectionPause


class Clock(HostClock):
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


class Cycle:
    """What only a look can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def looked_at() -> Iterator[list[int]]:
    """How many objects each look was at, those of the tests themselves aside."""
    counts: list[int] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "start" and facts["generation"] == 2:
            counts.append(len(gc.get_objects()))

    thresholds = gc.get_threshold()
    gc.set_threshold(1 << 30)  # no looks but those that a test asks for
    gc.collect()
    gc.freeze()
    gc.callbacks.append(note)
    yield counts
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_objects_that_were_looked_at_are_not_looked_at_again(looked_at: list[int]) -> None:
    garbage = GarbageCollector(Clock())
    kept: list[list[int]] = []
    dropped = []
    for _ in range(5):
        kept += [[] for _ in range(2 * FEW_OBJECTS)]
        cycle = Cycle()
        dropped.append(weakref.ref(cycle))
        del cycle
        garbage.collect(is_quiet=False)
    assert len(looked_at) == 5
    assert max(looked_at) < COLLECTED_MAX
    assert [one() for one in dropped] == [None] * 5


def test_few_new_objects_are_not_worth_a_look(looked_at: list[int]) -> None:
    kept = [[0] for _ in range(FEW_OBJECTS // 2)]
    GarbageCollector(Clock()).collect(is_quiet=True)
    assert kept
    assert not looked_at


def test_a_burst_of_objects_is_frozen_and_garbage_in_it_is_found_once_an_hour(
    looked_at: list[int],
) -> None:
    clock = Clock()
    garbage = GarbageCollector(clock)
    kept = [[0] for _ in range(10 * COLLECTED_MAX)]
    cycle = Cycle()
    dropped = weakref.ref(cycle)
    del cycle
    garbage.collect(is_quiet=False)
    assert not looked_at
    assert len(gc.get_objects()) < FEW_OBJECTS
    clock.now_s = FULL_INTERVAL_S
    garbage.collect(is_quiet=False)
    assert dropped() is not None, "a busy node waits for a quiet second"
    garbage.collect(is_quiet=True)
    assert dropped() is None
    assert len(looked_at) == 1
    garbage.collect(is_quiet=True)
    assert len(looked_at) == 1
    assert kept


def test_a_node_that_is_never_quiet_looks_at_everything_too(looked_at: list[int]) -> None:
    clock = Clock()
    garbage = GarbageCollector(clock)
    cycle = Cycle()
    dropped = weakref.ref(cycle)
    del cycle
    gc.freeze()
    clock.now_s = FULL_INTERVAL_S + PATIENCE_S
    garbage.collect(is_quiet=False)
    assert dropped() is None


@pytest.mark.parametrize("pause_s", [0.0, 60.0], ids=["lasts", "has just ended"])
def test_the_objects_of_a_long_request_are_not_looked_at(
    looked_at: list[int], monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    monkeypatch.setattr("ottla.server.net.step_runner.PAUSE_S_MAX", pause_s)

    async def main() -> None:
        pause = CollectionPause()
        pause.freeze = GarbageCollector(Clock()).freeze
        pause.begin()
        kept = [[0] for _ in range(10 * COLLECTED_MAX)]
        if pause_s:
            pause.end()
        while not gc.isenabled():
            await asyncio.sleep(0)
        gc.collect()
        assert kept

    asyncio.run(main())
    assert max(looked_at) < COLLECTED_MAX
