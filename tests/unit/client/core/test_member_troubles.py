"""What others in a group or an assignor do wrong: the user hears of it, and the member goes on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.core.test_membership import (
    beat_answer,
    consumer,
    join_answer,
    only,
    partitions,
    said,
    sync_answer,
    view_of,
)

from ottla.client.core.assignors.range_and_round_robin import Range
from ottla.client.core.membership import Change, Fail, MemberSettings, Notify, Send
from ottla.client.core.membership.classic import ClassicMembership
from ottla.client.core.subscription import MemberSubscription, encode_subscription
from ottla.wire.errors import ErrorCode, MalformedMessage, TopicAuthorizationFailed
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse


class Faulty(Range):
    """An assignor of the user's that fails where it is told to, once."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where: str | None = where

    def _maybe_fail(self, where: str) -> None:
        if self.where == where:
            self.where = None
            raise LookupError(where)

    def subscription_user_data(self, topics: Any) -> bytes | None:
        self._maybe_fail("subscription_user_data")
        return super().subscription_user_data(topics)

    def assign(self, *arguments: Any) -> Any:
        self._maybe_fail("assign")
        return super().assign(*arguments)

    def on_assignment(self, *arguments: Any) -> None:
        self._maybe_fail("on_assignment")
        super().on_assignment(*arguments)


def member_with(where: str = "") -> ClassicMembership:
    member = ClassicMembership(MemberSettings("g", retry_backoff_ms=100), [Faulty(where)])
    member.subscribe(["a"])
    return member


def troubles(member: ClassicMembership, now_ms: int) -> list[type[Exception]]:
    return [type(effect.error) for effect in member.effects(now_ms) if isinstance(effect, Fail)]


def next_join(member: ClassicMembership) -> Send:
    """The join that follows, at the time that the member names."""
    at_ms = member.wake_at_ms()
    assert at_ms is not None
    sent = [effect for effect in member.effects(at_ms) if isinstance(effect, Send)]
    [join] = [send for send in sent if send.kind == "join"]
    return join


def finish(member: ClassicMembership, join: Send) -> None:
    """The group's next try goes well."""
    now_ms = 60_000
    member.answered(join, join_answer(generation=2), now_ms)
    sync = only([effect for effect in member.effects(now_ms) if isinstance(effect, Send)])
    member.answered(sync, sync_answer(partitions("a", 0)), now_ms)
    [notice] = [effect for effect in member.effects(now_ms) if isinstance(effect, Notify)]
    assert notice == Notify(Change.ASSIGNED, partitions("a", 0))


def leader_answer(*more: bytes) -> JoinGroupResponse:
    told = JoinGroupResponse.JoinGroupResponseMember
    members = [told(member_id="m", metadata=encode_subscription(MemberSubscription(("a",))))]
    members += [told(member_id=f"odd-{number}", metadata=data) for number, data in enumerate(more)]
    answer: JoinGroupResponse = join_answer(leader="m", members=members)
    return answer


@pytest.mark.parametrize(
    "malformed", [b"", b"\x00", b"\xff\xff", b"\x00\x01\x00\x00", b"\x00\x01\x00\x00\x00\x01\x00\x05a"]
)
def test_a_leader_that_cannot_read_a_subscription_says_so_and_joins_again(malformed: bytes) -> None:
    member = member_with()
    member.answered(only(member.effects(0)), leader_answer(malformed), 0)
    assert troubles(member, 0) == [MalformedMessage]
    finish(member, next_join(member))


def test_a_leader_whose_assignor_fails_says_so_and_joins_again() -> None:
    member = member_with("assign")
    member.answered(only(member.effects(0)), leader_answer(), 0)
    member.effects(0)
    member.metadata_arrived(view_of(a=1), 0)
    assert troubles(member, 0) == [LookupError]
    finish(member, next_join(member))


def test_a_member_whose_assignor_fails_before_the_join_says_so_and_joins_later() -> None:
    member = member_with("subscription_user_data")
    assert troubles(member, 0) == [LookupError]
    finish(member, next_join(member))


def test_an_assignment_that_the_assignor_fails_to_hear_of_counts_all_the_same() -> None:
    member = member_with("on_assignment")
    member.answered(only(member.effects(0)), join_answer(), 0)
    member.answered(only(member.effects(0)), sync_answer(partitions("a", 0)), 0)
    failed, notice = member.effects(0)
    assert isinstance(failed, Fail)
    assert isinstance(failed.error, LookupError)
    assert notice == Notify(Change.ASSIGNED, partitions("a", 0))


def test_a_member_that_cannot_read_its_assignment_says_so_and_joins_again() -> None:
    member = member_with()
    member.answered(only(member.effects(0)), join_answer(), 0)
    member.answered(only(member.effects(0)), SyncGroupResponse(assignment=b"\x00"), 0)
    assert troubles(member, 0) == [MalformedMessage]
    finish(member, next_join(member))


# The consumer protocol.


def test_a_consumer_member_that_may_not_read_a_topic_says_so_and_asks_again_later() -> None:
    member = consumer()
    refused = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    member.answered(only(member.effects(0)), refused, 0)
    failed = only(member.effects(0))
    assert isinstance(failed.error, TopicAuthorizationFailed)
    assert member.effects(2_999) == []  # not at once: heartbeat.interval.ms later
    again = only(member.effects(3_000))
    member.answered(again, beat_answer(1, a=[0]), 3_000)
    assert only(member.effects(3_000)) == Notify(Change.ASSIGNED, partitions("a", 0))


def test_a_consumer_member_may_commit_until_its_user_has_heard_that_it_leaves() -> None:
    member = consumer()
    member.answered(only(member.effects(0)), beat_answer(3, a=[0]), 0)
    member.notified(only(member.effects(0)))
    notice, send = member.leave()
    assert notice == Notify(Change.REVOKED, partitions("a", 0))
    assert send is not None
    assert (member.generation, member.is_outside) == (3, False)


def test_a_consumer_member_that_was_not_heard_says_what_its_user_has_while_a_listener_runs() -> None:
    member = consumer()
    member.answered(only(member.effects(0)), beat_answer(1, a=[0]), 0)
    member.notified(only(member.effects(0)))
    member.answered(only(member.effects(0)), beat_answer(1, a=[0, 1]), 0)
    assert only(member.effects(0)) == Notify(Change.ASSIGNED, partitions("a", 1))
    member.unanswered(only(member.effects(5_000)), 5_000)
    again = only(member.effects(5_100))
    assert said(again) == {(b"a" * 16, 0)}
