"""Fetches of more partitions than are looked at in one turn: the same answers, in steps."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import (
    add_topic,
    append,
    as_sent,
    ask,
    broker_of,
    context_of,
    finish,
    host_log,
    image_of,
    made,
)

from ottla.host import HostDisk
from ottla.log.file_slice import FileSlice
from ottla.server.broker import Broker
from ottla.server.handlers import fetch
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

TOPIC, PARTITIONS, VERSION = "many", 12, 17
DEADLINE_S = 30
_Topic = FetchRequest.FetchTopic


class World:
    """A broker that leads some partitions, of which every third has records."""

    def __init__(self, directory: Path, disk: HostDisk) -> None:
        image = image_of(1)
        self.topic_id = add_topic(image, TOPIC, PARTITIONS)
        self.broker: Broker = broker_of(image)
        for index in range(PARTITIONS):
            host_log(self.broker, disk, str(directory), TOPIC, index)
            if index % 3 == 0:
                append(self.broker, TOPIC, 1000, 2000, index=index)

    def request(self, *indexes: int, unknown: int = 0, max_wait_ms: int = 0, **fields: Any) -> FetchRequest:
        topics = [_Topic(topic_id=bytes([one]) * 16, partitions=[_asked(0)]) for one in range(1, unknown)]
        topics.append(_Topic(topic_id=self.topic_id, partitions=[_asked(index) for index in indexes]))
        return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics, **fields)

    def start(self, request: FetchRequest) -> Any:
        return fetch.handle(self.broker, as_sent(request, VERSION), context_of(VERSION))

    def watchers(self) -> int:
        return sum(len(one.growth.watchers) for one in self.broker.partitions)


def _asked(index: int) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(partition=index, partition_max_bytes=1 << 20)


@pytest.fixture
def world(tmp_path: Path, disk: HostDisk) -> Iterator[World]:
    world = World(tmp_path, disk)
    yield world
    for partition in world.broker.partitions:
        assert partition.log is not None
        partition.log.close(clean=False)


@pytest.fixture
def in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE", 2)
    monkeypatch.setattr(fetch, "_PARTITIONS_IN_STEP", 2)


def _facts(response: FetchResponse) -> Any:
    return [
        (
            topic.topic_id,
            one.partition_index,
            one.error_code,
            one.high_watermark,
            bytes(one.records or b""),
            one.aborted_transactions,
        )
        for topic in response.responses
        for one in topic.partitions
    ]


def _run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, DEADLINE_S))


async def _turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_the_answer_is_the_same_in_steps(
    world: World, monkeypatch: pytest.MonkeyPatch, isolation_level: int
) -> None:
    request = world.request(
        *range(-1, PARTITIONS + 3), unknown=5, session_epoch=-1, isolation_level=isolation_level
    )
    at_once = world.start(request)
    monkeypatch.setattr(fetch, "PARTITIONS_AT_ONCE", 2)
    monkeypatch.setattr(fetch, "_PARTITIONS_IN_STEP", 2)
    steps = world.start(request)
    assert inspect.isgenerator(steps)
    in_steps = made(steps)
    assert _facts(in_steps) == _facts(at_once)
    assert len(_facts(in_steps)) == PARTITIONS + 4 + 4


def test_a_fetch_of_many_partitions_looks_at_few_of_them_in_a_step(world: World) -> None:
    unknown = fetch.PARTITIONS_AT_ONCE + 1
    topics = [_Topic(topic_id=index.to_bytes(16, "big"), partitions=[_asked(0)]) for index in range(unknown)]
    steps = world.start(FetchRequest(session_epoch=-1, topics=topics))
    count = 0
    for _ in steps:
        count += 1
    assert count > 3 * unknown / fetch._PARTITIONS_IN_STEP


def test_a_session_of_many_partitions_is_fetched_in_steps_by_requests_that_name_none(
    world: World, in_steps: None
) -> None:
    first = made(world.start(world.request(*range(PARTITIONS), session_epoch=0)))
    assert first.session_id
    again = FetchRequest(session_id=first.session_id, session_epoch=1, min_bytes=1, max_bytes=1 << 20)
    steps = world.start(again)
    assert inspect.isgenerator(steps)
    told = made(steps)
    assert [one.partition_index for topic in told.responses for one in topic.partitions] == [0, 3, 6, 9]
    forgotten = [FetchRequest.ForgottenTopic(topic_id=world.topic_id, partitions=list(range(PARTITIONS)))]
    last = made(
        world.start(
            FetchRequest(session_id=first.session_id, session_epoch=2, forgotten_topics_data=forgotten)
        )
    )
    assert last.session_id == 0, "a session without partitions ends"
    assert not len(world.broker.fetch_sessions)


def test_a_session_that_a_request_of_many_steps_continues_has_its_next_epoch_at_once(
    world: World, in_steps: None
) -> None:
    first = made(world.start(world.request(*range(PARTITIONS), session_epoch=0)))
    request = world.request(*range(PARTITIONS), session_id=first.session_id, session_epoch=1)
    steps = world.start(request)
    next(steps)
    assert made(world.start(request)).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert made(steps).error_code == 0


def test_a_fetch_in_steps_waits_until_a_partition_grows(world: World, in_steps: None) -> None:
    async def main() -> None:
        request = world.request(1, 2, 4, 5, max_wait_ms=10_000_000, session_epoch=-1)
        answer = made(world.start(request))
        assert isinstance(answer, PendingResponse)
        assert world.watchers() == 4
        await _turns()
        assert not answer.is_completed
        append(world.broker, TOPIC, 1000, index=4)
        response = await finish(answer, request, VERSION)
        assert [one[1] for one in _facts(response) if one[4]] == [4]
        assert world.watchers() == 0

    _run(main())


def test_what_grows_before_it_is_watched_is_not_missed(world: World, in_steps: None) -> None:
    async def main() -> None:
        request = world.request(1, 2, 4, 5, max_wait_ms=10_000_000, session_epoch=-1)
        steps = world.start(request)
        while not world.watchers():
            next(steps)
        append(world.broker, TOPIC, 1000, index=5)  # which is not watched yet
        response = await finish(steps, request, VERSION)
        assert [one[1] for one in _facts(response) if one[4]] == [5]
        assert world.watchers() == 0

    _run(main())


def test_a_fetch_in_steps_is_answered_at_its_deadline(world: World, in_steps: None) -> None:
    async def main() -> None:
        request = world.request(1, 2, 4, 5, max_wait_ms=1, session_epoch=-1)
        response = await finish(world.start(request), request, VERSION)
        assert [(one[1], one[2], one[4]) for one in _facts(response)] == [
            (index, 0, b"") for index in (1, 2, 4, 5)
        ]

    _run(main())


def test_a_partition_that_goes_before_it_is_watched_is_an_error_at_once(world: World, in_steps: None) -> None:
    async def main() -> None:
        request = world.request(1, 2, 4, 5, max_wait_ms=10_000_000, session_epoch=-1)
        steps = world.start(request)
        while not world.watchers():
            next(steps)
        gone = world.broker.partitions.get(TOPIC, 5)
        assert gone is not None
        world.broker.partitions.remove(gone)
        response = await finish(steps, request, VERSION)
        codes = {one[1]: one[2] for one in _facts(response)}
        assert codes.pop(5) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert set(codes.values()) == {0}
        world.broker.partitions.add(gone)

    _run(main())


@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_fetch_in_steps_whose_connection_is_lost_watches_nothing_any_more(
    world: World, in_steps: None, is_waiting: bool
) -> None:
    async def main() -> None:
        steps = world.start(world.request(1, 2, 4, 5, max_wait_ms=10_000_000, session_epoch=-1))
        while not world.watchers():
            next(steps)
        if is_waiting:
            answer = made(steps)
            append(world.broker, TOPIC, 1000, index=4)  # a look is under way
            answer.abandon()
        else:
            steps.close()
        assert world.watchers() == 0
        await _turns()

    _run(main())


def test_small_records_are_read_in_the_step_that_finds_them(world: World, in_steps: None) -> None:
    """Their file may be truncated in the next one."""
    steps = world.start(world.request(0, 1, 2, 3, session_epoch=-1))
    real = fetch._Fetch._collect_some
    seen: list[fetch._Found] = []

    def collect(one: Any, *arguments: Any, **options: Any) -> Any:
        found, at_end = real(one, *arguments, **options)
        seen.append(found)
        return found, at_end

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch._Fetch, "_collect_some", collect)
        for _ in steps:
            assert not any(isinstance(data.records, FileSlice) for found in seen for _, data in found)
    assert len(seen) == 2


def test_no_fetch_leaves_garbage(world: World, garbage: Any) -> None:
    request = world.request(*range(PARTITIONS + 50), unknown=50, session_epoch=-1)
    assert garbage(lambda: ask(world.broker, request)) == 0
