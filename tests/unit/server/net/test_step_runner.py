"""Steps whose coroutine is cancelled while they run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator

import pytest

from ottla.coordinator.slices import SLICE_MS, Slices
from ottla.host import HostClock
from ottla.server.net.step_runner import StepRunner


class _SlowClock(HostClock):
    """Each look at it takes more than half of a slice: a slice has two steps at most."""

    now = 0.0

    def monotonic(self) -> float:
        self.now += 0.6 * SLICE_MS / 1000
        return self.now


@pytest.mark.parametrize("fails", [False, True])
def test_steps_that_end_as_their_coroutine_is_cancelled_have_no_listener(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its future is cancelled at once, but the coroutine itself runs a turn of the loop later."""

    async def scenario() -> None:
        clock = _SlowClock()
        runner = StepRunner(Slices(clock), clock)

        def steps() -> Generator[None, None, str]:
            yield
            yield
            task.cancel()
            if fails:
                raise ValueError
            return "nobody asks for it any more"

        task = asyncio.get_running_loop().create_task(runner.run(steps()))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await runner.run(_of_three_steps()) == "done"

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    assert not caplog.records


def _of_three_steps() -> Generator[None, None, str]:
    yield
    yield
    return "done"
