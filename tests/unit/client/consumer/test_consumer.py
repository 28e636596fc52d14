"""The consumer's engine against scripted brokers: leaders that move and logs that are cut, replicas nearby,
commits that are refused. What real brokers show is in tests/interop/library."""

from __future__ import annotations

import asyncio
import gc
import traceback
import warnings
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.unit.client.support import Script, run

from ottla import OffsetAndMetadata, TopicPartition
from ottla.aio import Consumer
from ottla.client.consumer.engine import _Fetched
from ottla.client.core.fetch_plan import Outcome
from ottla.client.core.positions import Phase
from ottla.client.errors import CommitFailed, LogTruncated
from ottla.records.record import Record, build_batch
from ottla.wire.errors import (
    ErrorCode,
    GroupAuthorizationFailed,
    RebalanceInProgress,
    TopicAuthorizationFailed,
)
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

TOPIC_ID = b"t" * 16
T0 = TopicPartition("t", 0)


class World:
    """Two brokers, one partition. `log` is what its leader has: (leader epoch, values)."""

    def __init__(self) -> None:
        self.leader, self.epoch = 1, 0
        self.log: list[tuple[int, list[bytes]]] = [(0, [b"%d" % n for n in range(10)])]
        self.preferred = -1
        self.topic_error = 0
        self.committed: OffsetAndMetadata | None = None
        self.refusals: list[int] = []  # answers to the next commits
        self.nodes = {node: Script(self.answer_of(node), node) for node in (1, 2)}

    def answer_of(self, node: int) -> Callable[[Script, int, Any], Any]:
        return lambda script, version, request: self.answer(node, version, request)

    @property
    def end(self) -> int:
        return sum(len(values) for _, values in self.log)

    def fetches(self, node: int) -> list[FetchRequest]:
        return [one for one in self.nodes[node].requests if isinstance(one, FetchRequest)]

    def answer(self, node: int, version: int, request: Any) -> Any:
        match request:
            case MetadataRequest():
                return self.metadata()
            case FindCoordinatorRequest():
                one = FindCoordinatorResponse.Coordinator(
                    key="g", node_id=1, host="127.0.0.1", port=self.nodes[1].port
                )
                return FindCoordinatorResponse(coordinators=[one])
            case OffsetFetchRequest():
                return self.offset_fetch()
            case OffsetCommitRequest():
                return self.commit(request)
            case ListOffsetsRequest():
                wanted = request.topics[0].partitions[0].timestamp
                told = ListOffsetsResponse.ListOffsetsPartitionResponse(
                    offset=0 if wanted == -2 else self.end, leader_epoch=self.epoch
                )
                topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[told])
                return ListOffsetsResponse(topics=[topic])
            case OffsetForLeaderEpochRequest():
                return self.epoch_end(request)
            case FetchRequest():
                return self.fetch(node, request)
        return None

    def metadata(self) -> MetadataResponse:
        partition = MetadataResponse.MetadataResponsePartition(
            partition_index=0,
            leader_id=self.leader,
            leader_epoch=self.epoch,
            replica_nodes=[1, 2],
            isr_nodes=[1, 2],
        )
        topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])
        if self.topic_error:
            topic = MetadataResponse.MetadataResponseTopic(name="t", error_code=self.topic_error)
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=script.port)
            for node, script in self.nodes.items()
        ]
        return MetadataResponse(cluster_id="scripted", controller_id=1, brokers=brokers, topics=[topic])

    def offset_fetch(self) -> OffsetFetchResponse:
        found = self.committed or OffsetAndMetadata(-1)
        one = OffsetFetchResponse.OffsetFetchResponsePartitions(
            committed_offset=found.offset,
            committed_leader_epoch=-1 if found.leader_epoch is None else found.leader_epoch,
            metadata=found.metadata,
        )
        topic = OffsetFetchResponse.OffsetFetchResponseTopics(name="t", partitions=[one])
        group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[topic])
        return OffsetFetchResponse(groups=[group])

    def commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        code = self.refusals.pop(0) if self.refusals else 0
        asked = request.topics[0].partitions[0]
        if not code:
            self.committed = OffsetAndMetadata(asked.committed_offset, asked.committed_leader_epoch)
        one = OffsetCommitResponse.OffsetCommitResponsePartition(error_code=code)
        return OffsetCommitResponse(
            topics=[OffsetCommitResponse.OffsetCommitResponseTopic(name="t", partitions=[one])]
        )

    def epoch_end(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        asked = request.topics[0].partitions[0].leader_epoch
        end = sum(len(values) for epoch, values in self.log if epoch <= asked)
        known = max((epoch for epoch, _ in self.log if epoch <= asked), default=-1)
        one = OffsetForLeaderEpochResponse.EpochEndOffset(leader_epoch=known, end_offset=end)
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic="t", partitions=[one])
        return OffsetForLeaderEpochResponse(topics=[topic])

    def fetch(self, node: int, request: FetchRequest) -> Any:
        asked = request.topics[0].partitions[0] if request.topics else None
        if asked is None:
            return self.quietly(FetchResponse())
        one = FetchResponse.PartitionData(high_watermark=self.end, last_stable_offset=self.end)
        topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[one])
        answer = FetchResponse(responses=[topic])
        if node != self.leader and node != self.preferred:
            one.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif node == self.leader and self.preferred not in (-1, node):
            one.preferred_read_replica = self.preferred
        elif asked.fetch_offset > self.end:
            one.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif asked.fetch_offset == self.end:
            return self.quietly(answer)
        else:
            one.records = self.records(asked.fetch_offset)
        return answer

    async def quietly(self, answer: FetchResponse) -> FetchResponse:
        """As a broker that has nothing new and waits a little."""
        await asyncio.sleep(0.02)
        return answer

    def records(self, offset: int) -> memoryview:
        data, first = b"", 0
        for epoch, values in self.log:
            made = [Record(offset=0, timestamp=0, key=None, value=value, headers=()) for value in values]
            if first + len(values) > offset:
                data += bytes(build_batch(made, base_offset=first, leader_epoch=epoch))
            first += len(values)
        return memoryview(data)


def scene(act: Callable[[World, Consumer[Any, Any]], Coroutine[Any, Any, None]], **settings: Any) -> World:
    """Run `act` with a consumer of a new world."""
    world = World()

    async def play() -> None:
        async with AsyncExitStack() as stack:
            for script in world.nodes.values():
                await stack.enter_async_context(script)
            defaults = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
            quick = {"retry_backoff_ms": 5, "reconnect_backoff_ms": 5, "metadata_max_age_ms": 60_000}
            consumer: Consumer[Any, Any] = Consumer(
                world.nodes[1].address, **{**defaults, **quick, **settings}
            )
            async with consumer:
                await act(world, consumer)

    run(play())
    return world


async def values(consumer: Consumer[Any, Any], count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll(1.0)]
    return found


def test_a_new_leader_is_found_and_read_on_from() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        assert await values(consumer, 10) == [b"%d" % n for n in range(10)]
        world.leader, world.epoch = 2, 1
        world.log.append((1, [b"new"]))
        assert await values(consumer, 1) == [b"new"]

    world = scene(act)
    assert world.fetches(2)[0].topics[0].partitions[0].fetch_offset == 10


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_after_an_unclean_election_it_goes_on_where_the_histories_part(policy: str) -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        await consumer.seek(T0, 0)
        assert len(await values(consumer, 10)) == 10
        world.leader, world.epoch = 2, 1
        world.log = [(0, [b"%d" % n for n in range(7)]), (1, [b"other 7", b"other 8"])]
        assert await values(consumer, 2) == [b"other 7", b"other 8"]
        assert await consumer.position(T0) == 9

    scene(act, auto_offset_reset=policy)


def test_after_an_unclean_election_a_consumer_without_a_policy_is_told() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        await consumer.seek(T0, 0)
        assert len(await values(consumer, 10)) == 10
        world.leader, world.epoch = 2, 1
        world.log = [(0, [b"0"] * 7), (1, [b"other 7"])]
        with pytest.raises(LogTruncated) as caught:
            await values(consumer, 1)
        assert caught.value.offset == 7
        await consumer.seek(T0, 7)
        assert await values(consumer, 1) == [b"other 7"]

    scene(act, auto_offset_reset="none")


def test_a_replica_nearby_is_read_from_and_the_leader_again_when_it_lags() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        world.preferred = 2
        await consumer.assign([T0])
        assert len(await values(consumer, 10)) == 10
        world.preferred = -1  # the follower sends it away: it is no replica any more
        world.log.append((0, [b"more"]))
        assert await values(consumer, 1) == [b"more"]

    world = scene(act, client_rack="near")
    assert world.fetches(1)[0].rack_id == "near"
    assert world.fetches(2)[0].topics[0].partitions[0].fetch_offset == 0


def test_a_committed_offset_is_asked_for_again_when_the_partition_went_and_came_back_meanwhile() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        engine = consumer._core.engine
        engine._asked.add("committed")  # the engine itself asks nothing
        engine.positions.add([T0])
        group = engine.require_group("test")
        asking = asyncio.ensure_future(engine._ask_committed(group, [T0]))
        await asyncio.sleep(0)  # it has begun
        engine.positions.remove([T0])
        engine.positions.add([T0])
        await asking
        assert engine.positions.without_committed() == [T0]
        await engine._ask_committed(group, [T0])
        assert engine.positions.without_committed() == []

    scene(act)


def test_a_partition_that_went_before_its_offset_was_asked_for_is_no_error() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer._core.engine._ask_resets({T0: -2})
        assert T0 not in consumer._core.engine.positions.states

    scene(act)


def test_a_commit_is_tried_until_the_coordinator_takes_it() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        assert len(await values(consumer, 10)) == 10
        world.refusals = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
        await consumer.commit()
        assert world.committed == OffsetAndMetadata(10, 0)
        world.refusals = [ErrorCode.REBALANCE_IN_PROGRESS]
        with pytest.raises(RebalanceInProgress):
            await consumer.commit()
        world.refusals = [ErrorCode.ILLEGAL_GENERATION]
        with pytest.raises(CommitFailed, match="rebalanced"):
            await consumer.commit()

    scene(act)


def test_commits_keep_their_order() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        for offset in range(5):
            await consumer.commit({T0: offset}, wait=False)
        await consumer.commit({T0: 5})
        asked = [one for one in world.nodes[1].requests if isinstance(one, OffsetCommitRequest)]
        assert [one.topics[0].partitions[0].committed_offset for one in asked] == [0, 1, 2, 3, 4, 5]

    scene(act)


def test_positions_are_committed_while_the_user_polls_and_at_the_end() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        assert len(await values(consumer, 10)) == 10
        while world.committed != OffsetAndMetadata(10, 0):
            await consumer.poll(0.01)
        world.log.append((0, [b"last"]))
        await values(consumer, 1)

    world = scene(act, enable_auto_commit=True, auto_commit_interval_ms=10)
    assert world.committed == OffsetAndMetadata(11, 0)


def test_a_committed_position_is_behind_what_an_iteration_is_through_with() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        async for record in consumer:
            if record.offset == 3:
                await consumer.commit()
                assert world.committed == OffsetAndMetadata(4, 0)
            if record.offset == 6:
                break
        assert await consumer.position(T0) == 7

    scene(act)


def test_what_interceptors_drop_counts_as_read_when_the_iteration_has_passed_it() -> None:
    class Odd:
        def on_consume(self, records: list[Any]) -> list[Any]:
            return [record for record in records if record.offset % 2]

    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        seen = []
        async for record in consumer.records(idle_timeout=0.5):
            seen.append(record.offset)
            if record.offset == 3:
                assert await consumer.position(T0) == 4
        assert seen == [1, 3, 5, 7, 9]
        await consumer.commit()
        assert world.committed == OffsetAndMetadata(10, 0)

    scene(act, interceptor_classes=[Odd()])


def test_an_iteration_that_was_left_goes_on_where_it_was() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        iteration = aiter(consumer)
        assert [(await anext(iteration)).offset for _ in range(3)] == [0, 1, 2]
        assert [record.offset for record in await consumer.poll(1.0, max_records=2)] == [3, 4]
        await consumer.seek(T0, 8)
        assert [(await anext(iteration)).offset for _ in range(2)] == [8, 9]

    scene(act)


def test_a_poll_within_a_poll_leaves_the_outer_one_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        polling, engine = consumer._core._polling, consumer._core.engine
        inner, outer = [None, None, 1], [None, None, 2]
        during: list[bool] = []

        async def wait_for_wake(seconds: float) -> None:
            if not during:
                during.append(True)
                assert await polling.wait_for(lambda: inner.pop(0), 60.0) == 1
                during.append(engine.is_polling)

        monkeypatch.setattr(polling._caller, "wait_for_wake", wait_for_wake)
        assert await polling.wait_for(lambda: outer.pop(0), 60.0) == 2
        assert during == [True, True]
        assert not engine.is_polling

    scene(act)


def test_more_is_requested_in_the_step_that_buffers_many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        world.log = [(0, [bytes(10_000)] * 10)]
        engine = consumer._core.engine
        buffered, requested = engine._buffer_records, []

        def buffer_records(*arguments: Any) -> Any:
            fetched = buffered(*arguments)
            requested.append((fetched.outcome.bytes, engine.fetch_planner.sessions[1].sent[T0].offset))
            return fetched

        monkeypatch.setattr(engine, "_buffer_records", buffer_records)
        await consumer.assign([T0])
        assert len(await values(consumer, 10)) == 10
        assert [offset for size, offset in requested if size] == [10]

    world = scene(act)
    assert [one.topics[0].partitions[0].fetch_offset for one in world.fetches(1) if one.topics][:2] == [0, 10]


def test_a_closed_consumer_leaves_no_request_that_was_sent_just_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors: list[dict[str, Any]] = []

    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        world.log = [(0, [bytes(10_000)] * 10)]
        engine = consumer._core.engine
        closed = asyncio.Event()
        buffered = engine._buffer_records

        def buffer_records(*arguments: Any) -> Any:
            def cancel() -> None:
                for task in engine._tasks:
                    task.cancel()
                closed.set()

            asyncio.get_running_loop().call_soon(cancel)  # before the task gets the response
            return buffered(*arguments)

        monkeypatch.setattr(engine, "_buffer_records", buffer_records)
        await consumer.assign([T0])
        await closed.wait()
        await asyncio.sleep(0)
        await engine.close()
        gc.collect()

    scene(act)
    gc.collect()
    assert errors == []


def test_a_closed_consumer_leaves_no_request_behind_responses_that_came_together() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        engine, loop = consumer._core.engine, asyncio.get_running_loop()
        engine.fetch_planner.request(1, {})
        first, second, third = (loop.create_future() for _ in range(3))
        receiving = loop.create_task(engine._receive_records(1, first))
        await asyncio.sleep(0)
        for request, following in ((first, second), (second, third)):
            fetched = _Fetched(0, Outcome(), 0)
            fetched.next_request = following
            request.set_result(fetched)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        assert third.cancelled()

    scene(act)


def test_a_broker_that_answers_with_nothing_at_once_again_and_again_is_asked_less_often() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        engine, nothing = consumer._core.engine, Outcome()
        assert [engine._is_hasty(1, nothing, 0) for _ in range(12)] == [False] * 10 + [True] * 2
        assert not engine._is_hasty(2, nothing, 0)  # of another node
        assert not engine._is_hasty(1, nothing, 400)  # one that waited as it was asked to
        assert not engine._is_hasty(1, nothing, 0)

    scene(act)


def test_a_consumer_that_closes_before_an_offset_was_asked_for_leaves_no_coroutine_behind() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        consumer._core.engine.positions.add([T0])
        consumer._core.engine._ask_offsets(0)
        await consumer.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scene(act)
        gc.collect()


def test_a_topic_that_may_not_be_read_is_an_error() -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        world.topic_error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await consumer.assign([T0])
        with pytest.raises(TopicAuthorizationFailed, match="'t' cannot be read"):
            await values(consumer, 1)
        world.topic_error = 0
        while len(await consumer.poll(0.1)) < 10:
            pass

    scene(act)


@pytest.mark.parametrize("call", ["poll", "position"])
def test_an_error_that_is_raised_again_and_again_has_the_traceback_of_the_last_time(call: str) -> None:
    async def act(world: World, consumer: Consumer[Any, Any]) -> None:
        await consumer.assign([T0])
        group, state = consumer._core.engine.group, consumer._core.engine.positions.states[T0]
        assert group is not None
        group.ended_by = state.error = GroupAuthorizationFailed("no")
        state.phase = Phase.FAILED
        depths = set()
        for _ in range(3):
            with pytest.raises(GroupAuthorizationFailed) as raised:
                await (consumer.poll(0) if call == "poll" else consumer.position(T0))
            depths.add(len(traceback.extract_tb(raised.value.__traceback__)))
        assert len(depths) == 1

    scene(act)
