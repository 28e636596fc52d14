"""Clients in this process, each in its own thread, that record their operations in a `History`.

Clients on an event loop can be killed as by kill -9: their loop never runs again, so they close, commit and
leave nothing; only their connections end, as the system ends those of a dead process.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, cast

from ottla import aio
from ottla.testing.world import SimulatedClient, World
from tests.chaos.timeline import Timeline
from tests.sim.checker import Outcome
from tests.sim.checker.history import Partition, SourcePlace
from tests.sim.workload.recording import Recorder

_KILLED: list[object] = []  # objects of killed clients, kept from running or closing


class SharedRecorder(Recorder):
    """A recorder for several threads."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(cast(World, timeline))
        self._lock = threading.Lock()
        # Where members began to read assigned partitions: group, partition, first offset, time of the
        # assignment.
        self.beginnings: list[tuple[str, Partition, int, float]] = []

    def send(
        self,
        process: str,
        partition: Partition,
        *,
        transaction: str | None = None,
        source: SourcePlace | None = None,
        acks: int = -1,
    ) -> tuple[int, str]:
        with self._lock:
            return super().send(process, partition, transaction=transaction, source=source, acks=acks)

    def sent(self, number: int, outcome: Outcome, offset: int | None = None) -> None:
        with self._lock:
            super().sent(number, outcome, offset)

    def begin(self, process: str) -> tuple[int, str]:
        with self._lock:
            return super().begin(process)

    def committing(self, number: int) -> None:
        with self._lock:
            super().committing(number)

    def ended(self, number: int, outcome: Outcome) -> None:
        with self._lock:
            super().ended(number, outcome)

    def assigned(self, group: str, member: str, generation: int, partitions: Iterable[Partition]) -> None:
        with self._lock:
            super().assigned(group, member, generation, partitions)

    def committed(
        self, group: str, offsets: dict[Partition, int], outcome: Outcome, transaction: str | None = None
    ) -> None:
        with self._lock:
            super().committed(group, offsets, outcome, transaction)


class Schedule:
    """Tells clients when to finish."""

    def __init__(self) -> None:
        self.is_ending = False

    async def rest(self) -> None:
        """They are always busy."""


class SeededRandom:
    """`ottla.ports.Random` from a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def fraction(self) -> float:
        return self._random.random()


class RealClient:
    """The client interface of `tests.sim.workload`, over real connections."""

    def __init__(self, host: str, bootstrap: str, seed: str) -> None:
        self.host = host
        self.random = SeededRandom(f"{seed}/{host}")
        self._bootstrap = bootstrap
        self._made = 0

    def _settings(self, given: dict[str, Any]) -> dict[str, Any]:
        self._made += 1
        return {"bootstrap_servers": self._bootstrap, "client_id": f"{self.host}-{self._made}", **given}

    def producer(self, **settings: Any) -> aio.Producer:
        return aio.Producer(**self._settings(settings))

    def consumer(self, **settings: Any) -> aio.Consumer[Any, Any]:
        return aio.Consumer(**self._settings(settings))

    def admin(self, **settings: Any) -> aio.Admin:
        return aio.Admin(**self._settings(settings))

    @property
    def simulated(self) -> SimulatedClient:
        """Itself, for code written for simulated clients."""
        return cast(SimulatedClient, self)


class ClientThread(threading.Thread):
    """One client on its own event loop."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._loop = asyncio.new_event_loop()
        self._is_killed = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(self._work())
        task.add_done_callback(lambda _: self._loop.stop())
        self._loop.run_forever()
        if self._is_killed and not task.done():
            self._discard()
            return
        if task.cancelled():
            self.error = asyncio.CancelledError()
        else:
            self.error = task.exception()
            self.result = None if self.error is not None else task.result()
        self._finish()

    def kill(self) -> None:
        """As kill -9."""
        self._is_killed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join(60)
        assert not self.is_alive(), f"{self.name} blocks its loop"

    def stall(self, seconds: float) -> None:
        """Block the loop for so long, like a process that gets no CPU: it does not notice, and continues."""
        self._loop.call_soon_threadsafe(time.sleep, seconds)

    def _finish(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _discard(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        transports = list(self._loop._transports.values())  # type: ignore[attr-defined]
        _KILLED.append((self._loop, tasks, transports))
        for transport in transports:
            if transport._sock is not None:  # already closed otherwise
                transport._sock.close()
        self._loop.close()
