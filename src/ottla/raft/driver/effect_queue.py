"""Carries out the effects of a replica in their order, each election on disk before what comes after it.

An effect that needs no disk is carried out at once if nothing is ahead of it. After a failure nothing more is
carried out: no replica may see a decision that rests on an election that is not on disk.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from ottla.raft.effects import Effect, LeadershipLost, PersistElection
from ottla.raft.election_state import ElectionState


class EffectQueue:
    """The queue of a driver. Cancelling a task that waits for it does not stop it."""

    def __init__(
        self,
        persist: Callable[[ElectionState], Awaitable[None]],
        handlers: Mapping[type[Effect], Callable[[Any], None]],
        fail: Callable[[Exception], None],
    ) -> None:
        """`persist` carries out PersistElection, `handlers` the rest; `fail` gets what fails after a wait."""
        self._persist = persist
        self._handlers = handlers
        self._fail = fail
        self._queue: deque[Effect | asyncio.Future[None]] = deque()
        self._persisting: asyncio.Task[None] | None = None

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out effects now, or once those before them are complete. Raises what a handler raises."""
        for effect in effects:
            if isinstance(effect, LeadershipLost):
                self._pump()  # first the effects before it, such as its last commits
                self._handlers[LeadershipLost](effect)
            else:
                self._queue.append(effect)
        self._pump()

    def _pump(self) -> None:
        queue = self._queue
        while queue and self._persisting is None:
            effect = queue.popleft()
            if isinstance(effect, asyncio.Future):
                if not effect.done():
                    effect.set_result(None)
            elif isinstance(effect, PersistElection):
                election = effect.election
                while queue and isinstance(queue[0], PersistElection):
                    election = queue[0].election  # no effect came between them, so the last is enough
                    queue.popleft()
                self._persisting = asyncio.ensure_future(self._continue_after(election))
            else:
                self._handlers[type(effect)](effect)

    async def _continue_after(self, election: ElectionState) -> None:
        try:
            await self._persist(election)
            self._persisting = None
            self._pump()
        except Exception as error:  # noqa: BLE001 - of the disk or of a listener: the state is unknown now
            self._fail(error)

    async def completed(self) -> None:
        """Wait until all effects so far are carried out, and on disk where they must be."""
        if self._queue or self._persisting is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(done)
            await done

    def fail(self, error: Exception) -> None:
        """Carry out nothing more; tasks that wait get the error."""
        for effect in self._queue:
            if isinstance(effect, asyncio.Future) and not effect.done():
                effect.set_exception(error)
        self._queue.clear()

    async def close(self) -> None:
        """Wait for a write in progress."""
        if self._persisting is not None:
            await asyncio.gather(self._persisting, return_exceptions=True)
