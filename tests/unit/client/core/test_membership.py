"""Members of groups, of both protocols: what they do in turn, and that they never own what they gave back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.core.assignors import assignors_of
from ottla.client.core.membership import Change, Fail, MemberSettings, Notify, RefreshMetadata, Send
from ottla.client.core.membership.classic import ClassicMembership
from ottla.client.core.membership.consumer import ConsumerMembership
from ottla.client.core.metadata import ClusterView, Node, PartitionView, TopicView
from ottla.client.core.subscription import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.values import TopicPartition
from ottla.wire.errors import ErrorCode, FencedInstanceId, MalformedMessage
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

SETTINGS = MemberSettings("g", retry_backoff_ms=100)
IDS = {"a": b"a" * 16, "b": b"b" * 16}


def partitions(topic: str, *indexes: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, index) for index in indexes)


def view_of(**counts: int) -> ClusterView:
    topics = {
        name: TopicView(
            name, IDS[name], None, False, tuple(PartitionView(i, 1, 0, (1,), (1,), ()) for i in range(count))
        )
        for name, count in counts.items()
    }
    return ClusterView({1: Node(1, "h", 1)}, 1, "c", topics, {IDS[name]: name for name in counts})


def classic(*strategies: str, **settings: Any) -> ClassicMembership:
    member = ClassicMembership(
        MemberSettings("g", retry_backoff_ms=100, **settings), assignors_of(strategies or ("range",))
    )
    member.subscribe(["a"])
    return member


def only(effects: list[Any]) -> Any:
    [effect] = effects
    return effect


def join_answer(member_id: str = "m", generation: int = 1, leader: str = "other", **more: Any) -> Any:
    fields = {"protocol_name": "range", "leader": leader, "member_id": member_id, "generation_id": generation}
    return JoinGroupResponse(**{**fields, **more})


def sync_answer(found: frozenset[TopicPartition]) -> SyncGroupResponse:
    return SyncGroupResponse(assignment=encode_assignment(sorted(found)))


def settle(member: ClassicMembership, found: frozenset[TopicPartition], now_ms: int = 0, **join: Any) -> None:
    """Join, sync and tell, until the member is stable with what it was given."""
    send = only([e for e in member.effects(now_ms) if isinstance(e, Send) and e.kind == "join"])
    member.answered(send, join_answer(**join), now_ms)
    sync = only([e for e in member.effects(now_ms) if isinstance(e, Send) and e.kind == "sync"])
    member.answered(sync, sync_answer(found), now_ms)
    while notices := [effect for effect in member.effects(now_ms) if isinstance(effect, Notify)]:
        member.notified(notices[0])


def test_subscriptions_and_assignments_come_back_as_they_were() -> None:
    told = MemberSubscription(("a", "b"), b"u", tuple(sorted(partitions("a", 0, 2))), 7, "r", "i")
    assert decode_subscription(encode_subscription(told), "i") == told
    assert decode_assignment(encode_assignment(told.owned, b"x")) == (told.owned, b"x")
    assert decode_assignment(b"") == ((), None)


def test_older_and_newer_subscriptions_are_read() -> None:
    old = b"\x00\x00" + b"\x00\x00\x00\x01\x00\x01a" + b"\xff\xff\xff\xff"
    assert decode_subscription(old).topics == ("a",)
    new = b"\x00\x09" + encode_subscription(MemberSubscription(("a",)))[2:] + b"later fields"
    assert decode_subscription(new).topics == ("a",)
    with pytest.raises(MalformedMessage):
        decode_subscription(b"\x00")


def test_a_member_joins_syncs_and_hears_what_it_has() -> None:
    member = classic()
    join = only(member.effects(0))
    assert (join.kind, join.request.member_id, join.request.protocols[0].name) == ("join", "", "range")
    member.answered(join, JoinGroupResponse(error_code=79, member_id="m"), 0)  # MEMBER_ID_REQUIRED
    again = only(member.effects(0))
    assert again.request.member_id == "m"
    member.answered(again, join_answer(), 0)
    sync = only(member.effects(0))
    assert (sync.request.generation_id, sync.request.assignments) == (1, [])
    member.answered(sync, sync_answer(partitions("a", 0, 1)), 0)
    notice = only(member.effects(0))
    assert notice == Notify(Change.ASSIGNED, partitions("a", 0, 1))
    assert not member.is_stable
    member.notified(notice)
    assert member.effects(0) == []
    assert member.is_stable
    assert member.owned == partitions("a", 0, 1)


def test_the_leader_learns_of_all_topics_and_assigns_for_all() -> None:
    member = classic()
    told = JoinGroupResponse.JoinGroupResponseMember
    members = [
        told(member_id="m", metadata=encode_subscription(MemberSubscription(("a",)))),
        told(member_id="n", metadata=encode_subscription(MemberSubscription(("a", "b")))),
    ]
    member.answered(only(member.effects(0)), join_answer(leader="m", members=members), 0)
    assert only(member.effects(0)) == RefreshMetadata(frozenset({"a", "b"}))
    member.metadata_arrived(view_of(a=2, b=1), 0)
    sync = only(member.effects(0))
    given_out = {one.member_id: set(decode_assignment(one.assignment)[0]) for one in sync.request.assignments}
    assert given_out == {"m": {TopicPartition("a", 0)}, "n": {TopicPartition("a", 1), TopicPartition("b", 0)}}
    member.answered(sync, sync_answer(partitions("a", 0)), 0)
    member.notified(only(member.effects(0)))
    member.effects(0)
    member.view_changed(view_of(a=2, b=1))
    assert member.is_stable
    member.view_changed(view_of(a=2, b=3))
    assert not member.is_stable  # a topic has grown: another rebalance


def test_heartbeats_go_on_and_tell_of_a_rebalance() -> None:
    member = classic()
    settle(member, partitions("a", 0))
    assert member.wake_at_ms() == 3000
    beat = only(member.effects(3000))
    assert (beat.kind, beat.request.generation_id) == ("heartbeat", 1)
    member.answered(beat, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 3000)
    notice = only(member.effects(3000))
    assert notice == Notify(Change.REVOKED, partitions("a", 0))
    beat = only(member.effects(6000))  # while the user gives it back
    member.answered(beat, HeartbeatResponse(), 6000)
    member.notified(notice)
    join = only(member.effects(6000))
    assert join.kind == "join"
    assert decode_subscription(join.request.protocols[0].metadata).owned == ()


def test_a_cooperative_member_keeps_what_stays_and_joins_again_after_giving_back() -> None:
    member = classic("cooperative-sticky")
    settle(member, partitions("a", 0, 1), protocol_name="cooperative-sticky")
    member.rejoin("test")
    join = only(member.effects(0))
    assert decode_subscription(join.request.protocols[0].metadata).owned == tuple(
        sorted(partitions("a", 0, 1))
    )
    member.answered(join, join_answer(generation=2, protocol_name="cooperative-sticky"), 0)
    member.answered(only(member.effects(0)), sync_answer(partitions("a", 1)), 0)
    revoked = only(member.effects(0))
    assert revoked == Notify(Change.REVOKED, partitions("a", 0))
    member.notified(revoked)
    assigned = only(member.effects(0))
    assert assigned == Notify(Change.ASSIGNED, frozenset())
    member.notified(assigned)
    join = only(member.effects(0))
    assert join.kind == "join"
    assert decode_subscription(join.request.protocols[0].metadata).owned == tuple(partitions("a", 1))


@pytest.mark.parametrize(
    ("code", "keeps_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, False), (ErrorCode.ILLEGAL_GENERATION, True)]
)
def test_a_member_that_the_group_went_on_without_has_lost_its_partitions(
    code: ErrorCode, keeps_id: bool
) -> None:
    member = classic()
    settle(member, partitions("a", 0))
    member.answered(only(member.effects(3000)), HeartbeatResponse(error_code=code), 3000)
    notice = only(member.effects(3000))
    assert notice == Notify(Change.LOST, partitions("a", 0))
    member.notified(notice)
    join = only(member.effects(3000))
    assert join.request.member_id == ("m" if keeps_id else "")


def test_a_fenced_instance_loses_its_partitions_and_says_so() -> None:
    member = classic(instance_id="i")
    settle(member, partitions("a", 0))
    code = ErrorCode.FENCED_INSTANCE_ID
    member.answered(only(member.effects(3000)), HeartbeatResponse(error_code=code), 3000)
    notice = only(member.effects(3000))
    assert notice.change is Change.LOST
    member.notified(notice)
    fail = only(member.effects(3000))
    assert isinstance(fail, Fail)
    assert isinstance(fail.error, FencedInstanceId)
    assert member.effects(9000) == []


def test_a_member_whose_user_does_not_poll_leaves_and_comes_back() -> None:
    member = classic()
    settle(member, partitions("a", 0))
    member.expire(0)
    leave = only(member.effects(0))
    assert (leave.kind, leave.request.members[0].member_id) == ("leave", "m")
    assert member.effects(60_000) == []
    member.polled()
    notice = only(member.effects(60_000))
    assert notice == Notify(Change.LOST, partitions("a", 0))
    member.notified(notice)
    assert only(member.effects(60_000)).request.member_id == ""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_member_whose_user_does_not_poll_while_it_joins_is_not_in_the_group_until_the_next_poll(
    protocol: str, is_answered: bool
) -> None:
    member: Any = classic() if protocol == "classic" else consumer()
    join = only(member.effects(0))
    if not is_answered:
        member.unanswered(join, 10)
    member.expire(20)
    first = member.effects(20)
    if is_answered:  # late
        answer = join_answer() if protocol == "classic" else beat_answer(1, a=[0])
        member.answered(join, answer, 30)
    later = [effect for now_ms in (200, 5_000, 60_000) for effect in member.effects(now_ms)]
    assert {effect.kind for effect in [*first, *later]} <= {"leave"}
    assert member.is_outside
    assert member.wake_at_ms() is None
    member.polled()
    again = only(member.effects(70_000))
    assert again.request.NAME == join.request.NAME


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_was_to_be_given_back_and_is_lost_is_told_once(protocol: str) -> None:
    member: Any = classic("cooperative-sticky") if protocol == "classic" else consumer()
    if protocol == "classic":
        settle(member, partitions("a", 0, 1), protocol_name="cooperative-sticky")
        member.subscribe(["b"])
        notice = only(member.effects(0))
    else:
        member.answered(only(member.effects(0)), beat_answer(1, a=[0, 1]), 0)
        member.notified(only(member.effects(0)))
        member.answered(only(member.effects(0)), beat_answer(1, a=[1]), 0)
        notice = only(member.effects(0))
    assert notice.change is Change.REVOKED
    member.expire(0)
    member.effects(0)
    assert member.is_outside
    member.polled()
    member.withdraw(notice)
    lost = only(member.effects(0))
    assert lost == Notify(Change.LOST, partitions("a", 0, 1))
    member.notified(lost)
    assert member.owned == frozenset()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_was_to_be_assigned_and_is_lost_can_be_taken_back(protocol: str) -> None:
    member: Any = classic() if protocol == "classic" else consumer()
    if protocol == "classic":
        member.answered(only(member.effects(0)), join_answer(), 0)
        member.answered(only(member.effects(0)), sync_answer(partitions("a", 0, 1)), 0)
    else:
        member.answered(only(member.effects(0)), beat_answer(1, a=[0, 1]), 0)
    notice = only(member.effects(0))
    assert notice == Notify(Change.ASSIGNED, partitions("a", 0, 1))
    member.expire(0)
    member.effects(0)
    assert member.is_outside
    member.polled()
    member.withdraw(notice)
    assert member.owned == frozenset()
    assert only(member.effects(0)).kind in ("join", "heartbeat")


def test_a_new_subscription_gives_back_what_it_has_no_more() -> None:
    member = classic("cooperative-sticky")
    member.subscribe(["a", "b"])
    settle(member, partitions("a", 0) | partitions("b", 0), protocol_name="cooperative-sticky")
    member.subscribe(["b"])
    assert only(member.effects(0)) == Notify(Change.REVOKED, partitions("a", 0))


def test_a_static_member_stays_when_it_closes_and_others_leave() -> None:
    static, dynamic = classic(instance_id="i"), classic()
    for member in (static, dynamic):
        settle(member, partitions("a", 0))
    assert static.leave() == (Notify(Change.REVOKED, partitions("a", 0)), None)
    notice, send = dynamic.leave()
    assert notice is not None
    assert send is not None
    assert send.kind == "leave"


# The consumer protocol.


def consumer(**settings: Any) -> ConsumerMembership:
    member = ConsumerMembership(MemberSettings("g", retry_backoff_ms=100, **settings), "m")
    member.subscribe(["a"])
    member.view_changed(view_of(a=4, b=4))
    return member


def beat_answer(epoch: int, **topics: list[int]) -> ConsumerGroupHeartbeatResponse:
    answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=epoch, heartbeat_interval_ms=5000)
    if topics:
        answer.assignment = ConsumerGroupHeartbeatResponse.Assignment(
            topic_partitions=[
                ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=IDS[name], partitions=found)
                for name, found in topics.items()
            ]
        )
    return answer


def said(send: Send) -> set[tuple[bytes, int]] | None:
    topics = send.request.topic_partitions  # type: ignore[attr-defined]
    return None if topics is None else {(topic.topic_id, p) for topic in topics for p in topic.partitions}


def test_a_consumer_member_says_all_at_first_and_then_changes_only() -> None:
    member = consumer()
    first = only(member.effects(0))
    assert (first.request.member_epoch, first.request.subscribed_topic_names) == (0, ["a"])
    assert (first.request.rebalance_timeout_ms, said(first)) == (300_000, set())
    member.answered(first, beat_answer(1, a=[0, 1]), 0)
    notice = only(member.effects(0))
    assert notice == Notify(Change.ASSIGNED, partitions("a", 0, 1))
    member.notified(notice)
    second = only(member.effects(0))
    assert said(second) == {(IDS["a"], 0), (IDS["a"], 1)}
    assert second.request.subscribed_topic_names is None
    member.answered(second, beat_answer(1), 0)
    assert member.is_stable
    assert member.wake_at_ms() == 5000
    third = only(member.effects(5000))
    assert (said(third), third.request.rebalance_timeout_ms) == (None, -1)


def test_a_consumer_member_gives_back_before_it_says_so() -> None:
    member = consumer()
    member.answered(only(member.effects(0)), beat_answer(1, a=[0, 1]), 0)
    member.notified(only(member.effects(0)))
    member.answered(only(member.effects(0)), beat_answer(1, a=[1]), 0)
    revoked = only(member.effects(0))
    assert revoked == Notify(Change.REVOKED, partitions("a", 0))
    assert said(only(member.effects(5000))) is None  # heartbeats go on meanwhile, and say nothing of it
    member.notified(revoked)


def test_an_assignment_of_a_topic_that_is_not_known_waits_for_metadata() -> None:
    member = ConsumerMembership(SETTINGS, "m")
    member.subscribe([], "a.*")
    first = only(member.effects(0))
    assert first.request.subscribed_topic_regex == "a.*"
    member.answered(first, beat_answer(1, a=[0]), 0)
    assert only(member.effects(0)) == RefreshMetadata(None)
    member.metadata_arrived(view_of(a=1), 0)
    assert only(member.effects(0)) == Notify(Change.ASSIGNED, partitions("a", 0))


def test_a_fenced_consumer_member_loses_its_partitions_and_joins_anew() -> None:
    member = consumer()
    member.answered(only(member.effects(0)), beat_answer(1, a=[0]), 0)
    member.notified(only(member.effects(0)))
    refused = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
    member.answered(only(member.effects(0)), refused, 0)
    lost = only(member.effects(0))
    assert lost == Notify(Change.LOST, partitions("a", 0))
    member.notified(lost)
    again = only(member.effects(0))
    assert (again.request.member_epoch, said(again)) == (0, set())


def test_a_consumer_member_repeats_everything_when_it_was_not_heard() -> None:
    member = consumer()
    member.answered(only(member.effects(0)), beat_answer(1, a=[0]), 0)
    member.notified(only(member.effects(0)))
    member.answered(only(member.effects(0)), beat_answer(1), 0)
    member.unanswered(only(member.effects(5000)), 5000)
    again = only(member.effects(5100))
    assert (again.request.member_epoch, again.request.subscribed_topic_names) == (1, ["a"])
    assert said(again) == {(IDS["a"], 0)}


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_consumer_member_leaves_with_the_epoch_that_says_so(instance: str | None, epoch: int) -> None:
    member = consumer(instance_id=instance)
    member.answered(only(member.effects(0)), beat_answer(1, a=[0]), 0)
    member.notified(only(member.effects(0)))
    notice, send = member.leave()
    assert notice == Notify(Change.REVOKED, partitions("a", 0))
    assert send is not None
    assert send.request.member_epoch == epoch  # type: ignore[attr-defined]


# Any life at all: whatever a coordinator and a user do, the user is told a story that holds together.

ERRORS = [
    0,
    0,
    0,
    int(ErrorCode.REBALANCE_IN_PROGRESS),
    int(ErrorCode.UNKNOWN_MEMBER_ID),
    int(ErrorCode.ILLEGAL_GENERATION),
    int(ErrorCode.NOT_COORDINATOR),
    int(ErrorCode.FENCED_MEMBER_EPOCH),
]
events = st.lists(
    st.tuples(
        st.sampled_from(
            ["answer", "answer", "answer", "call", "call", "lose", "time", "topics", "expire", "poll"]
        ),
        st.sampled_from(ERRORS),
        st.sets(st.integers(0, 3)),
        st.sampled_from([["a"], ["b"], ["a", "b"]]),
    ),
    max_size=50,
)


class Life:
    """A membership with everything that it asked for and was not answered yet."""

    def __init__(self, member: Any, cooperative: bool | None) -> None:
        self.member = member
        self.cooperative = cooperative
        self.now_ms = 0
        self.generation = 0
        self.sends: list[Send] = []
        self.notices: list[Notify] = []
        self.held: frozenset[TopicPartition] = frozenset()  # what the user believes to own

    def look(self) -> None:
        for effect in self.member.effects(self.now_ms):
            match effect:
                case Send():
                    self.check_send(effect)
                    self.sends.append(effect)
                case Notify():
                    assert not self.notices, "one thing is told at a time"
                    self.check_call(effect)
                    self.notices.append(effect)
                case RefreshMetadata():
                    self.member.metadata_arrived(view_of(a=4, b=4), self.now_ms)
                case Fail():
                    assert not self.held, "what is owned is lost before it ends"
        assert self.member.owned == self.held

    def check_call(self, notice: Notify) -> None:
        if notice.change is Change.ASSIGNED:
            assert not notice.partitions & self.held
            self.held |= notice.partitions
        else:
            assert notice.partitions
            assert notice.partitions <= self.held

    def check_send(self, send: Send) -> None:
        if send.kind == "join":
            assert not self.notices
            told = decode_subscription(send.request.protocols[0].metadata)  # type: ignore[attr-defined]
            assert frozenset(told.owned) == self.held
            assert self.cooperative or not self.held
        elif send.kind == "heartbeat" and self.cooperative is None:
            owned = said(send)
            if owned is not None:
                assigned = [notice for notice in self.notices if notice.change is Change.ASSIGNED]
                withdrawn = {p for notice in assigned for p in notice.partitions}
                assert owned == {(IDS[p.topic], p.partition) for p in self.held - withdrawn}

    def step(self, event: str, code: int, indexes: set[int], topics: list[str]) -> None:
        match event:
            case "answer" if self.sends:
                self.answer(self.sends.pop(0), code, indexes, topics)
            case "call" if self.notices:
                notice = self.notices.pop()
                if notice.change is not Change.ASSIGNED:
                    self.held -= notice.partitions
                self.member.notified(notice)
            case "lose" if self.sends:
                self.member.unanswered(self.sends.pop(), self.now_ms)
            case "time":
                self.now_ms += 3000
            case "topics":
                self.member.subscribe(topics)
            case "expire":
                self.member.expire(self.now_ms)
            case "poll":
                self.member.polled()
        self.look()

    def answer(self, send: Send, code: int, indexes: set[int], topics: list[str]) -> None:
        self.generation += 1
        found = frozenset(TopicPartition(topic, index) for topic in topics for index in indexes)
        match send.kind:
            case "join":
                name = send.request.protocols[0].name  # type: ignore[attr-defined]
                answer: Any = join_answer(generation=self.generation, protocol_name=name, error_code=code)
            case "sync":
                answer = sync_answer(found)
                answer.error_code = code
            case "heartbeat" if self.cooperative is None:
                answer = beat_answer(self.generation, **{topic: sorted(indexes) for topic in topics})
                answer.error_code = code
            case "heartbeat":
                answer = HeartbeatResponse(error_code=code)
            case _:
                return
        self.member.answered(send, answer, self.now_ms)


def live(member: Any, cooperative: bool | None, chosen: list[tuple[str, int, set[int], list[str]]]) -> None:
    life = Life(member, cooperative)
    life.look()
    for event in chosen:
        life.step(*event)
    notice, _ = member.leave()
    assert (notice.partitions if notice is not None else frozenset()) == life.held


@given(events)
@settings(max_examples=200, deadline=None)
def test_an_eager_member_never_owns_what_it_gave_back(chosen: list[Any]) -> None:
    live(classic("range"), False, chosen)


@given(events)
@settings(max_examples=200, deadline=None)
def test_a_cooperative_member_never_owns_what_it_gave_back(chosen: list[Any]) -> None:
    live(classic("cooperative-sticky"), True, chosen)


@given(events)
@settings(max_examples=200, deadline=None)
def test_a_consumer_member_never_owns_what_it_gave_back(chosen: list[Any]) -> None:
    live(consumer(), None, chosen)
