"""Targeted stories for planted bugs that random ones rarely hit: each leads directly to one bug.

A story has its own world and recorder; the checker checks its history, as for all stories. Without the bug
the story passes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from ottla.client.admin.topics import NewTopic
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.server.metadata.log_follower import LogFollower
from ottla.server.replicas.partition import Partition
from ottla.server.replicas.replication import Replication
from ottla.testing.world import SimulatedClient, World
from ottla.wire.errors import NotEnoughReplicas
from tests.sim.checker import KeyedSend, Quiet, TableLog, check
from tests.sim.checker import Outcome as Known
from tests.sim.scenarios.tables import CLEANING
from tests.sim.workload import Outcome, Recorder
from tests.sim.workload.probes import longest_step_s
from tests.sim.workload.readers import read_all
from tests.sim.workload.writers import REFUSED, send

TargetedStory = Callable[[int], Outcome]

_TOPIC = "aimed"
_DAY_MS = 24 * 3600 * 1000
_FOREVER_S = 200.0


class _Stage:
    """A world, its one client, and the recorder."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.recorder = Recorder(world)
        self.client: SimulatedClient = world.client("client")

    @contextmanager
    def is_quiet(self, step_s: float | None = None) -> Iterator[None]:
        """Mark the block as free of faults that matter here."""
        began = self.world.now
        try:
            yield
        finally:
            longest_s = longest_step_s(self.world) if step_s is None else step_s
            quiet = Quiet(began=began - 0.001, ended=self.world.now, step_s=longest_s)
            self.recorder.history.quiet.append(quiet)

    async def create(self, partitions: int, nodes: list[int], **configs: str) -> None:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        async with self.client.admin() as admin:
            placed = dict.fromkeys(range(partitions), nodes)
            await admin.create_topics([NewTopic(_TOPIC, assignments=placed, configs=named)])

    async def read(self, *, has_one_replica: bool = False) -> None:
        """Read the final contents of the topic."""
        for log in await read_all(self.client, [(_TOPIC, 0)]):
            self.recorder.history.final.append(replace(log, has_one_replica=has_one_replica))


def _run(
    seed: int,
    nodes: int,
    script: Callable[[_Stage], Awaitable[None]],
    *,
    controllers: int | None = None,
    **settings: str,
) -> Outcome:
    with World(seed) as world:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        world.add_nodes(nodes, controllers=controllers, settings=named)
        stage = _Stage(world)

        async def story() -> None:
            await world.start()
            await script(stage)

        world.run(story(), limit_s=1000)
        history = stage.recorder.history
        unhandled = [str(one) for one in world.unhandled]
        return Outcome(seed, history, check(history), unhandled, world.history(), world.trace_hash, Counter())


# Clients


def paused_partition(seed: int) -> Outcome:
    """A partition is paused with more in the buffer than a fetch returns; the other one has a record."""

    async def script(stage: _Stage) -> None:
        async def work() -> None:
            await stage.create(2, [1])
            async with stage.client.producer() as producer:
                for _ in range(40):
                    await producer.send(_TOPIC, b"x" * 2000, partition=0)
                await producer.flush()
            limits = {"fetch_max_bytes": 20_000, "max_partition_fetch_bytes": 20_000}
            named = [TopicPartition(_TOPIC, index) for index in (0, 1)]
            async with stage.client.consumer(auto_offset_reset="earliest", **limits) as consumer:
                await consumer.assign(named)
                while not await consumer.poll(1.0, max_records=1):
                    pass
                await asyncio.sleep(1.0)  # the buffer is full
                await consumer.pause(named[:1])
                with stage.is_quiet():
                    async with stage.client.producer() as producer:
                        await (await producer.send(_TOPIC, b"for all", partition=1))
                    began = stage.world.now
                    while not await consumer.poll(1.0) and stage.world.now - began < _FOREVER_S:
                        pass
                    kind = "a record of a partition that is not paused"
                    stage.recorder.waited(kind, stage.client.host, began, steps=6)

        await stage.client.spawn(work())

    return _run(seed, 1, script)


def commit_while_nobody_answers(seed: int) -> Outcome:
    """A commit with a timeout follows an automatic one that looks for a dead coordinator."""
    timeout_s = 2.0

    async def script(stage: _Stage) -> None:
        async def work() -> None:
            await stage.create(1, [1])
            async with stage.client.producer() as producer:
                await (await producer.send(_TOPIC, b"one", partition=0))
            settings = {"group_id": "group", "auto_commit_interval_ms": 100, "auto_offset_reset": "earliest"}
            consumer = stage.client.consumer(**settings)
            await consumer.subscribe([_TOPIC])
            while not await consumer.poll(1.0):
                pass
            stage.world.crash(1)
            for _ in range(5):
                await consumer.poll(0.5)
            began = stage.world.now
            with stage.is_quiet():
                try:
                    await consumer.commit(
                        {TopicPartition(_TOPIC, 0): OffsetAndMetadata(1)}, timeout=timeout_s
                    )
                except REFUSED as error:
                    stage.recorder.record_error(stage.client.host, error)
                kind = "the end of a commit with a timeout"
                stage.recorder.waited(kind, stage.client.host, began, steps=4, patience_s=timeout_s)
            await stage.world.start(1)
            await consumer.close()

        await stage.client.spawn(work())

    return _run(seed, 1, script)


def first_batch_refused(seed: int) -> Outcome:
    """The first batch for a partition is refused briefly, with others in flight."""
    real = Partition.append
    refused: list[Partition] = []

    def append(partition: Any, *batch: Any, **named: Any) -> Any:
        if partition.topic == _TOPIC and len(refused) < 2:  # on the fast path and on the general one
            refused.append(partition)
            raise NotEnoughReplicas("Refused once, on purpose.")
        return real(partition, *batch, **named)

    async def script(stage: _Stage) -> None:
        async def work() -> None:
            await stage.create(1, [1])
            settings = {"linger_ms": 0, "batch_size": 100, "delivery_timeout_ms": 60_000}
            async with stage.client.producer(**settings) as producer:
                with patch.object(Partition, "append", append), stage.is_quiet(step_s=1.0):
                    began = stage.world.now
                    waits = [
                        await send(stage.recorder, producer, stage.client.host, (_TOPIC, 0))
                        for _ in range(20)
                    ]
                    await asyncio.gather(*waits)
                    kind = "all records of a producer"
                    stage.recorder.waited(kind, stage.client.host, began, steps=4)
            await stage.read()

        await stage.client.spawn(work())

    return _run(seed, 1, script)


# Replicas


def metadata_that_repeats_an_answer(seed: int) -> Outcome:
    """A leader learns twice that a replica left the ISR: by the response to its proposal, and by metadata
    that arrives after it has proposed to add the replica again. Then only that replica remains."""
    leader_id, other_id, replica_id = 2, 3, 4
    metadata, proposals = asyncio.Event(), asyncio.Event()
    metadata.set()
    proposals.set()
    really_exchange, really_ask = LogFollower._exchange, Replication._ask_controller

    async def exchange(follower: Any, *request: Any) -> Any:
        response = await really_exchange(follower, *request)
        if follower._config.node_id == leader_id:
            await metadata.wait()
        return response

    async def ask(replication: Any, request: Any) -> Any:
        if replication._parts.node_id == leader_id:
            await proposals.wait()
        return await really_ask(replication, request)

    async def script(stage: _Stage) -> None:
        world, client, place = stage.world, stage.client, (_TOPIC, 0)

        def leadership() -> Any:
            node = world.nodes[leader_id].node
            found = [one.leadership for one in node._broker.partitions if one.topic == _TOPIC]  # type: ignore[union-attr]
            return found[0] if found else None

        async def until(condition: Callable[[], bool]) -> None:
            while not condition():
                await asyncio.sleep(0.001)

        async def work() -> None:
            await stage.create(1, [leader_id, other_id, replica_id])
            settings = {"linger_ms": 0, "request_timeout_ms": 5_000, "delivery_timeout_ms": 100_000}
            async with client.producer(**settings) as producer:
                await (await send(stage.recorder, producer, client.host, place))
                await until(lambda: len(leadership().isr) == 3)
                metadata.clear()
                world.cut(leader_id, replica_id, both=True)
                await (await send(stage.recorder, producer, client.host, place))
                await until(lambda: len(leadership().isr) == 2)
                proposals.clear()
                world.heal()
                await until(lambda: leadership().pending is not None)
                world.cut(leader_id, replica_id, both=True)
                known = leadership().partition_epoch
                metadata.set()
                await until(lambda: _known_epoch(world, leader_id) == known)
                metadata.clear()
                proposals.set()
                await until(lambda: _known_epoch(world, 1) == known + 1)
                last = await send(stage.recorder, producer, client.host, place)
                await asyncio.sleep(8)  # the replica lags: its leader waits for it only if it is in sync
                world.crash(leader_id)
                world.crash(other_id)
                world.heal()
                metadata.set()
                await asyncio.sleep(10)  # the replica is elected
                await world.start(leader_id, other_id)
                await last
                await stage.read()

        await client.spawn(work())

    with (
        patch.object(LogFollower, "_exchange", exchange),
        patch.object(Replication, "_ask_controller", ask),
    ):
        return _run(
            seed, 4, script, controllers=1, replica_lag_time_max_ms="2000", broker_session_timeout_ms="3000"
        )


def _known_epoch(world: World, node_id: int) -> int:
    """The partition epoch in a node's metadata."""
    node = world.nodes[node_id].node
    image = node._quorum.image  # type: ignore[union-attr]
    topic = image.topics_by_name[_TOPIC]
    partition = image.partition(topic.id, 0)
    return -1 if partition is None else partition.partition_epoch


# Logs


def failed_sync(seed: int) -> Outcome:
    """A sync fails under a record that only its leader acknowledges; then the host reboots."""

    async def script(stage: _Stage) -> None:
        async def work() -> None:
            await stage.create(1, [2], flush_messages="1")
            settings = {"acks": 1, "enable_idempotence": False, "retries": 0, "linger_ms": 0}
            async with stage.client.producer(**settings) as producer:
                place = (_TOPIC, 0)
                await (await send(stage.recorder, producer, stage.client.host, place, acks=1))
                node = stage.world.nodes[2]
                assert node.disk is not None
                node.disk.fail("fsync", f"{_TOPIC}-0")
                await (await send(stage.recorder, producer, stage.client.host, place, acks=1))
                node.lose_power()
                await node.start()
            await stage.read(has_one_replica=True)

        await stage.client.spawn(work())

    return _run(seed, 2, script)


def old_timestamps_and_a_clean_restart(seed: int) -> Outcome:
    """A producer's last batch has an old timestamp, and is sent again after a clean restart."""

    async def script(stage: _Stage) -> None:
        world, client, recorder = stage.world, stage.client, stage.recorder

        async def put(producer: Any, timestamp_ms: int) -> Any:
            number, value = recorder.send(client.host, (_TOPIC, 0))
            delivery = await producer.send(_TOPIC, value.encode(), partition=0, timestamp=timestamp_ms)
            return number, delivery

        async def write() -> None:
            settings = {"linger_ms": 0, "request_timeout_ms": 5_000, "delivery_timeout_ms": 100_000}
            now_ms = client.clock.now_ms()
            async with client.producer(**settings) as producer:
                waits = [await put(producer, now_ms)]
                await waits[0][1]
                world.cut(1, client)  # responses are lost from now on
                waits.append(await put(producer, now_ms - 2 * _DAY_MS))
                for number, delivery in waits:
                    report = await delivery
                    recorder.sent(number, Known.OK, report.offset)

        await client.spawn(stage.create(1, [1], message_timestamp_before_max_ms=str(10 * _DAY_MS)))
        writing = client.spawn(write())
        await asyncio.sleep(2)
        await world.stop()
        await world.start()
        world.heal()
        await writing
        await client.spawn(stage.read())

    return _run(seed, 1, script)


def copied_gaps_and_a_kill(seed: int) -> Outcome:
    """The only replica of a compacted log moves to another node, which is killed soon after."""
    keys = 4

    async def script(stage: _Stage) -> None:
        client, world = stage.client, stage.world
        keyed = stage.recorder.history.keyed
        partition = (_TOPIC, 0)
        configs = {"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01"}

        async def write() -> None:
            async with client.admin() as admin:
                await admin.create_topics([NewTopic(_TOPIC, assignments={0: [1]}, configs=configs)])
            async with client.producer(linger_ms=0) as producer:
                for number in range(24):
                    key, value = f"k{number % keys if number > keys else keys + number}", f"w{number}"
                    report = await (
                        await producer.send(_TOPIC, value.encode(), key=key.encode(), partition=0)
                    )
                    keyed.append(
                        KeyedSend(
                            process=client.host,
                            partition=partition,
                            key=key,
                            value=value,
                            outcome=Known.OK,
                            offset=report.offset,
                        )
                    )
                    await asyncio.sleep(0.3)

        async def reassign() -> None:
            async with client.admin() as admin:
                results = await admin.alter_partition_reassignments({TopicPartition(*partition): [2]})
                results.all()
                while not any(
                    one.is_leader
                    for one in world.nodes[2].node._broker.partitions  # type: ignore[union-attr]
                    if one.topic == _TOPIC
                ):
                    await asyncio.sleep(0.05)

        async def read() -> None:
            [log] = await _read_table(client, partition)
            stage.recorder.history.tables.append(log)

        await client.spawn(write())
        await asyncio.sleep(5)  # until compaction has run
        await client.spawn(reassign())
        world.crash(2)
        await world.start(2)
        await client.spawn(read())

    # Batch by batch, so that the copy has a segment for each.
    settings: dict[str, Any] = {**CLEANING, "replica.fetch.max.bytes": "100"}
    return _run(seed, 2, script, **settings)


async def _read_table(client: SimulatedClient, partition: tuple[str, int]) -> list[TableLog]:
    named = TopicPartition(*partition)
    found: list[tuple[int, str, str | None]] = []
    async with client.consumer(auto_offset_reset="earliest") as consumer:
        await consumer.assign([named])
        ends = await consumer.end_offsets([named])
        while await consumer.position(named) < ends[named]:
            found += [(one.offset, one.key.decode(), one.value.decode()) for one in await consumer.poll(1.0)]
    return [TableLog(partition=partition, records=tuple(found), committed=tuple(found))]
