"""Clients in this process, each with a thread of its own, whose lives are written down in a `History`.

Those on an event loop can be killed as by kill -9: their loop never runs again, so nothing of theirs is
closed, committed or said goodbye to; only their connections end, as the system ends those of a process.
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

_GRAVEYARD: list[object] = []  # what a killed client left behind is never run again, nor taken down


class SharedRecorder(Recorder):
    """A recorder that many threads use at a time."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(cast(World, timeline))
        self._lock = threading.Lock()
        # Where members began to read what they were given: group, partition, first offset, when it was given.
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


class Ending:
    """Whether clients shall finish."""

    def __init__(self) -> None:
        self.is_ending = False

    async def rest(self) -> None:
        """They are busy all the time."""


class Chance:
    """Randomness as `ottla.ports.Random` has it, from a seed."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def fraction(self) -> float:
        return self._random.random()


class RealClient:
    """What `tests.sim.workload` asks of a client, over real connections."""

    def __init__(self, host: str, bootstrap: str, seed: str) -> None:
        self.host = host
        self.random = Chance(f"{seed}/{host}")
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
        """Itself, for code that was written for simulated clients."""
        return cast(SimulatedClient, self)


class Life(threading.Thread):
    """One client on an event loop of its own."""

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
            self._bury()
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

    def stand_still(self, seconds: float) -> None:
        """As a process that the system does not run for so long: it knows nothing of it, and goes on then."""
        self._loop.call_soon_threadsafe(time.sleep, seconds)

    def _finish(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _bury(self) -> None:
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        transports = list(self._loop._transports.values())  # type: ignore[attr-defined]
        _GRAVEYARD.append((self._loop, tasks, transports))
        for transport in transports:
            if transport._sock is not None:  # one that is closed already has none
                transport._sock.close()
        self._loop.close()
