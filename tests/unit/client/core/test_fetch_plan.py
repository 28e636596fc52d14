"""Fetch sessions, and what answers to fetches do."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.core.fetch_buffer import Buffer, CompletedFetch
from ottla.client.core.fetch_plan import PIECES_MAX, FetchPlanner
from ottla.client.core.fetch_session import FetchLimits, FetchSession, Wanted
from ottla.client.core.metadata import ClusterView, Node, PartitionView, TopicView
from ottla.client.core.positions import Phase, Positions, Reset, ViewLeaders
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.records.control import end_txn_marker
from ottla.records.reader import records_of
from ottla.records.record import Record, build_batch
from ottla.wire.errors import ErrorCode, TopicAuthorizationFailed
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.uuid import ZERO

IDS = {"a": b"a" * 16, "b": b"b" * 16}
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def view_of(**ids: bytes) -> ClusterView:
    nodes = {node: Node(node, "h", 9000 + node) for node in (1, 2)}
    known = {**IDS, **ids}
    topics = {
        name: TopicView(
            name,
            topic_id,
            None,
            False,
            tuple(PartitionView(index, 1, 5, (1, 2), (1, 2), ()) for index in range(2)),
        )
        for name, topic_id in known.items()
    }
    return ClusterView(nodes, 1, "c", topics, {topic_id: name for name, topic_id in known.items()})


def wanted(offset: int = 0, topic: str = "a") -> Wanted:
    return Wanted(IDS[topic], offset, 5, 1000, 1)


def asked(request: FetchRequest) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.topic, one.partition): one.fetch_offset
        for topic in request.topics
        for one in topic.partitions
    }


def forgotten(request: FetchRequest) -> set[TopicPartition]:
    return {TopicPartition(t.topic, p) for t in request.forgotten_topics_data for p in t.partitions}


def test_a_session_sends_changes_only() -> None:
    session = FetchSession(FetchLimits())
    first = session.build({A0: wanted(), B0: wanted(topic="b")})
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert asked(first) == {A0: 0, B0: 0}
    session.answered(77)
    second = session.build({A0: wanted(10), B0: wanted(topic="b")})
    assert (second.session_id, second.session_epoch) == (77, 1)
    assert (asked(second), forgotten(second)) == ({A0: 10}, set())
    session.answered(77)
    third = session.build({A0: wanted(10), A1: wanted()})
    assert third.session_epoch == 2
    assert (asked(third), forgotten(third)) == ({A1: 0}, {B0})


def test_a_session_that_the_broker_lost_begins_anew() -> None:
    session = FetchSession(FetchLimits())
    session.build({A0: wanted()})
    session.answered(77)
    session.build({A0: wanted(1)})
    session.refused(unknown=True)
    again = session.build({A0: wanted(1)})
    assert (again.session_id, again.session_epoch, asked(again)) == (0, 0, {A0: 1})


def test_after_a_lost_connection_everything_is_sent_in_place_of_the_session() -> None:
    session = FetchSession(FetchLimits())
    session.build({A0: wanted()})
    session.answered(77)
    session.build({A0: wanted(1)})
    session.lost()
    again = session.build({A0: wanted(1)})
    assert (again.session_id, again.session_epoch, asked(again)) == (77, 0, {A0: 1})


def test_a_topic_made_anew_replaces_the_old_one_in_the_session() -> None:
    session = FetchSession(FetchLimits())
    session.build({A0: wanted()})
    session.answered(77)
    new = Wanted(b"n" * 16, 0, 0, 1000, 2)
    request = session.build({A0: new})
    assert [topic.topic_id for topic in request.forgotten_topics_data] == [IDS["a"]]
    assert [topic.topic_id for topic in request.topics] == [b"n" * 16]


def test_topics_without_ids_go_by_name() -> None:
    session = FetchSession(FetchLimits())
    session.build({A0: Wanted(ZERO, 0, -1, 1000, 1)})
    assert not session.has_topic_ids


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from([A0, A1, B0]), st.integers(0, 3)),
            st.sampled_from(["ok", "none", "unknown", "epoch", "lost"]),
        ),
        max_size=12,
    )
)
def test_a_broker_knows_what_is_wanted(rounds: list[tuple[dict[TopicPartition, int], str]]) -> None:
    session = FetchSession(FetchLimits())
    broker: dict[TopicPartition, int] = {}
    for offsets, outcome in rounds:
        request = session.build({p: wanted(offset, p.topic) for p, offset in offsets.items()})
        if request.session_epoch == 0:
            broker = {}
        for partition in forgotten(request):
            del broker[partition]
        broker.update(asked(request))
        assert broker == offsets
        match outcome:
            case "ok":
                session.answered(5)
            case "none":
                session.answered(0)
            case "unknown" | "epoch":
                session.refused(unknown=outcome == "unknown")
            case "lost":
                session.lost()


class Consumer:
    """Fetching of partitions a-0, a-1 and b-0, all at offset 0."""

    def __init__(self, view: ClusterView | None = None, reset: str = "earliest") -> None:
        self.view = view or view_of()
        self.positions = Positions(Reset(reset))
        self.buffer = Buffer(self.open)
        self.fetch_planner = FetchPlanner(
            self.positions, self.buffer, FetchLimits(), retry_backoff_ms=100, metadata_max_age_ms=60_000
        )
        self.positions.add([A0, A1, B0])
        self.positions.follow_leaders(ViewLeaders(self.view))
        self.positions.set_committed({p: OffsetAndMetadata(0) for p in (A0, A1, B0)})

    @staticmethod
    def open(fetch: CompletedFetch, position: int) -> Any:
        return records_of("t", 0, fetch.records, from_offset=position)

    def ask(self, now_ms: int = 0) -> dict[int, FetchRequest]:
        plans = self.fetch_planner.wanted(self.view, now_ms)
        return {node: self.fetch_planner.request(node, plan)[0] for node, plan in plans.items()}

    def answer(self, node: int = 1, partition: TopicPartition = A0, now_ms: int = 0, **fields: Any) -> Any:
        data = FetchResponse.PartitionData(partition_index=partition.partition, **fields)
        topic = FetchResponse.FetchableTopicResponse(topic_id=IDS[partition.topic], partitions=[data])
        return self.fetch_planner.answered(node, FetchResponse(session_id=3, responses=[topic]), now_ms)


def batch(first: int, count: int) -> memoryview:
    records = [Record(offset=0, timestamp=0, key=None, value=b"v", headers=()) for _ in range(count)]
    return memoryview(bytes(build_batch(records, base_offset=first, leader_epoch=5)))


def test_all_partitions_of_a_node_are_asked_for_together() -> None:
    consumer = Consumer()
    assert {node: asked(request) for node, request in consumer.ask().items()} == {1: {A0: 0, A1: 0, B0: 0}}


def test_paused_partitions_are_not_asked_for() -> None:
    consumer = Consumer()
    consumer.positions.states[A1].paused = True
    assert asked(consumer.ask()[1]) == {A0: 0, B0: 0}


def test_a_node_waits_until_the_user_has_caught_up_with_one_of_its_partitions() -> None:
    consumer = Consumer()
    for number in range(PIECES_MAX):
        consumer.ask()
        consumer.answer(records=batch(number * 10, 10), high_watermark=100)
    assert consumer.ask() == {}
    consumer.buffer.take(10)
    assert 1 in consumer.ask()


def test_a_buffer_that_is_full_stops_all_fetches() -> None:
    consumer = Consumer()
    consumer.buffer.bytes_arrived = FetchLimits().max_bytes
    assert consumer.ask() == {}


def test_a_replica_that_the_leader_names_is_asked_for_a_while() -> None:
    consumer = Consumer()
    consumer.ask()
    consumer.answer(preferred_read_replica=2)
    requests = consumer.ask()
    assert asked(requests[2]) == {A0: 0}
    assert forgotten(requests[1]) == {A0}
    assert asked(consumer.ask(now_ms=60_000)[1])[A0] == 0


def test_an_offset_that_a_follower_does_not_have_is_asked_of_the_leader() -> None:
    consumer = Consumer()
    consumer.ask()
    consumer.answer(preferred_read_replica=2)
    consumer.ask()
    consumer.answer(node=2, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert consumer.positions.states[A0].phase is Phase.FETCH
    assert 2 not in consumer.ask()
    consumer.answer(node=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    assert consumer.positions.states[A0].phase is Phase.RESET


def test_a_partition_that_moved_waits_and_metadata_are_asked_for() -> None:
    consumer = Consumer()
    consumer.ask()
    outcome = consumer.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcome.refresh
    assert A0 not in consumer.fetch_planner.wanted(consumer.view, 0)[1]
    assert consumer.fetch_planner.next_retry_ms(0) == 100
    assert A0 in consumer.fetch_planner.wanted(consumer.view, 100)[1]


def test_a_hint_about_the_new_leader_is_passed_on() -> None:
    consumer = Consumer()
    consumer.ask()
    leader = FetchResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=6)
    outcome = consumer.answer(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=leader)
    assert outcome.leaders == [("a", 0, 2, 6, None)]


def test_what_trying_again_does_not_cure_is_an_error() -> None:
    consumer = Consumer()
    consumer.ask()
    outcome = consumer.answer(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert [type(error) for error in outcome.errors] == [TopicAuthorizationFailed]


def test_an_answer_to_a_fetch_of_before_a_seek_is_dropped() -> None:
    consumer = Consumer()
    consumer.ask()
    consumer.positions.seek(A0, 5)
    consumer.answer(records=batch(0, 10))
    assert not consumer.buffer.ready
    assert consumer.positions.states[A0].fetch_offset == 5


def test_an_answer_that_comes_while_the_position_is_validated_is_dropped() -> None:
    consumer = Consumer()
    consumer.ask()
    consumer.positions.states[A0].phase = Phase.VALIDATE
    consumer.answer(records=batch(0, 10))
    assert (consumer.buffer.bytes_buffered, consumer.positions.states[A0].fetch_offset) == (0, 0)


def test_what_is_buffered_of_a_paused_partition_waits_for_it() -> None:
    consumer = Consumer()
    consumer.ask()
    consumer.answer(records=batch(0, 10))
    consumer.positions.states[A0].paused = True
    assert consumer.buffer.take(5) is None
    consumer.positions.states[A0].paused = False
    consumer.buffer.unpark()
    took = consumer.buffer.take(5)
    assert took is not None
    assert [record.offset for record in took[1]] == [0, 1, 2, 3, 4]


def test_partitions_that_are_given_back_free_their_buffer() -> None:
    consumer = Consumer()
    consumer.ask()
    consumer.answer(records=batch(0, 10))
    consumer.positions.remove([A0])
    consumer.buffer.drop_stale()
    assert (consumer.buffer.bytes_buffered, consumer.buffer.take(5)) == (0, None)


def test_a_position_behind_a_marker_has_the_epoch_of_the_marker() -> None:
    """Else a log whose last leader only ended transactions would look as if it had been cut."""
    consumer = Consumer()
    consumer.ask()
    marker = end_txn_marker(
        commit=True,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=0,
        base_offset=10,
        leader_epoch=7,
    )
    consumer.answer(records=memoryview(bytes(batch(0, 10)) + bytes(marker)), high_watermark=11)
    consumer.buffer.take(5)
    assert consumer.positions.consumed()[A0] == OffsetAndMetadata(5, 5)
    consumer.buffer.take(100)
    assert consumer.buffer.take(100) is None
    assert consumer.positions.consumed()[A0] == OffsetAndMetadata(11, 7)


def test_a_node_whose_answer_brings_nothing_that_can_be_used_is_left_alone_for_a_while() -> None:
    good = bytes(batch(0, 10))
    for useless in (good[:40], good[:8] + b"\x7f\xff\xff\xff" + good[12:]):
        consumer = Consumer()
        consumer.ask()
        consumer.answer(records=memoryview(useless))
        assert consumer.fetch_planner.wanted(consumer.view, 0) == {}
        assert consumer.fetch_planner.next_retry_ms(0) == 100
        assert 1 in consumer.fetch_planner.wanted(consumer.view, 100)


def test_part_of_a_batch_beside_a_whole_one_is_asked_for_again_at_once() -> None:
    consumer = Consumer()
    consumer.ask()
    whole = FetchResponse.PartitionData(partition_index=1, records=batch(0, 10), high_watermark=10)
    part = FetchResponse.PartitionData(partition_index=0, records=batch(0, 10)[:40], high_watermark=10)
    topic = FetchResponse.FetchableTopicResponse(topic_id=IDS["a"], partitions=[whole, part])
    consumer.fetch_planner.answered(1, FetchResponse(session_id=7, responses=[topic]), 0)
    assert {A0, A1} <= set(consumer.fetch_planner.wanted(consumer.view, 0)[1])


def test_partitions_that_nobody_asked_for_do_not_make_the_next_fetch_sooner() -> None:
    consumer = Consumer()
    consumer.ask()
    told = FetchResponse.PartitionData(partition_index=9, records=batch(0, 10), high_watermark=10)
    topic = FetchResponse.FetchableTopicResponse(topic_id=IDS["a"], partitions=[told])
    consumer.fetch_planner.answered(1, FetchResponse(session_id=7, responses=[topic]), 0)
    assert consumer.fetch_planner.wanted(consumer.view, 0) == {}


def test_an_offset_that_a_reset_gave_and_the_leader_does_not_have_is_looked_up_later() -> None:
    consumer = Consumer()
    for expected_ms in (0, 100):
        consumer.ask()
        consumer.answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        state = consumer.positions.states[A0]
        assert (state.phase, state.retry_at_ms) == (Phase.RESET, expected_ms)
        consumer.positions.reset_to(A0, state.stamp, 0, 5)


def test_bytes_of_paused_partitions_leave_room_for_the_others() -> None:
    consumer = Consumer()
    consumer.ask()
    consumer.answer(records=batch(0, 10))
    buffer, state = consumer.buffer, consumer.positions.states[A0]
    size = buffer.bytes_buffered
    assert buffer.bytes_ready == size > 0
    state.paused = True
    buffer.park()
    assert (buffer.bytes_ready, buffer.bytes_buffered, len(buffer.ready)) == (0, size, 0)
    buffer.unpark()
    assert (buffer.bytes_ready, len(buffer.ready)) == (0, 0)  # it is paused still
    state.paused = False
    buffer.unpark()
    assert (buffer.bytes_ready, len(buffer.ready)) == (size, 1)
    state.paused = True
    assert buffer.take(5) is None  # one that came after the pause is put aside when the user polls
    assert (buffer.bytes_ready, buffer.bytes_buffered) == (0, size)
    consumer.positions.remove([A0])
    buffer.drop_stale()
    assert (buffer.bytes_ready, buffer.bytes_buffered) == (0, 0)


def test_what_waits_for_a_paused_partition_does_not_keep_the_answer_alive_that_brought_it() -> None:
    answer = bytearray(1000)
    state = Consumer().positions.states[A0]
    state.paused = True
    small = CompletedFetch(state, memoryview(answer)[:100], 5, None)
    large = CompletedFetch(state, memoryview(answer)[100:], 10, None)
    buffer = Buffer(lambda fetch, position: records_of("a", 0, fetch.records, from_offset=position))
    buffer.put(small)
    buffer.put(large)
    buffer.park()
    assert small.records.obj is not answer
    assert small.records == answer[:100]
    assert large.records.obj is answer  # a copy would free next to nothing
