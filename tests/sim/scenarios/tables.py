"""A compacted topic: writers of keys, some in transactions, some deleting; read and checked at the end.

And a topic with short retention, with the same open and aborted transactions in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.admin.topics import NewTopic
from ottla.client.values import TopicPartition
from tests.sim.checker import KeyedSend, Outcome, TableLog
from tests.sim.checker.history import Partition
from tests.sim.workload.readers import POLL_S, isolation, read_freely, refusals
from tests.sim.workload.recording import ReadLog
from tests.sim.workload.scenario import Part
from tests.sim.workload.writers import (
    DELIVERY_TIMEOUT_MS,
    REFUSED,
    REQUEST_TIMEOUT_MS,
    end_transaction,
    transactional,
    write,
    write_in_transactions,
)

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedClient
    from tests.sim.workload.story import Life, Story

TABLE, BRIEF = "table", "brief"
KEYS = 12
PARTITIONS = 2

CLEANING = {
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "2097152",
}


class Table(Part):
    """The topic `table`, compacted continuously."""

    topic = TABLE
    replicas_max = 3

    def topics(self, story: Story) -> list[NewTopic]:
        settings = {
            "cleanup.policy": "compact",
            "segment.ms": "1500",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "1000",
            "flush.ms": "500",
        }
        replicas = min(_replicas(story), self.replicas_max)
        settings["min.insync.replicas"] = str(min(replicas, 2))
        return [NewTopic(self.topic, PARTITIONS, replicas, configs=settings)]

    def roles(self, story: Story) -> Mapping[str, Life]:
        ledger = f"{self.topic}-ledger"
        return {
            f"{self.topic}-writer": partial(_write_keys, story, self.topic),
            ledger: partial(_write_keys_in_transactions, story, self.topic, name=ledger),
        }

    async def judge(self, story: Story, client: SimulatedClient) -> None:
        views: list[dict[Partition, list[tuple[int, str, str | None]]]] = []
        named = [TopicPartition(self.topic, index) for index in range(PARTITIONS)]
        for committed in (False, True):
            view: dict[Partition, list[tuple[int, str, str | None]]] = {
                (one.topic, one.partition): [] for one in named
            }
            async with client.consumer(**isolation(committed=committed)) as consumer:
                await consumer.assign(named)
                ends = await consumer.end_offsets(named)
                while any([await consumer.position(one) < ends[one] for one in named]):
                    for record in await consumer.poll(POLL_S):
                        value = None if record.value is None else record.value.decode()
                        place = (record.offset, record.key.decode(), value)
                        view[record.topic, record.partition].append(place)
            views.append(view)
        if any(len(view) < ends[TopicPartition(*partition)] for partition, view in views[0].items()):
            story.effects["log compacted"] += 1
        story.recorder.history.tables += [
            TableLog(partition=partition, records=tuple(views[0][partition]), committed=tuple(committed))
            for partition, committed in views[1].items()
        ]


class Brief(Part):
    """The topic `brief`, whose old segments are deleted continuously."""

    def story_topics(self, story: Story) -> list[NewTopic]:
        settings = {
            "min.insync.replicas": "2",
            "segment.ms": "1500",
            "retention.ms": "6000",
            "retention.bytes": "20000",
        }
        return [NewTopic(BRIEF, 1, _replicas(story), configs=settings)]

    def roles(self, story: Story) -> Mapping[str, Life]:
        partitions = [(BRIEF, 0)]
        recorder = story.recorder
        reading = partial(read_freely, story, recorder, partitions=partitions)
        transacting = partial(write_in_transactions, story, recorder, partitions=partitions)
        return {
            "brief-writer": partial(write, story, recorder, partitions=partitions, rate=10.0),
            "brief-ledger": partial(transacting, name="brief-ledger"),
            "brief-reader": partial(reading, committed=True),
        }

    async def judge(self, story: Story, client: SimulatedClient) -> None:
        final = story.recorder.history.final
        for number, log in enumerate(final):
            if log.partition == (BRIEF, 0):
                final[number] = replace(log, expires=True)
                story.effects["segments deleted"] += log.start > 0


class Rereading(Part):
    """A client that reads everything repeatedly, from the beginning."""

    def roles(self, story: Story) -> Mapping[str, Life]:
        return {"rereader": partial(_read_again, story)}


async def _read_again(story: Story, client: SimulatedClient) -> None:
    async with client.consumer(**isolation(committed=False)) as consumer:
        named = [TopicPartition(*partition) for partition in story.partitions]
        await consumer.assign(named)
        reads = ReadLog(story.recorder, client.host, consumer, committed=False)
        while not story.is_ending:
            async with refusals(story.recorder, client.host):
                reads.take(await consumer.poll(POLL_S))
            again = named[client.random.below(len(named))]
            await consumer.seek(again, 0)
            reads.forget([again])
            await asyncio.sleep(0.1)


def _replicas(story: Story) -> int:
    return min(sum(node.is_broker for node in story.world.nodes.values()), 3)


# Writing keys


async def _put(
    story: Story, topic: str, client: SimulatedClient, producer: Any, transaction: str | None = None
) -> asyncio.Task[None]:
    """Write a new value to a key, or delete it."""
    keyed = story.recorder.history.keyed
    rng = client.random
    index = rng.below(PARTITIONS)
    key = f"k{rng.below(KEYS)}"
    value = None if rng.below(5) == 0 else f"w{len(keyed)}"
    number = len(keyed)
    keyed.append(
        KeyedSend(
            process=client.host,
            partition=(topic, index),
            key=key,
            value=value,
            outcome=Outcome.UNKNOWN,
            transaction=transaction,
        )
    )
    raw = None if value is None else value.encode()
    try:
        delivery = await producer.send(topic, raw, key=key.encode(), partition=index)
    except REFUSED:
        keyed[number] = replace(keyed[number], outcome=Outcome.FAILED)
        raise
    return asyncio.ensure_future(_record_outcome(story, client.host, number, delivery))


async def _record_outcome(story: Story, process: str, number: int, delivery: Any) -> None:
    keyed = story.recorder.history.keyed
    try:
        report = await delivery
    except REFUSED as error:
        story.recorder.record_error(process, error)
    else:
        keyed[number] = replace(keyed[number], outcome=Outcome.OK, offset=report.offset)


async def _write_keys(story: Story, topic: str, client: SimulatedClient) -> None:
    settings = {
        "linger_ms": 5,
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        "delivery_timeout_ms": DELIVERY_TIMEOUT_MS,
    }
    waits = []
    async with client.producer(**settings) as producer:
        while not story.is_ending:
            waits.append(await _put(story, topic, client, producer))
            await asyncio.sleep(0.2 * client.random.fraction())
        await producer.flush()
        await asyncio.gather(*waits)


async def _write_keys_in_transactions(story: Story, topic: str, client: SimulatedClient, name: str) -> None:
    """Transactions that occasionally stay open for seconds, across segments that roll and are compacted."""
    recorder = story.recorder
    async with client.producer(**transactional(name)) as producer:
        while not story.is_ending:
            number, transaction = recorder.begin(client.host)
            await producer.begin_transaction()
            waits = []
            for _ in range(1 + client.random.below(4)):
                waits.append(await _put(story, topic, client, producer, transaction))
                await asyncio.sleep((3.0 if client.random.below(10) == 0 else 0.1) * client.random.fraction())
            await end_transaction(recorder, producer, number, commit=client.random.below(3) > 0)
            await asyncio.gather(*waits)
