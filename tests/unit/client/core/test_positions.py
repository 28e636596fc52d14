"""Positions of a consumer: where it starts, what it asks leaders, and that no record is skipped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.core.fetch_buffer import Buffer, CompletedFetch, whole_batches
from ottla.client.core.fetch_plan import PIECES_MAX, FetchPlanner
from ottla.client.core.fetch_session import FetchLimits
from ottla.client.core.metadata import ClusterView, Node, PartitionView, TopicView
from ottla.client.core.positions import Phase, Positions, Reset, ViewLeaders
from ottla.client.errors import LogTruncated, NoOffset
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.records.reader import records_of
from ottla.records.record import Record, build_batch
from ottla.wire.errors import ErrorCode, OffsetOutOfRange
from ottla.wire.messages.fetch import FetchResponse

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
TOPIC_ID = b"t" * 16


def view_of(
    *, leader: int = 1, epoch: int = 5, partitions: int = 2, topic_id: bytes = TOPIC_ID
) -> ClusterView:
    nodes = {node: Node(node, "h", 9000 + node) for node in (1, 2)}
    views = tuple(PartitionView(i, leader, epoch, (1, 2), (1, 2), ()) for i in range(partitions))
    return ClusterView(nodes, 1, "c", {"t": TopicView("t", topic_id, None, False, views)}, {topic_id: "t"})


def positions_at(reset: str = "earliest", **view: Any) -> Positions:
    positions = Positions(Reset.parse(reset))
    positions.add([T0])
    positions.follow_leaders(ViewLeaders(view_of(**view)))
    return positions


@pytest.mark.parametrize(
    ("text", "kind", "duration_ms"),
    [
        ("earliest", "earliest", 0),
        ("LATEST", "latest", 0),
        ("none", "none", 0),
        ("by_duration:P1D", "by_duration", 86_400_000),
        ("by_duration:PT1H30M", "by_duration", 5_400_000),
        ("by_duration:P2DT0.25S", "by_duration", 172_800_250),
    ],
)
def test_reset_policies_are_read(text: str, kind: str, duration_ms: int) -> None:
    assert Reset.parse(text) == Reset(kind, duration_ms)


@pytest.mark.parametrize(
    "text", ["", "first", "by_duration", "by_duration:P", "by_duration:PT", "by_duration:-P1D"]
)
def test_a_reset_policy_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"auto\.offset\.reset"):
        Reset.parse(text)


def test_a_duration_asks_for_a_time_before_now() -> None:
    assert Reset.parse("by_duration:PT10S").timestamp(100_000) == 90_000


def test_a_committed_offset_is_where_it_goes_on() -> None:
    positions = positions_at()
    assert positions.without_committed() == [T0]
    positions.set_committed({T0: OffsetAndMetadata(42)})
    state = positions.states[T0]
    assert (state.phase, state.position, state.fetch_offset) == (Phase.FETCH, 42, 42)


def test_without_a_committed_offset_the_policy_decides() -> None:
    positions = positions_at("latest")
    positions.set_committed({T0: None})
    assert positions.wanted_resets(0, 0) == {T0: -1}
    positions.reset_to(T0, positions.states[T0].stamp, 100, 5)
    assert positions.states[T0].position == 100


def test_without_a_policy_the_user_is_told() -> None:
    positions = positions_at("none")
    positions.set_committed({T0: None})
    assert isinstance(positions.resolve_failures(), NoOffset)
    positions.seek(T0, 7)
    assert positions.resolve_failures() is None
    assert positions.states[T0].position == 7


def test_a_seek_wins_over_answers_that_were_asked_for_before() -> None:
    positions = positions_at("latest")
    positions.set_committed({T0: None})
    stamp = positions.states[T0].stamp
    positions.seek(T0, 7)
    positions.reset_to(T0, stamp, 100, 5)
    positions.set_committed({T0: OffsetAndMetadata(3)})
    assert positions.states[T0].position == 7


def test_a_committed_epoch_is_validated_and_a_cut_log_is_noticed() -> None:
    positions = positions_at()
    positions.set_committed({T0: OffsetAndMetadata(42, 4)})
    [state] = positions.wanted_validations(0)
    assert not positions.is_fetchable(state, 0)
    positions.validated(T0, state.stamp, 5, 40, 4)
    assert (state.phase, state.position, state.fetch_offset) == (Phase.FETCH, 40, 40)


def test_a_cut_log_is_an_error_without_a_policy_and_names_the_offset() -> None:
    positions = positions_at("none")
    positions.set_committed({T0: OffsetAndMetadata(42, 4)})
    positions.validated(T0, positions.states[T0].stamp, 5, 40, 4)
    error = positions.resolve_failures()
    assert isinstance(error, LogTruncated)
    assert error.offset == 40


def test_an_epoch_that_the_leader_does_not_know_resets() -> None:
    positions = positions_at("earliest")
    positions.set_committed({T0: OffsetAndMetadata(42, 4)})
    positions.validated(T0, positions.states[T0].stamp, 5, -1, -1)
    assert positions.wanted_resets(0, 0) == {T0: -2}


def test_a_new_leader_is_asked_before_it_is_fetched_from() -> None:
    positions = positions_at()
    positions.set_committed({T0: OffsetAndMetadata(42)})
    state = positions.states[T0]
    state.fetch_epoch = 5
    positions.follow_leaders(ViewLeaders(view_of(leader=2, epoch=6)))
    assert positions.wanted_validations(0) == [state]
    positions.validated(T0, state.stamp, 5, 42, 5)  # an answer of the leader before
    assert state.phase is Phase.VALIDATE
    positions.validated(T0, state.stamp, 6, 42, 5)
    assert positions.is_fetchable(state, 0)


def test_an_older_epoch_is_not_believed() -> None:
    positions = positions_at(leader=2, epoch=6)
    positions.follow_leaders(ViewLeaders(view_of(leader=1, epoch=5)))
    assert (positions.states[T0].leader, positions.states[T0].leader_epoch) == (2, 6)


def test_the_epochs_of_a_topic_that_was_made_anew_count_from_the_start() -> None:
    positions = positions_at(leader=2, epoch=6)
    positions.set_committed({T0: OffsetAndMetadata(42)})
    state = positions.states[T0]
    state.fetch_epoch = 6
    positions.follow_leaders(ViewLeaders(view_of(leader=1, epoch=0, topic_id=b"n" * 16)))
    assert (state.leader, state.leader_epoch, state.phase) == (1, 0, Phase.FETCH)


def test_an_offset_out_of_range_waits_until_what_is_buffered_is_read() -> None:
    positions = positions_at("earliest")
    positions.set_committed({T0: OffsetAndMetadata(42)})
    state = positions.states[T0]
    state.arrived = 1
    positions.out_of_range(T0, state.stamp, 42)
    assert positions.resolve_failures() is None
    assert (state.phase, positions.is_fetchable(state, 0)) == (Phase.FETCH, False)
    state.taken = 1
    assert positions.resolve_failures() is None
    assert state.phase is Phase.RESET


def test_an_offset_out_of_range_is_an_error_without_a_policy() -> None:
    positions = positions_at("none")
    positions.set_committed({T0: OffsetAndMetadata(42)})
    positions.out_of_range(T0, positions.states[T0].stamp, 42)
    assert isinstance(positions.resolve_failures(), OffsetOutOfRange)


# A log, a broker's answers about it, and a user who does anything at any time.


class World:
    """One partition's log with gaps, and a consumer of it."""

    def __init__(self, batches: list[list[int]]) -> None:
        self.now_ms = 0
        self.log: list[tuple[int, int, bytes]] = []  # first offset, offset after, bytes
        self.offsets: list[int] = []
        offset = 0
        for gaps in batches:
            records = []
            base = offset
            for gap in gaps:
                offset += gap
                records.append(Record(offset=offset, timestamp=0, key=None, value=b"%d" % offset, headers=()))
                self.offsets.append(offset)
                offset += 1
            built = build_batch(records, base_offset=base, keep_offsets=True, leader_epoch=5)
            self.log.append((base, offset, bytes(built)))
        self.end = offset
        self.positions = Positions(Reset("earliest"))
        self.buffer = Buffer(self.open)
        limits = FetchLimits()
        self.fetch_planner = FetchPlanner(
            self.positions, self.buffer, limits, retry_backoff_ms=10, metadata_max_age_ms=1000
        )
        self.view = view_of(partitions=1)
        self.positions.add([T0])
        self.positions.follow_leaders(ViewLeaders(self.view))
        self.positions.set_committed({T0: OffsetAndMetadata(0)})
        self.expected = 0
        self.under_way: tuple[int, int] | None = None  # node, offset asked for

    @staticmethod
    def open(fetch: CompletedFetch, position: int) -> Any:
        return records_of("t", 0, fetch.records, from_offset=position, check_crcs=False)

    @property
    def state(self) -> Any:
        return self.positions.states[T0]

    def ask(self) -> None:
        self.now_ms += 20
        if self.under_way is not None:
            return
        for node, wanted in self.fetch_planner.wanted(self.view, self.now_ms).items():
            self.fetch_planner.request(node, wanted)
            self.under_way = node, wanted[T0].offset

    def answer(self, batch_count: int) -> None:
        if self.under_way is None:
            return
        (node, offset), self.under_way = self.under_way, None
        found = [data for _, after, data in self.log if after > offset][:batch_count]
        data = FetchResponse.PartitionData(
            partition_index=0,
            high_watermark=self.end,
            records=memoryview(b"".join(found) + (found[-1][:30] if found else b"")),
        )
        topic = FetchResponse.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        self.fetch_planner.answered(node, FetchResponse(session_id=9, responses=[topic]), self.now_ms)

    def lose(self) -> None:
        if self.under_way is not None:
            self.fetch_planner.failed(self.under_way[0], self.now_ms)
            self.under_way = None

    def forget_session(self) -> None:
        if self.under_way is not None:
            answer = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            self.fetch_planner.answered(self.under_way[0], answer, self.now_ms)
            self.under_way = None

    def seek(self, offset: int) -> None:
        self.positions.seek(T0, offset)
        self.buffer.drop_stale()
        self.expected = offset

    def saw(self, records: list[Any]) -> None:
        for record in records:
            due = next(offset for offset in self.offsets if offset >= self.expected)
            assert record.offset == due
            assert record.value == b"%d" % due
            self.expected = due + 1

    def take(self, count: int) -> None:
        took = self.buffer.take(count)
        if took is not None:
            self.saw(took[1])
            assert self.state.position >= self.expected

    def iterate(self, count: int, used: int) -> None:
        took = self.buffer.take(count, hold=True)
        if took is None:
            return
        fetch, records = took
        used = min(used, len(records))
        self.saw(records[:used])
        assert self.state.buffered >= 1
        self.buffer.give_back(fetch, records[used - 1] if used else None, records[used:])

    def pause(self, paused: bool) -> None:
        self.state.paused = paused
        if not paused:
            self.buffer.unpark()


batches = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=8)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask")),
        st.tuples(st.just("ask")),
        st.tuples(st.just("answer"), st.integers(0, 3)),
        st.tuples(st.just("answer"), st.integers(1, 3)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("iterate"), st.integers(1, 5), st.integers(0, 5)),
        st.tuples(st.just("seek"), st.integers(0, 20)),
        st.tuples(st.just("pause"), st.booleans()),
        st.tuples(st.just("lose")),
        st.tuples(st.just("forget_session")),
    ),
    max_size=60,
)


@given(batches, steps)
@settings(max_examples=300, deadline=None)
def test_no_record_is_skipped_or_given_twice(log: list[list[int]], chosen: list[tuple[Any, ...]]) -> None:
    world = World(log)
    for name, *arguments in chosen:
        getattr(world, name)(*arguments)
        assert 0 <= world.state.buffered <= PIECES_MAX
    world.pause(False)
    for _ in range(200):  # let it come to the end
        if not any(offset >= world.expected for offset in world.offsets):
            break
        world.ask()
        world.answer(2)
        world.take(3)
    assert not any(offset >= world.expected for offset in world.offsets)


@given(st.lists(st.integers(1, 4), max_size=5), st.integers(0, 200))
def test_only_whole_batches_are_counted(counts: list[int], cut: int) -> None:
    offset, data, ends = 0, b"", [(0, -1)]
    for count in counts:
        made = [Record(offset=0, timestamp=0, key=None, value=b"v", headers=()) for _ in range(count)]
        data += bytes(build_batch(made, base_offset=offset, leader_epoch=3))
        offset += count
        ends.append((len(data), offset))
    shown = data[: max(len(data) - cut, 0)]
    size, next_offset, epoch = whole_batches(memoryview(shown))
    expected = [end for end in ends if end[0] <= len(shown)][-1]
    assert (size, next_offset) == expected
    assert epoch == (3 if size else None)
