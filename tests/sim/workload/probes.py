"""A period without faults at the end of each story: everything works again, and every kind of wait is timed.

The waits here depend on other processes, not on timers: a record on its replicas, a reader on a record, a
transaction on its coordinator and its markers, a member on its group. So the delays of the network and the
disks limit each wait. The final checks of the logs include these records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.testing.world import SimulatedClient, World
from tests.sim.checker.history import Partition
from tests.sim.workload.readers import FETCH_WAIT_MS, isolation, member
from tests.sim.workload.recording import Recorder
from tests.sim.workload.writers import CONNECTING, end_transaction, send, transactional

TRANSACTIONS = 4
"""Each has its own id, so that most coordinators have one."""

HEARTBEAT_S = 0.2
"""The time until a member of a classic group learns of new members."""

_HOPS, _WORKS = 4, 2
"""A step: a request, the leader's response to a follower, the follower's next fetch, the response; and a
flush on each of the two, one after the other."""

_PROTOCOLS = ("classic", "consumer")
_POLL_S = 0.1
_READ_STEPS = 3
_COMMIT_STEPS = 4
_JOIN_STEPS = 10


def longest_step_s(world: World) -> float:
    """The longest duration of one step, by the current delays."""
    disks = [node.disk for node in world.nodes.values() if node.disk is not None]
    work_s = max((2 * disk.delay_s[1] for disk in disks), default=0.0)
    return _HOPS * world.wires.delay_s_max() + _WORKS * work_s


@dataclass
class Probes:
    """`partitions` are written and read."""

    recorder: Recorder
    partitions: list[Partition]

    async def prepare(self, client: SimulatedClient) -> None:
        """If no group or transaction existed before, create the coordinators' topics."""
        for protocol in _PROTOCOLS:
            async with client.consumer(**member(_group(protocol), protocol, committed=True)) as consumer:
                await consumer.committed([TopicPartition(*self.partitions[0])])
        async with client.producer(**transactional("probe-0")) as producer:
            await producer.begin_transaction()
            await producer.abort_transaction()

    async def run(self, client: SimulatedClient) -> None:
        committed = _Watch(self.recorder, client, self.partitions, committed=True)
        uncommitted = _Watch(self.recorder, client, self.partitions, committed=False)
        watches = [committed, uncommitted]
        reading = [asyncio.ensure_future(watch.run()) for watch in watches]
        try:
            await asyncio.gather(*(watch.is_ready.wait() for watch in watches))
            await self._write(client, watches)
            for number in range(TRANSACTIONS):
                await self._transact(client, committed, number)
            await self._join(client)
        finally:
            await _cancel(reading)

    async def _write(self, client: SimulatedClient, watches: list[_Watch]) -> None:
        for acks in (-1, 1):
            settings = {"acks": acks, "enable_idempotence": acks == -1, **CONNECTING}
            async with client.producer(**settings) as producer:
                for partition in self.partitions:
                    sent = await send(self.recorder, producer, client.host, partition, acks=acks)
                    await sent
                    value = self.recorder.history.sends[-1].value
                    began = client.world.now
                    for watch in watches:
                        await watch.sees(value, began)

    async def _transact(self, client: SimulatedClient, watch: _Watch, number: int) -> None:
        recorder = self.recorder
        async with client.producer(**transactional(f"probe-{number}")) as producer:
            transaction, name = recorder.begin(client.host)
            await producer.begin_transaction()
            for partition in self.partitions[:2]:
                sent = await send(recorder, producer, client.host, partition, transaction=name)
                await sent
            value = recorder.history.sends[-1].value
            began = client.world.now
            await end_transaction(recorder, producer, transaction, commit=True)
            recorder.waited("the end of a transaction", client.host, began, steps=_COMMIT_STEPS)
            await watch.sees(value, client.world.now)

    async def _join(self, client: SimulatedClient) -> None:
        """One member of each protocol joins its own group, then another one joins the classic group."""
        living: list[asyncio.Future[None]] = []
        try:
            for protocol, patience_s in (*((one, 0.0) for one in _PROTOCOLS), ("classic", 2 * HEARTBEAT_S)):
                one = _Member(self.recorder, client, self.partitions, protocol, patience_s)
                living.append(asyncio.ensure_future(one.run()))
                ready = asyncio.ensure_future(one.is_ready.wait())
                waited: list[asyncio.Future[Any]] = [ready, living[-1]]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if not ready.done():
                    ready.cancel()
                    living[-1].result()  # raises its error
        finally:
            await _cancel(living)


def _group(protocol: str) -> str:
    return f"probes-{protocol}"


async def _cancel(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Watch:
    """Reads all records, and stores the time at which each value was read."""

    def __init__(
        self, recorder: Recorder, client: SimulatedClient, partitions: list[Partition], *, committed: bool
    ) -> None:
        self.is_ready = asyncio.Event()
        self._recorder = recorder
        self._client = client
        self._named = [TopicPartition(*partition) for partition in partitions]
        self._committed = committed
        self._seen: set[str] = set()
        self._news = asyncio.Event()

    async def run(self) -> None:
        settings = isolation(committed=self._committed) | {"fetch_max_wait_ms": FETCH_WAIT_MS}
        async with self._client.consumer(**settings) as consumer:
            await consumer.assign(self._named)
            await consumer.seek_to_end(self._named)
            for one in self._named:
                await consumer.position(one)
            self.is_ready.set()
            while True:
                self._seen |= {record.value.decode() for record in await consumer.poll(10.0)}
                self._news.set()

    async def sees(self, value: str, began: float) -> None:
        """Wait until it has been read; it was readable since `began`."""
        while value not in self._seen:
            self._news.clear()
            await self._news.wait()
        level = "read_committed" if self._committed else "read_uncommitted"
        self._recorder.waited(f"{value} ({level})", self._client.host, began, steps=_READ_STEPS)


class _Member:
    """Joins a group, commits, and polls until it is cancelled."""

    def __init__(
        self,
        recorder: Recorder,
        client: SimulatedClient,
        partitions: list[Partition],
        protocol: str,
        patience_s: float,
    ) -> None:
        self.is_ready = asyncio.Event()
        self._recorder = recorder
        self._client = client
        self._partitions = partitions
        self._protocol = protocol
        self._patience_s = patience_s
        self._has_joined = False

    async def run(self) -> None:
        settings = member(_group(self._protocol), self._protocol, committed=True)
        if self._protocol == "classic":
            settings["heartbeat_interval_ms"] = int(HEARTBEAT_S * 1000)
        recorder, world, name = self._recorder, self._client.world, f"{self._client.host}, {self._protocol}"
        topics = sorted({topic for topic, _ in self._partitions})
        began = world.now
        async with self._client.consumer(**settings) as consumer:
            await consumer.subscribe(topics, listener=self)
            while not self._has_joined:
                await consumer.poll(_POLL_S)
            patience_s = self._patience_s + _POLL_S
            recorder.waited("its place in a group", name, began, steps=_JOIN_STEPS, patience_s=patience_s)
            began = world.now
            await consumer.commit({TopicPartition(*self._partitions[0]): OffsetAndMetadata(0)})
            recorder.waited("a committed offset", name, began, steps=_COMMIT_STEPS)
            self.is_ready.set()
            while True:
                await consumer.poll(10.0)  # this also calls the listener

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self._has_joined = True

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Nothing to save."""

    on_lost = on_revoked
