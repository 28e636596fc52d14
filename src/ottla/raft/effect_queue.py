"""Effects on their way: each is done after the one before it, and an election is on disk before the next.

What needs no disk is done at once when nothing is ahead of it. After a failure nothing more is done: what was
decided on an election that is not on disk must not be seen by anyone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from ottla.raft.effects import Effect, PersistElection
from ottla.raft.election_state import ElectionState


class Outbox:
    """The queue of a driver. Nobody who waits for it can stop it by being cancelled."""

    def __init__(
        self,
        persist: Callable[[ElectionState], Awaitable[None]],
        do: Callable[[Effect], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`persist` and `do` carry out; what they raise goes to `fail`, and that is the end."""
        self._persist = persist
        self._do = do
        self._fail = fail
        self._queue: deque[Effect | asyncio.Future[None]] = deque()
        self._persisting: asyncio.Task[None] | None = None

    def add(self, effect: Effect) -> None:
        self._queue.append(effect)

    def pump(self) -> None:
        """Do what can be done now."""
        queue = self._queue
        while queue and self._persisting is None:
            effect = queue.popleft()
            if isinstance(effect, asyncio.Future):
                if not effect.done():
                    effect.set_result(None)
            elif isinstance(effect, PersistElection):
                election = effect.election
                while queue and isinstance(queue[0], PersistElection):
                    election = queue[0].election  # nobody saw the one before it, so the last one is enough
                    queue.popleft()
                self._persisting = asyncio.ensure_future(self._go_on_after(election))
            else:
                self._do(effect)

    async def _go_on_after(self, election: ElectionState) -> None:
        try:
            await self._persist(election)
            self._persisting = None
            self.pump()
        except Exception as error:  # noqa: BLE001 - of the disk or of a listener: what holds is unknown now
            self._fail(error)

    async def settled(self) -> None:
        """Back when all that is in here now is done."""
        if self._queue or self._persisting is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(done)
            await done

    def end(self, error: Exception) -> None:
        """Do nothing more; whoever waits gets the error."""
        for effect in self._queue:
            if isinstance(effect, asyncio.Future) and not effect.done():
                effect.set_exception(error)
        self._queue.clear()

    async def close(self) -> None:
        """Wait for a write that is under way."""
        if self._persisting is not None:
            await asyncio.gather(self._persisting, return_exceptions=True)
