"""A consumer's edge cases, on production nodes in virtual time: listeners that use the consumer, cancelled
polls, paused partitions, unreadable topics, missing leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from ottla import OffsetAndMetadata, TopicPartition
from ottla.aio import Consumer
from ottla.client.admin.topics import NewTopic
from ottla.testing.world import SimulatedClient, World
from ottla.testing.world.request_tap import Arrival, Tap
from ottla.wire.errors import GroupAuthorizationFailed, InvalidTopicException

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
METADATA = 3

Act = Callable[[World, SimulatedClient], Coroutine[Any, Any, None]]


def play(act: Act, *, partitions: int = 2, records: int = 20, size_bytes: int = 10) -> None:
    """Run `act` in a client's process, with a topic "t" that has this many records in each partition."""
    with World(3) as world:
        world.add_nodes(1)
        client = world.client("client")

        async def create() -> None:
            async with client.admin() as admin:
                await admin.create_topics([NewTopic("t", partitions, 1)])
            async with client.producer(linger_ms=0, batch_size=size_bytes) as producer:
                for number in range(records * partitions):
                    await producer.send("t", b"x" * size_bytes, partition=number % partitions)

        async def story() -> None:
            await world.start()
            await client.spawn(create())
            await client.spawn(act(world, client))

        world.run(story(), limit_s=300)
        assert world.unhandled == []


def member(client: SimulatedClient, protocol: str = "classic", **more: Any) -> Consumer[Any, Any]:
    settings = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest", **more}
    consumer: Consumer[Any, Any] = client.consumer(**settings)
    return consumer


async def read(consumer: Consumer[Any, Any], count: int, **poll: Any) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        found += await consumer.poll(1.0, **poll)
    return found


# Listeners that use the consumer


@PROTOCOLS
@pytest.mark.parametrize("ending", ["close", "unsubscribe"])
def test_a_listener_may_commit_during_close_and_unsubscribe(protocol: str, ending: str) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        consumer = member(client, protocol, enable_auto_commit=False)

        async def on_revoked(partitions: list[TopicPartition]) -> None:
            await consumer.commit(dict.fromkeys(partitions, 7))
            assert await consumer.position(partitions[0]) >= 0

        await consumer.subscribe(["t"], on_revoked=on_revoked)
        await read(consumer, 1)
        await (consumer.close() if ending == "close" else consumer.unsubscribe())
        async with member(client, protocol) as other:
            assert await other.committed([T0, T1]) == dict.fromkeys([T0, T1], OffsetAndMetadata(7))
        await consumer.close()

    play(act)


@PROTOCOLS
@pytest.mark.parametrize("when", ["in on_revoked", "before the poll that gives partitions back"])
def test_an_unawaited_commit_is_sent_despite_a_revocation(protocol: str, when: str) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        outcomes: list[Exception | None] = []

        async def commit() -> None:
            await first.commit(wait=False, on_commit=lambda offsets, error: outcomes.append(error))

        async def on_revoked(partitions: list[TopicPartition]) -> None:
            if when == "in on_revoked":
                await commit()

        settings: dict[str, Any] = {"enable_auto_commit": False}
        first = member(client, protocol, **settings)
        async with first, member(client, protocol, **settings) as second:
            await first.subscribe(["t"], on_revoked=on_revoked)
            await read(first, 40)
            await second.subscribe(["t"])
            assert first._core.engine.group is not None
            while not first._core.engine.group.notices:
                await second.poll(0.1)
            if when != "in on_revoked":
                await commit()
            while not second.assignment:
                await asyncio.gather(first.poll(0.1), second.poll(0.1))
            assert outcomes == [None]
            assert await second.committed([T0, T1]) == dict.fromkeys([T0, T1], OffsetAndMetadata(20, 0))

    play(act)


@PROTOCOLS
@pytest.mark.parametrize("ending", ["close", "unsubscribe"])
@pytest.mark.parametrize("when", ["before it", "in on_revoked"])
def test_close_and_unsubscribe_wait_for_background_commits(protocol: str, ending: str, when: str) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        outcomes: list[Exception | None] = []

        async def commit(*_: Any) -> None:
            await consumer.commit(wait=False, on_commit=lambda offsets, error: outcomes.append(error))

        consumer = member(client, protocol, enable_auto_commit=False)
        await consumer.subscribe(["t"], on_revoked=commit if when == "in on_revoked" else None)
        await read(consumer, 40)
        if when == "before it":
            await commit()
        await (consumer.close() if ending == "close" else consumer.unsubscribe())
        assert outcomes == [None]
        async with member(client, protocol) as other:
            assert await other.committed([T0, T1]) == dict.fromkeys([T0, T1], OffsetAndMetadata(20, 0))
        await consumer.close()

    play(act)


@PROTOCOLS
@pytest.mark.parametrize("committed", [None, 5])
def test_a_listener_may_query_positions_and_lag_of_its_assignment(
    protocol: str, committed: int | None
) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        found: dict[str, Any] = {}

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            began = world.now
            found["position"] = await consumer.position(T0)
            found["lag"] = await consumer.lag()
            found["took_s"] = world.now - began
            await consumer.seek(T1, 9)

        async with member(client, protocol) as consumer:
            if committed is not None:
                await consumer.commit({T0: committed})
            await consumer.subscribe(["t"], on_assigned=on_assigned)
            offsets = {record.offset for record in await read(consumer, 1) if record.partition == 1}
            while not offsets:
                offsets = {record.offset for record in await read(consumer, 1) if record.partition == 1}
        start = committed or 0
        assert (found["position"], found["lag"]) == (start, {T0: 20 - start, T1: 20})
        assert found["took_s"] < 1.0
        assert min(offsets) == 9

    play(act)


@PROTOCOLS
def test_an_unreported_assignment_has_no_position_and_no_lag(protocol: str) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        async with member(client, protocol) as consumer:
            await consumer.subscribe(["t"])
            assert consumer._core.engine.group is not None
            while not consumer._core.engine.group.notices:
                await asyncio.sleep(0.1)  # the group assigns without a poll
            assert await consumer.lag(timeout=5) == {}
            with pytest.raises(ValueError, match="t-0 is not assigned"):
                await consumer.position(T0, timeout=5)
            await read(consumer, 40)
            assert await consumer.lag(timeout=5) == {T0: 0, T1: 0}

    play(act)


# Polls that are cancelled


@PROTOCOLS
@pytest.mark.parametrize("within", ["the commit before it", "the listener"])
def test_the_next_poll_completes_the_revocation_of_a_cancelled_one(protocol: str, within: str) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        told: list[str] = []
        is_slow = True

        async def on_revoked(partitions: list[TopicPartition]) -> None:
            told.append("begun")
            if within == "the listener" and is_slow:
                await asyncio.sleep(60)
            told.append(f"revoked {len(partitions)}")

        settings = {"auto_commit_interval_ms": 600_000, "heartbeat_interval_ms": 300}
        if protocol == "consumer":
            del settings["heartbeat_interval_ms"]
        async with member(client, protocol, **settings) as first, member(client, protocol) as second:
            await first.subscribe(["t"], on_revoked=on_revoked)
            await read(first, 40)
            engine = first._core.engine
            assert engine.group is not None
            await second.subscribe(["t"])
            while not engine.group.notices:
                await second.poll(0.1)
            if within == "the commit before it":  # takes longer than each poll
                world.slow("client", world.nodes[1].host, delay_s=1.0)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(first.poll(5.0), 0.5)
            assert told == ([] if within == "the commit before it" else ["begun"])
            is_slow = False
            while not {"revoked 1", "revoked 2"} & {*told}:
                with suppress(TimeoutError):
                    await asyncio.wait_for(first.poll(5.0), 0.1)
            while len(second.assignment) < 1:
                await asyncio.gather(first.poll(0.1), second.poll(0.1))
            [taken] = second.assignment
            found = (await second.committed([taken]))[taken]
            assert found is not None
            assert found.offset == 20  # from the first member's automatic commit

    play(act)


def test_a_second_task_may_only_close_a_polling_consumer() -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        consumer = member(client)
        await consumer.subscribe(["t"])
        await read(consumer, 40)
        polling = asyncio.ensure_future(consumer.poll(30.0))
        await asyncio.sleep(0)
        for call in (lambda: consumer.poll(0.0), consumer.commit, lambda: consumer.position(T0)):
            with pytest.raises(RuntimeError, match="one task at a time"):
                await call()
        began = world.now
        await consumer.close()
        with pytest.raises(Exception, match="closed while it was in use"):
            await polling
        assert world.now - began < 1.0
        await consumer.close()

    play(act)


def test_a_listeners_task_does_not_hold_the_consumer() -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        begun: list[asyncio.Task[Any]] = []

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            begun.append(asyncio.create_task(consumer.end_offsets([("missing", 0)], timeout=3.0)))
            await asyncio.sleep(0)

        consumer = member(client)
        await consumer.subscribe(["t"], on_assigned=on_assigned)
        found: list[Any] = []
        while not found:
            found += await asyncio.create_task(consumer.poll(1.0, max_records=3))
        assert not begun[0].done()
        await asyncio.gather(*begun, return_exceptions=True)
        found += await asyncio.create_task(consumer.poll(1.0, max_records=3))
        assert len(found) == 6
        began = world.now
        await asyncio.create_task(consumer.close())
        assert world.now - began < 1.0

    play(act)


@pytest.mark.parametrize("cancellations", [1, 2, 3])
def test_a_close_that_is_cancelled_leaves_no_task(cancellations: int) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        consumer = member(client)
        await consumer.subscribe(["t"])
        await read(consumer, 40)
        engine = consumer._core.engine
        assert engine.group is not None
        world.pause(1)
        closing = asyncio.create_task(consumer.close(timeout=10))
        await asyncio.sleep(0.3)
        for _ in range(cancellations):
            closing.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await closing
        await consumer.close()
        assert not engine._tasks
        assert not engine.group._tasks
        assert engine.cluster._is_closed
        world.resume(1)

    play(act)


@pytest.mark.parametrize("part", ["fetches", "heartbeats"])
def test_failed_background_work_is_reported_and_restarted(part: str) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        async with member(client, session_timeout_ms=6000, heartbeat_interval_ms=300) as consumer:
            await consumer.subscribe(["t"])
            await read(consumer, 40)
            engine = consumer._core.engine
            assert engine.group is not None
            failing: Any = engine.fetch_planner if part == "fetches" else engine.group.membership
            name = "wanted" if part == "fetches" else "effects"
            work = getattr(failing, name)

            def fail(*arguments: Any) -> Any:
                setattr(failing, name, work)
                raise MemoryError("once")

            setattr(failing, name, fail)
            engine.wake()
            engine.group.wake()
            with pytest.raises(MemoryError, match="once"):
                await consumer.poll(5.0)
            async with client.producer() as producer:
                await producer.send("t", b"later", partition=0)
            assert len(await read(consumer, 1)) == 1
            before = consumer.metrics()
            await consumer.poll(30.0)
            assert consumer.metrics()["heartbeat_requests"] - before["heartbeat_requests"] > 50
            assert consumer.metrics()["lost_partitions"] == 0

    play(act)


# Buffers


def test_paused_partitions_do_not_starve_the_others() -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        settings = {"auto_offset_reset": "earliest", "fetch_max_bytes": 4_000, "max_poll_records": 3}
        async with client.consumer(**settings) as consumer:
            await consumer.assign([TopicPartition("t", index) for index in range(4)])
            first = await read(consumer, 1)
            await asyncio.sleep(1)
            engine = consumer._core.engine
            assert engine.buffer.bytes_buffered >= 4_000
            full = {fetch.state.partition for fetch in engine.buffer.ready}
            await consumer.pause(full)
            others = set(range(4)) - {partition.partition for partition in full}
            assert others
            found = await read(consumer, 40 * len(others))
            assert {record.partition for record in found} == others
            await consumer.resume(list(full)[:1])  # the others stay buffered
            [resumed] = list(full)[:1]
            found = await read(consumer, 5)
            assert {record.partition for record in found} == {resumed.partition}
            await consumer.resume()
            rest = 160 - 40 * len(others) - len(first) - len(found)
            found = first + found + await read(consumer, rest)
            places = [(one.partition, one.offset) for one in found]
            assert sorted(places) == [
                (partition.partition, offset) for partition in sorted(full) for offset in range(40)
            ]

    play(act, partitions=4, records=40, size_bytes=500)


# Brokers that cannot answer


@PROTOCOLS
def test_an_unreadable_topic_is_an_error(protocol: str) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        async with member(client, protocol) as consumer:
            await consumer.subscribe(["not a topic"])
            for _ in range(2):  # again, as long as it is subscribed
                with pytest.raises(InvalidTopicException, match="not a topic"):
                    await read(consumer, 1)
            await consumer.subscribe(["t"])
            await read(consumer, 40)

    play(act)


def test_metadata_requests_back_off_without_a_leader() -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        asked: list[float] = []

        def on_arrival(arrival: Arrival) -> None:
            if arrival.api_key == METADATA and arrival.source == "client":
                asked.append(world.now)

        tap = Tap(world.wires)
        tap.listeners.append(on_arrival)
        async with client.consumer(auto_offset_reset="earliest") as consumer:
            await consumer.assign([TopicPartition("t", 7)])
            await consumer.poll(60.0)
            assert 40 < len(asked) < 90  # retry.backoff.max.ms is a second
            gaps = [later - sooner for sooner, later in pairwise(asked)]
            assert min(gaps[-20:]) > 0.7
        tap.listeners.remove(on_arrival)

    play(act)


def test_automatic_commits_do_not_pile_up_without_a_coordinator() -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        consumer = member(client, auto_commit_interval_ms=100)
        await consumer.subscribe(["t"])
        await read(consumer, 40)
        world.crash(1)
        before = len(consumer._core.engine._tasks)
        await consumer.poll(10.0)
        assert len(consumer._core.engine._tasks) <= before + 2
        await world.start()
        await consumer.seek(T0, 11)
        while True:
            await consumer.poll(0.2, max_records=1)
            await asyncio.sleep(0.2)
            found = (await consumer.committed([T0]))[T0]
            if found is not None and found.offset >= 11:
                break
        await consumer.close()

    play(act)


@PROTOCOLS
def test_a_failed_membership_is_raised_by_each_poll(
    protocol: str,
) -> None:
    async def act(world: World, client: SimulatedClient) -> None:
        async with member(client, protocol) as consumer:
            await consumer.subscribe(["t"])
            await read(consumer, 40)
            group = consumer._core.engine.group
            assert group is not None
            assert group.membership is not None
            group.membership._failed = GroupAuthorizationFailed("g")  # type: ignore[attr-defined]
            group.membership.rejoin("it fails")
            group.wake()
            for _ in range(3):
                began = world.now
                with pytest.raises(GroupAuthorizationFailed):
                    await consumer.poll(2.0)
            assert world.now - began == pytest.approx(
                2.0, abs=0.1
            )  # not at once, so that a loop does not spin
            with pytest.raises(GroupAuthorizationFailed):
                await anext(aiter(consumer))
            await consumer.subscribe(["t"])
            while not consumer.assignment:
                await consumer.poll(0.2)

    play(act)
