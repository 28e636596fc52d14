"""Long work in slices, so that no request waits long for the event loop.

Rule: however many pieces of work there are, they share one slice of `SLICE_MS` in each turn of the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from ottla.ports import Clock

SLICE_MS = 4

logger = logging.getLogger("ottla.coordinator")

_T = TypeVar("_T")


class Job(Generic[_T]):
    """One piece of work. `cancel` ends it without a callback."""

    __slots__ = ("is_cancelled", "on_done", "on_error", "steps")

    def __init__(
        self,
        steps: Generator[None, None, _T],
        on_done: Callable[[_T], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.steps = steps
        self.on_done = on_done
        self.on_error = on_error
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.steps.close()


class Slices:
    """All the long work of a node, in turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: deque[Job[Any]] = deque()
        self._is_due = False
        self.longest_step_s = 0.0  # the longest time that one slice held the loop

    def start(
        self,
        steps: Generator[None, None, _T],
        on_done: Callable[[_T], None],
        on_error: Callable[[Exception], None],
    ) -> Job[_T]:
        job = Job(steps, on_done, on_error)
        self._jobs.append(job)
        self._arm()
        return job

    def _arm(self) -> None:
        if not self._is_due and self._jobs:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        begun = self._clock.monotonic()
        try:
            self._run_until(begun + SLICE_MS / 1000)
        finally:  # an exception in one job does not stop the others
            self.longest_step_s = max(self.longest_step_s, self._clock.monotonic() - begun)
            self._arm()

    def _run_until(self, end: float) -> None:
        monotonic = self._clock.monotonic
        now = monotonic()
        while self._jobs and now < end:
            job = self._jobs.popleft()
            if job.is_cancelled:
                continue
            is_open = True
            while is_open and now < end:
                is_open = _step(job)
                now = monotonic()
            if is_open and not job.is_cancelled:
                self._jobs.append(job)


def _step(job: Job[_T]) -> bool:
    """One step of a job; whether there is more to do."""
    try:
        next(job.steps)
        return True
    except StopIteration as end:
        outcome = end.value
    except Exception as error:  # noqa: BLE001  the owner of the job handles it
        _fail(job, error)
        return False
    if not job.is_cancelled:
        try:
            job.on_done(outcome)
        except Exception as error:  # noqa: BLE001  likewise; the other jobs go on
            _fail(job, error)
    return False


def _fail(job: Job[_T], error: Exception) -> None:
    try:
        job.on_error(error)
    except Exception:
        logger.exception("Unhandled error in a background task: %s", error)
