"""Calls of a consumer while its brokers are down, stopped or slow, or a leader is missing: each ends within
its own timeout with a correct result, even if it is cancelled or the consumer is closed meanwhile, and the
consumer continues after the repair. The consumers of one fault share a world."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from ottla import OffsetAndMetadata, TopicPartition
from ottla.aio import Consumer
from ottla.client.admin.topics import NewTopic
from ottla.client.errors import ClientError, Closed, WokenUp
from ottla.testing.world import SimulatedClient, World
from ottla.wire.errors import KafkaError

T0, T1, O0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("other", 0)
RECORDS = 40
TIMEOUT_S = 4.0
API_TIMEOUT_S = 6.0
LEAVE_S = 5.0
SLACK_S = 0.5

Call = Callable[["Consumer[Any, Any]"], Awaitable[Any]]


@dataclass(frozen=True)
class Row:
    """One call. `truth` checks its return value; `ends_s` is its maximum duration."""

    call: Call
    truth: Callable[[Any], bool] = lambda found: found is None
    ends_s: float = TIMEOUT_S
    is_local: bool = False  # it needs no broker, so it always returns
    before: Call | None = None
    settings: Mapping[str, Any] | None = None
    closes: bool = False
    is_by_hand: bool = False  # it assigns partitions instead of subscribing


async def _drain(consumer: Consumer[Any, Any]) -> None:
    while await consumer.poll(0.0):
        pass


async def _iterate(consumer: Consumer[Any, Any]) -> list[Any]:
    return [record async for record in consumer.records(idle_timeout=TIMEOUT_S)]


async def _batches(consumer: Consumer[Any, Any]) -> list[Any]:
    return [batch async for batch in consumer.batches(idle_timeout=TIMEOUT_S)]


async def _arrow(consumer: Consumer[Any, Any]) -> list[Any]:
    return [batch async for batch in consumer.arrow(idle_timeout=TIMEOUT_S)]


async def _wakeup(consumer: Consumer[Any, Any]) -> None:
    consumer.wakeup()


async def _poll_and_wakeup(consumer: Consumer[Any, Any]) -> Any:
    asyncio.get_running_loop().call_later(0.1, consumer.wakeup)
    try:
        return await consumer.poll(TIMEOUT_S)
    except WokenUp:
        return []


async def _group_metadata(consumer: Consumer[Any, Any]) -> Any:
    return consumer.group_metadata()


async def _to_end(consumer: Consumer[Any, Any]) -> None:
    await consumer.seek_to_end()


def _ends(found: Any) -> bool:
    return bool(found == {T0: RECORDS, T1: RECORDS})


def _is_list(found: Any) -> bool:
    return isinstance(found, list)


_AUTOMATIC = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}

CALLS: dict[str, Row] = {
    "poll": Row(lambda c: c.poll(TIMEOUT_S), _is_list, before=_drain),
    "poll with automatic commits": Row(
        lambda c: c.poll(TIMEOUT_S), _is_list, before=_drain, settings=_AUTOMATIC
    ),
    "iteration": Row(_iterate, _is_list, before=_drain),
    "batches": Row(_batches, _is_list, before=_drain),
    "poll that is woken up": Row(_poll_and_wakeup, _is_list, before=_drain, ends_s=0.1),
    "poll of partitions assigned by hand": Row(
        lambda c: c.poll(TIMEOUT_S), _is_list, before=_drain, is_by_hand=True
    ),
    "arrow": Row(_arrow, _is_list, before=_drain),
    "fetched": Row(lambda c: c.fetched(TIMEOUT_S), lambda found: True, before=_drain),
    "commit": Row(lambda c: c.commit(timeout=TIMEOUT_S)),
    "commit of offsets": Row(lambda c: c.commit({T0: 3}, timeout=TIMEOUT_S)),
    "commit behind automatic ones": Row(lambda c: c.commit(timeout=TIMEOUT_S), settings=_AUTOMATIC),
    "commit without waiting": Row(lambda c: c.commit(wait=False), is_local=True),
    "committed": Row(
        lambda c: c.committed([T0], timeout=TIMEOUT_S), lambda found: found == {T0: OffsetAndMetadata(1)}
    ),
    "position": Row(lambda c: c.position(T0), lambda found: 0 <= found <= RECORDS, is_local=True),
    "position that a leader knows": Row(
        lambda c: c.position(T0, timeout=TIMEOUT_S), lambda found: found == RECORDS, before=_to_end
    ),
    "lag": Row(lambda c: c.lag(timeout=TIMEOUT_S), lambda found: set(found) == {T0, T1}),
    "lag behind an end that a leader knows": Row(
        lambda c: c.lag(timeout=TIMEOUT_S), lambda found: found == {T0: 0, T1: 0}, before=_to_end
    ),
    "seek": Row(lambda c: c.seek(T0, 2), is_local=True),
    "seek to the beginning": Row(lambda c: c.seek_to_beginning(), is_local=True),
    "seek to the end": Row(lambda c: c.seek_to_end(), is_local=True),
    "assign": Row(lambda c: c.assign([T0, T1, O0]), is_local=True, is_by_hand=True),
    "wakeup": Row(_wakeup, is_local=True),
    "offsets for times": Row(
        lambda c: c.offsets_for_times({T0: 0, T1: 0}, timeout=TIMEOUT_S),
        lambda found: {one.offset for one in found.values()} == {0},
    ),
    "beginning offsets": Row(
        lambda c: c.beginning_offsets([T0, T1], timeout=TIMEOUT_S), lambda found: found == {T0: 0, T1: 0}
    ),
    "end offsets": Row(lambda c: c.end_offsets([T0, T1], timeout=TIMEOUT_S), _ends),
    "partitions of a topic": Row(
        lambda c: c.partitions_for("t", timeout=TIMEOUT_S), lambda found: found == [T0, T1]
    ),
    "subscribe": Row(lambda c: c.subscribe(["t", "other"]), is_local=True),
    "subscribe by pattern": Row(lambda c: c.subscribe(pattern=re.compile("t|other")), is_local=True),
    "unsubscribe": Row(lambda c: c.unsubscribe(), ends_s=LEAVE_S, closes=True),
    "unsubscribe with automatic commits": Row(
        lambda c: c.unsubscribe(), ends_s=API_TIMEOUT_S + LEAVE_S, closes=True, settings=_AUTOMATIC
    ),
    "pause": Row(lambda c: c.pause([T0]), is_local=True),
    "resume": Row(lambda c: c.resume([T0]), is_local=True),
    "group metadata": Row(_group_metadata, lambda found: found.generation_id > 0, is_local=True),
    "close": Row(lambda c: c.close(timeout=TIMEOUT_S), closes=True),
    "close with automatic commits": Row(
        lambda c: c.close(timeout=TIMEOUT_S), closes=True, settings=_AUTOMATIC
    ),
}


# Faults and their repair


async def _crash(world: World) -> None:
    for node in world.nodes.values():
        node.crash()


async def _stop(world: World) -> None:
    for node in world.nodes.values():
        node.pause()


async def _slow(world: World) -> None:
    for client in world.clients:
        for node in world.nodes.values():
            world.slow(client, node, delay_s=0.2, jitter_s=0.1)
            world.slow(node, client, delay_s=0.2, jitter_s=0.1)


async def _lose_a_leader(world: World) -> None:
    world.crash(1)  # the only replica of t-0


async def _repair(world: World) -> None:
    for node in world.nodes.values():
        if node.is_running:
            node.resume()
    await world.start()


FAULTS = {"down": _crash, "stopped": _stop, "slow": _slow, "leader gone": _lose_a_leader}


@dataclass
class Seen:
    """The result of a call."""

    took_s: float = -1.0
    value: Any = None
    error: BaseException | None = None
    closing_s: float = -1.0
    went_on: bool = False


class Stage:
    """A world with a consumer for each call."""

    def __init__(self, world: World, protocol: str, ending: str) -> None:
        self.world = world
        self.protocol = protocol
        self.ending = ending
        self.seen = {name: Seen() for name in CALLS}
        self.ready: set[str] = set()
        self.is_broken = asyncio.Event()
        self.is_mended = asyncio.Event()

    async def create(self, client: SimulatedClient) -> None:
        async with client.admin() as admin:
            await admin.create_topics(
                [NewTopic("t", assignments={0: [1], 1: [2]}), NewTopic("other", assignments={0: [3]})]
            )
        async with client.producer() as producer:
            for number in range(2 * RECORDS):
                await producer.send("t", b"%d" % number, partition=number % 2)

    async def live(self, client: SimulatedClient, name: str) -> None:
        row, seen = CALLS[name], self.seen[name]
        settings: dict[str, Any] = {
            "group_id": f"group of {name}",
            "group_protocol": self.protocol,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "default_api_timeout_ms": int(1000 * API_TIMEOUT_S),
            "request_timeout_ms": 30_000,
            **(row.settings or {}),
        }
        consumer = client.consumer(**settings)
        await (consumer.assign([T0, T1]) if row.is_by_hand else consumer.subscribe(["t"]))
        read: set[int] = set()
        while len(read) < 2:
            read |= {record.partition for record in await consumer.poll(1.0, max_records=3)}
        await consumer.commit({T0: 1})
        self.ready.add(name)
        await self.is_broken.wait()
        if row.before is not None:
            await row.before(consumer)
        if row.settings is not None:
            await _drain(consumer)
            with suppress(ClientError, KafkaError):
                await consumer.poll(2.0)  # and commits are in flight
        await self._call(consumer, row, seen)
        await self.is_mended.wait()
        if not row.closes and self.ending != "close":
            await self._go_on(consumer, row, seen)
        await consumer.close()

    async def _call(self, consumer: Consumer[Any, Any], row: Row, seen: Seen) -> None:
        began = self.world.now
        calling = asyncio.ensure_future(row.call(consumer))
        ended: list[float] = []
        calling.add_done_callback(lambda _: ended.append(self.world.now))
        if self.ending != "timeout":
            await asyncio.wait([calling], timeout=1.0)
        interrupted = self.world.now
        if self.ending == "cancel":
            calling.cancel()
        elif self.ending == "close":
            await consumer.close(timeout=TIMEOUT_S)
            seen.closing_s = self.world.now - interrupted
        await asyncio.wait([calling])
        seen.took_s = ended[0] - (min(interrupted, ended[0]) if self.ending == "cancel" else began)
        if calling.cancelled():
            seen.error = asyncio.CancelledError()
        else:
            seen.error = calling.exception()
            seen.value = None if seen.error else calling.result()

    async def _go_on(self, consumer: Consumer[Any, Any], row: Row, seen: Seen) -> None:
        await consumer.resume([T0, T1])
        if not row.is_by_hand:
            await consumer.subscribe(["t"])
        while True:
            try:
                await consumer.poll(0.2)
                await consumer.seek_to_beginning()
                while not await consumer.poll(1.0):
                    pass
                await consumer.commit(timeout=TIMEOUT_S)
            except (ClientError, KafkaError):
                await asyncio.sleep(0.2)  # an error that was still pending
                continue
            seen.went_on = True
            return

    async def run(self, fault: str) -> None:
        world = self.world
        await world.start()
        maker = world.client("maker")
        await maker.spawn(self.create(maker))
        clients = {name: world.client(name.replace(" ", "-")) for name in CALLS}
        lives = [client.spawn(self.live(client, name)) for name, client in clients.items()]
        while len(self.ready) < len(CALLS):
            await asyncio.sleep(0.1)
        await FAULTS[fault](world)
        self.is_broken.set()
        while not all(seen.took_s >= 0 for seen in self.seen.values()):
            await asyncio.sleep(0.1)
        await _repair(world)
        self.is_mended.set()
        await asyncio.gather(*lives)


def play(fault: str, protocol: str, ending: str) -> dict[str, Seen]:
    with World(7) as world:
        world.add_nodes(3)
        stage = Stage(world, protocol, ending)
        world.run(stage.run(fault), limit_s=300)
        assert world.unhandled == []
        return stage.seen


def wrong_answers(fault: str, ending: str, seen: Mapping[str, Seen]) -> list[str]:
    wrong = []
    for name, one in seen.items():
        row = CALLS[name]
        limit_s = SLACK_S + (0.0 if ending == "cancel" else row.ends_s + (1.0 if ending == "close" else 0.0))
        if row.is_local:
            limit_s = SLACK_S
        if one.took_s > limit_s:
            wrong.append(f"{name} took {one.took_s:.1f} s of {limit_s:g} s")
        if one.error is None and not row.truth(one.value):
            wrong.append(f"{name} gave {one.value!r}")
        if one.error is not None and not _is_honest(row, fault, ending, one.error):
            wrong.append(f"{name} raised {one.error!r}")
        if one.closing_s > TIMEOUT_S + SLACK_S:
            wrong.append(f"closing during {name} took {one.closing_s:.1f} s")
        if ending != "close" and not row.closes and not one.went_on:
            wrong.append(f"{name}: the consumer did not go on")
    return wrong


def _is_honest(row: Row, fault: str, ending: str, error: BaseException) -> bool:
    if isinstance(error, asyncio.CancelledError):
        return ending == "cancel"
    if isinstance(error, Closed):
        return ending == "close"
    return isinstance(error, (ClientError, KafkaError)) and not row.is_local and fault != "slow"


PROTOCOLS = ("classic", "consumer")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_call_ends_within_its_timeout_with_a_correct_result(fault: str, protocol: str) -> None:
    seen = play(fault, protocol, "timeout")
    assert wrong_answers(fault, "timeout", seen) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("ending", ["cancel", "close"])
def test_each_call_ends_on_cancellation_or_close(fault: str, protocol: str, ending: str) -> None:
    seen = play(fault, protocol, ending)
    assert wrong_answers(fault, ending, seen) == []
