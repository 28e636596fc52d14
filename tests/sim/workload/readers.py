"""Clients that read: free readers, members of a group, and read-process-write applications. Each call is one
client instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.testing.world import SimulatedClient
from ottla.wire.errors import CorruptMessage
from tests.sim.checker import FinalLog, Outcome
from tests.sim.checker.history import Partition, Place
from tests.sim.workload.recording import ReadLog, Recorder
from tests.sim.workload.writers import (
    CONNECTING,
    REFUSED,
    Schedule,
    end_transaction,
    send,
    transactional,
)

POLL_S = 2.0
FETCH_WAIT_MS = 2_000
FETCH_BYTES_MIN = 1_000
"""A fetch waits at a broker that has less than this."""


def patience(client: SimulatedClient) -> dict[str, Any]:
    """One reader wants each record at once, another waits until there are some."""
    return {
        "fetch_min_bytes": (1, FETCH_BYTES_MIN)[client.random.below(2)],
        "fetch_max_wait_ms": FETCH_WAIT_MS,
    }


def isolation(*, committed: bool) -> dict[str, Any]:
    return {
        "isolation_level": "read_committed" if committed else "read_uncommitted",
        "auto_offset_reset": "earliest",
        **CONNECTING,
    }


def member(group: str, protocol: str, *, committed: bool) -> dict[str, Any]:
    settings = {
        **isolation(committed=committed),
        "group_id": group,
        "group_protocol": protocol,
        "enable_auto_commit": False,
        "max_poll_interval_ms": 20_000,
    }
    if protocol == "classic":
        settings["session_timeout_ms"] = 10_000
    return settings


@asynccontextmanager
async def refusals(recorder: Recorder, process: str) -> AsyncIterator[None]:
    """Errors that a poll or a commit may raise during faults; the client continues."""
    try:
        yield
    except REFUSED as error:
        recorder.record_error(process, error)
        if isinstance(error, CorruptMessage):  # the next poll raises at once, without time passing
            await asyncio.sleep(POLL_S)


async def read_freely(
    story: Schedule,
    recorder: Recorder,
    client: SimulatedClient,
    partitions: list[Partition],
    *,
    committed: bool,
) -> None:
    """Read everything, and occasionally from the beginning again."""
    async with client.consumer(**isolation(committed=committed), **patience(client)) as consumer:
        named = [TopicPartition(*partition) for partition in partitions]
        await consumer.assign(named)
        reads = ReadLog(recorder, client.host, consumer, committed=committed)
        while not story.is_ending:
            async with refusals(recorder, client.host):
                reads.take(await consumer.poll(POLL_S, max_records=1 + client.random.below(100)))
            if client.random.below(100) == 0:
                again = named[client.random.below(len(named))]
                await consumer.seek(again, 0)
                reads.forget([again])


class _Listener:
    def __init__(self, recorder: Recorder, process: str, consumer: Any, reads: ReadLog) -> None:
        self.recorder, self.process, self.consumer, self.reads = recorder, process, consumer, reads

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        metadata = self.consumer.group_metadata()
        if metadata.generation_id > 0:
            # A static member keeps its identity when another process takes it over.
            member = metadata.group_instance_id or self.process
            self.recorder.assigned(metadata.group_id, member, metadata.generation_id, partitions)
        self.reads.forget(partitions)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.reads.forget(partitions)

    on_lost = on_revoked


async def read_in_group(
    story: Schedule, recorder: Recorder, client: SimulatedClient, topics: list[str], group: str, protocol: str
) -> None:
    """A member that commits its positions, periodically and at the end."""
    async with client.consumer(**member(group, protocol, committed=True), **patience(client)) as consumer:
        reads = ReadLog(recorder, client.host, consumer, committed=True)
        listener = _Listener(recorder, client.host, consumer, reads)
        await consumer.subscribe(topics, listener=listener)
        while not story.is_ending:
            records: list[Any] = []
            async with refusals(recorder, client.host):
                records = await consumer.poll(POLL_S)
                reads.take(records)
            if client.random.below(3 if records else 20) == 0:
                await _commit(recorder, client, consumer, group)
        await _commit(recorder, client, consumer, group)


async def _commit(recorder: Recorder, client: SimulatedClient, consumer: Any, group: str) -> None:
    offsets = _positions(consumer)
    if not offsets:
        return
    plain = {(named.topic, named.partition): place.offset for named, place in offsets.items()}
    try:
        await consumer.commit(offsets, timeout=10.0)
    except REFUSED as error:
        recorder.record_error(client.host, error)
        recorder.committed(group, plain, Outcome.UNKNOWN)
    else:
        recorder.committed(group, plain, Outcome.OK)


def _positions(consumer: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    assigned = consumer.assignment
    consumed = consumer._core.engine.positions.consumed()
    return {named: place for named, place in sorted(consumed.items()) if named in assigned}


class Interruption(Protocol):
    """An event that hits an application in the middle of a transaction."""

    async def interrupt(self) -> None: ...

    def refused(self, error: Exception) -> None:
        """The coordinator refused the offsets of the transaction."""


async def read_process_write(
    story: Schedule,
    recorder: Recorder,
    client: SimulatedClient,
    source: str,
    targets: list[Partition],
    group: str,
    protocol: str,
    name: str,
    *,
    settings: Mapping[str, Any] | None = None,
    interruption: Interruption | None = None,
) -> None:
    """Derive one record from each record of `source`, exactly once: the offsets are committed in the same
    transaction.

    One transaction in twelve is aborted. If a transaction is not committed, this instance ends, and the next
    one continues from the committed offsets.
    """
    async with (
        client.producer(**transactional(name)) as producer,
        client.consumer(
            **{**member(group, protocol, committed=True), **patience(client), **(settings or {})}
        ) as consumer,
    ):
        reads = ReadLog(recorder, client.host, consumer, committed=True)
        await consumer.subscribe([source], listener=_Listener(recorder, client.host, consumer, reads))
        while not story.is_ending:
            records: list[Any] = []
            async with refusals(recorder, client.host):
                records = await consumer.poll(POLL_S, max_records=20)
                reads.take(records)
            if records and not await _process(
                recorder, client, producer, consumer, records, targets, group, interruption
            ):
                return
            if records:
                interruption = None


async def _process(
    recorder: Recorder,
    client: SimulatedClient,
    producer: Any,
    consumer: Any,
    records: list[Any],
    targets: list[Partition],
    group: str,
    interruption: Interruption | None,
) -> bool:
    number, transaction = recorder.begin(client.host)
    await producer.begin_transaction()
    waits = []
    offsets: dict[Partition, int] = {}
    for record in records:
        place = (record.topic, record.partition, record.offset)
        offsets[record.topic, record.partition] = record.offset + 1
        target = targets[record.partition % len(targets)]
        waits.append(
            await send(recorder, producer, client.host, target, transaction=transaction, source=place)
        )
    if interruption is not None:
        await interruption.interrupt()
    elif client.random.below(4) == 0:  # slow: its group may remove it meanwhile
        await asyncio.gather(*waits)
        await asyncio.sleep(0.3 * client.random.fraction())
    try:
        places = {TopicPartition(*one): OffsetAndMetadata(offset) for one, offset in offsets.items()}
        # Applications ask for the group metadata here: the group may have removed the member by now.
        await producer.send_offsets(places, consumer.group_metadata())
        may_commit = interruption is not None or client.random.below(12) > 0
    except REFUSED as error:  # the group has removed this member, for example
        recorder.record_error(client.host, error)
        if interruption is not None:
            interruption.refused(error)
        may_commit = False
    done = await end_transaction(recorder, producer, number, commit=may_commit)
    await asyncio.gather(*waits)
    outcome = Outcome.OK if done else Outcome.FAILED
    recorder.committed(group, offsets, outcome, transaction)
    return done


async def read_all(client: SimulatedClient, partitions: Iterable[Partition]) -> list[FinalLog]:
    """Each partition from its beginning to its current end, with both isolation levels."""
    named = [TopicPartition(*partition) for partition in partitions]
    views: list[dict[Partition, list[Place]]] = []
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for committed in (False, True):
        view: dict[Partition, list[Place]] = {(one.topic, one.partition): [] for one in named}
        async with client.consumer(**isolation(committed=committed)) as consumer:
            await consumer.assign(named)
            starts = await consumer.beginning_offsets(named)
            ends = await consumer.end_offsets(named)
            while any([await consumer.position(one) < ends[one] for one in named]):
                for record in await consumer.poll(POLL_S):
                    view[record.topic, record.partition].append((record.offset, record.value.decode()))
        views.append(view)
    return [
        FinalLog(
            partition=(one.topic, one.partition),
            start=starts[one],
            end=ends[one],
            records=tuple(views[0][one.topic, one.partition]),
            committed=tuple(views[1][one.topic, one.partition]),
        )
        for one in named
    ]
