"""Who a member of a group is for its transactions: what fences it once the group went on without it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.core.test_membership import (
    beat_answer,
    classic,
    consumer,
    join_answer,
    only,
    partitions,
    sync_answer,
)

from ottla.client.core.membership import Change, Notify, Send
from ottla.client.core.membership.classic import ClassicMembership
from ottla.client.core.membership.consumer import ConsumerMembership
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.heartbeat import HeartbeatResponse


def told(member: ClassicMembership | ConsumerMembership, now_ms: int) -> list[Change]:
    """Tell the user of everything that waits, as a poll does."""
    changes = []
    while notices := [effect for effect in member.effects(now_ms) if isinstance(effect, Notify)]:
        member.notifying(notices[0])
        changes.append(notices[0].change)
        member.notified(notices[0])
    return changes


def joined(strategy: str = "range", **settings: Any) -> ClassicMembership:
    """A classic member of generation 1 that owns a-0."""
    member = classic(strategy, **settings)
    member.answered(only(member.effects(0)), join_answer(protocol_name=strategy), 0)
    member.answered(only(member.effects(0)), sync_answer(partitions("a", 0)), 0)
    assert member.identity == (-1, "")  # the user knows of nothing yet
    assert told(member, 0) == [Change.ASSIGNED]
    assert member.identity == (1, "m")
    return member


def beat(member: ClassicMembership, code: int, now_ms: int) -> None:
    heartbeat = only([e for e in member.effects(now_ms) if isinstance(e, Send) and e.kind == "heartbeat"])
    member.answered(heartbeat, HeartbeatResponse(error_code=code), now_ms)


@pytest.mark.parametrize("instance_id", [None, "i"])
@pytest.mark.parametrize("way", ["poll interval", "unknown member", "illegal generation", "fenced instance"])
def test_a_member_that_was_put_out_keeps_the_identity_that_fences_its_transaction(
    way: str, instance_id: str | None
) -> None:
    member = joined(instance_id=instance_id)
    match way:
        case "poll interval":
            member.expire(1_000)
        case "unknown member":
            beat(member, ErrorCode.UNKNOWN_MEMBER_ID, 3_000)
        case "illegal generation":
            beat(member, ErrorCode.ILLEGAL_GENERATION, 3_000)
        case "fenced instance":
            beat(member, ErrorCode.FENCED_INSTANCE_ID, 3_000)
    assert member.is_outside
    assert member.identity == (1, "m")
    member.effects(4_000)
    assert member.identity == (1, "m")


def test_an_eager_member_has_its_next_identity_when_the_user_hears_of_the_next_assignment() -> None:
    member = joined()
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS, 3_000)
    assert told(member, 3_000) == [Change.REVOKED]
    # The transaction over what was revoked goes on, and the user has not polled since.
    assert member._asking is not None
    member.answered(member._asking, join_answer(generation=2), 3_000)
    member.answered(only(member.effects(3_000)), sync_answer(partitions("a", 0)), 3_000)
    member.effects(3_000)
    assert member.identity == (1, "m")
    assert member._notifying is not None
    member.notifying(member._notifying)
    assert member.identity == (2, "m")


def test_a_cooperative_member_that_keeps_its_partitions_has_the_identity_of_the_running_generation() -> None:
    member = joined("cooperative-sticky")
    beat(member, ErrorCode.REBALANCE_IN_PROGRESS, 3_000)
    join = only([e for e in member.effects(3_000) if isinstance(e, Send)])
    member.answered(join, join_answer(generation=2, protocol_name="cooperative-sticky"), 3_000)
    assert member.identity == (2, "m")  # what it owns stays its own until it gives it back
    member.answered(only(member.effects(3_000)), sync_answer(frozenset()), 3_000)
    assert told(member, 3_000)[0] is Change.REVOKED
    assert member._asking is not None  # it joins once more, without what it gave back
    member.answered(member._asking, join_answer(generation=3, protocol_name="cooperative-sticky"), 3_000)
    assert member.identity == (2, "m")


@pytest.mark.parametrize("way", ["poll interval", "fenced"])
def test_a_consumer_member_that_was_put_out_keeps_the_identity_that_fences_its_transaction(way: str) -> None:
    member = consumer()
    member.answered(only(member.effects(0)), beat_answer(3, a=[0]), 0)
    assert told(member, 0) == [Change.ASSIGNED]
    assert member._asking is not None
    member.answered(member._asking, beat_answer(4), 0)
    assert member.identity == (4, "m")
    if way == "poll interval":
        member.expire(10_000)
        leave = only(member.effects(10_000))
        assert leave.kind == "leave"
    else:
        heartbeat = only(member.effects(10_000))
        refused = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        member.answered(heartbeat, refused, 10_000)
        assert told(member, 10_000) == [Change.LOST]
        assert member._asking is not None  # it joins anew
        member.answered(member._asking, beat_answer(9, a=[0]), 10_000)
        assert member.generation == 9
    assert member.identity == (4, "m")
