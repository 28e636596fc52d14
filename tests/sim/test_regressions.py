"""Bugs found by simulated worlds, each as a story: see docs/reliability.md."""

from __future__ import annotations

import asyncio
import gc
import random
import weakref

from ottla.client.admin.topics import NewTopic
from ottla.client.values import TopicPartition
from ottla.log.directories.log_directories import LogDirectories
from ottla.log.directories.log_loader import SurveyedDirectory, survey
from ottla.log.directories.properties import CLEAN_SHUTDOWN
from ottla.server.broker import Broker
from ottla.server.handlers.auto_create import create_in_background
from ottla.server.replicas.partition import Partition, flush_soon
from ottla.testing.world import World
from ottla.testing.world.disk import SimulatedDisk, crash_states
from ottla.testing.world.loop import WorldLoop


def test_a_consumed_clean_shutdown_marker_stays_deleted_after_a_power_loss() -> None:
    disk = SimulatedDisk(random.Random(1))
    disk.make_directory("/data")
    disk.replace(f"/data/{CLEAN_SHUTDOWN}", b"{}")
    disk.storage.sync_all()
    assert survey(disk, SurveyedDirectory("/data")).is_clean
    for state in crash_states(disk.storage):
        assert not survey(SimulatedDisk(random.Random(1), storage=state), SurveyedDirectory("/data")).is_clean


def test_a_waiting_fetch_is_answered_after_a_read_error() -> None:
    with World(1) as world:
        world.add_nodes(3)
        client = world.client("client")

        async def create() -> None:
            async with client.admin() as admin:
                await admin.create_topics([NewTopic("told", assignments={0: [1, 2, 3]})])

        async def write() -> None:
            async with client.producer() as producer:
                await (await producer.send("told", b"one"))
                disk = world.nodes[1].disk
                assert disk is not None
                disk.fail("pread", "told-0", times=2)  # one for each follower's waiting fetch
                await (await producer.send("told", b"two"))

        async def story() -> float:
            await world.start()
            await client.spawn(create())
            await asyncio.sleep(5)  # until the fetches wait
            began = world.now
            await client.spawn(write())
            return world.now - began

        assert world.run(story(), limit_s=200) < 15  # not only after the followers' request.timeout.ms
        assert world.unhandled == []


def test_a_node_with_a_failed_metadata_log_does_not_vote() -> None:
    with World(1) as world:
        nodes = world.add_nodes(3)

        async def story() -> None:
            await world.start()
            await asyncio.sleep(2)
            leader = next(node for node in nodes if node.active_epoch is not None)
            broken = next(node for node in nodes if node is not leader)
            assert broken.disk is not None
            broken.disk.fail("pwrite", "__cluster_metadata")
            leader.crash()  # which triggers vote requests
            while broken.is_running:
                await asyncio.sleep(1)
            await world.start()

        world.run(story(), limit_s=300)
        assert world.unhandled == []


def test_a_controller_without_a_directory_resigns() -> None:
    with World(1) as world:
        nodes = world.add_nodes(3)
        client = world.client("client")

        async def read(leader_id: int) -> None:
            async with client.admin() as admin:
                await admin.create_topics([NewTopic("lost", assignments={0: [leader_id]})])
            async with client.producer() as producer:
                await (await producer.send("lost", b"one"))
            disk = world.nodes[leader_id].disk
            assert disk is not None
            disk.fail("pread")
            async with client.consumer(auto_offset_reset="earliest", request_timeout_ms=1_000) as consumer:
                await consumer.assign([TopicPartition("lost", 0)])
                await consumer.poll(1.0)

        async def story() -> float:
            await world.start()
            await asyncio.sleep(2)
            leader = next(node for node in nodes if node.active_epoch is not None)
            reading = client.spawn(read(leader.id))
            assert leader.node is not None
            assert leader.node.failure is not None
            await asyncio.wait([leader.node.failure])
            failed_at = world.now
            while not any(node.active_epoch is not None for node in nodes if node is not leader):
                await asyncio.sleep(0.001)
            took = world.now - failed_at
            while leader.is_running:
                await asyncio.sleep(0.1)
            await reading
            return took

        assert world.run(story(), limit_s=300) < 1.0  # others do not wait for the fetch timeout
        assert world.unhandled == []


def test_retried_batches_are_recognized_after_a_clean_restart() -> None:
    with World(4) as world:
        nodes = world.add_nodes(3)
        client = world.client("client")

        async def create() -> None:
            async with client.admin() as admin:
                await admin.create_topics([NewTopic("once", assignments={0: [1, 2, 3]})])

        async def write() -> None:
            settings = {"linger_ms": 0, "request_timeout_ms": 5_000, "delivery_timeout_ms": 100_000}
            async with client.producer(**settings) as producer:
                await (await producer.send("once", b"first"))
                for node in nodes:
                    world.cut(node, client)  # responses are lost from now on
                waits = []
                for number in range(4):
                    waits.append(await producer.send("once", b"%d" % number))
                    await asyncio.sleep(0.1)
                for wait in waits:
                    await wait

        async def read() -> list[bytes]:
            async with client.consumer(auto_offset_reset="earliest") as consumer:
                await consumer.assign([TopicPartition("once", 0)])
                found: list[bytes] = []
                while (records := await consumer.poll(5.0)) or len(found) < 5:
                    found += [record.value for record in records]
                return found

        async def story() -> list[bytes]:
            await world.start()
            await client.spawn(create())
            writing = client.spawn(write())
            await asyncio.sleep(2)
            await world.stop()
            await world.start()
            world.heal()
            await writing
            return await client.spawn(read())

        assert world.run(story(), limit_s=600) == [b"first", b"0", b"1", b"2", b"3"]
        assert world.unhandled == []


def test_a_broker_starts_after_a_power_loss_following_a_snapshot() -> None:
    with World(1) as world:
        world.add_nodes(3, combined=False)
        broker = world.nodes[1]

        async def story() -> None:
            await world.start()
            assert broker.node is not None
            assert broker.process is not None
            await broker.process.spawn(broker.node.broker.quorum.snapshot_now())
            broker.crash()
            pending = broker.storage.pending
            log = [one for one in pending if "write /node-1/data/__cluster_metadata" in str(one)]
            kept = [one.number for one in pending if one not in log[:-1]]
            broker.storage.lose_power(kept)  # with a hole before the last write, if it was unflushed
            await broker.start()

        world.run(story(), limit_s=300)
        assert broker.is_serving
        assert world.unhandled == []


def test_a_vote_survives_a_power_loss_after_the_first_start() -> None:
    with World(1) as world:
        nodes = world.add_nodes(3, model="posix")

        async def story() -> None:
            await world.start()
            for node in nodes:
                assert node.disk is not None
                path = f"/{node.host}/data/__cluster_metadata-0/quorum-state"
                before = node.disk.read(path)
                node.crash()
                node.storage.lose_power(())
                disk = SimulatedDisk(random.Random(1), storage=node.storage)
                assert disk.exists(path)
                assert disk.read(path) == before

        world.run(story(), limit_s=300)


def test_a_restarted_node_coordinates_nothing_before_its_registration() -> None:
    with World(3) as world:
        nodes = world.add_nodes(3)
        client = world.client("client")

        async def write() -> None:
            async with client.producer(transactional_id="one") as producer:
                await producer.begin_transaction()
                await producer.send("kept", b"value")
                await producer.commit_transaction()

        async def story() -> None:
            await world.start()
            await client.spawn(write())
            for node in nodes:
                assert node.node is not None
                if any(one.is_leader for one in _coordinated(node.node.broker)):
                    break
            node.lose_power()  # and with it its unflushed records
            starting = asyncio.ensure_future(node.start())
            await asyncio.sleep(1)  # the controller still waits for its old session to end
            assert node.node is not None
            assert not node.is_serving
            broker = node.node.broker
            assert any(one.is_leader for one in _coordinated(broker)), "as it was when it lost its power"
            assert broker._transactions is None or not broker._transactions.coordinator.loaded()
            await starting
            assert broker._is_coordinating

        world.run(story(), limit_s=300)
        assert world.unhandled == []


def test_a_broker_killed_during_work_leaks_no_memory() -> None:
    loop, directories = _killed_with_work_under_way()
    gc.collect()
    assert loop() is None, "a task of it keeps the loop, and what was ready to run there"
    assert directories() is None


def _killed_with_work_under_way() -> tuple[weakref.ref[WorldLoop], weakref.ref[LogDirectories]]:
    """The world's loop and the broker's directories, as weak references."""
    with World(1) as world:
        nodes = world.add_nodes(3)
        client = world.client("client")

        async def create() -> None:
            async with client.admin() as admin:
                await admin.create_topics([NewTopic("kept", assignments={0: [1, 2, 3]})])

        async def begin(broker: Broker) -> None:
            (partition,) = [one for one in broker.partitions if one.topic == "kept"]
            flush_soon(broker, partition.topic, partition.index)
            create_in_background(broker, ["another"])

        async def story() -> tuple[weakref.ref[WorldLoop], weakref.ref[LogDirectories]]:
            await world.start()
            await client.spawn(create())
            await asyncio.sleep(5)
            node = next(node for node in nodes if node.active_epoch is None)
            assert node.node is not None
            assert node.process is not None
            broker = node.node.broker
            await node.process.spawn(begin(broker))
            assert len(broker._under_way) == 2
            node.crash()
            return weakref.ref(world.loop), weakref.ref(broker.directories)

        found = world.run(story(), limit_s=300)
        assert world.unhandled == []
        return found


def _coordinated(broker: Broker) -> list[Partition]:
    return [one for one in broker.partitions if one.topic == "__transaction_state"]
