"""One step of a member from its current to its target assignment, at its heartbeat.

First it revokes the partitions that are not in its target; it keeps its epoch until it confirms that. Then it
moves to the target's epoch and gets those partitions of its target that no other member may still own; it
gets the others at a later heartbeat, once they are released.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ottla.coordinator.groups.assignors.spec import MemberAssignment
from ottla.coordinator.groups.consumer.member import ConsumerMember, MemberState, Owned, Partitions, owns_any
from ottla.wire.errors import FencedMemberEpoch

IsOwned = Callable[[bytes, int], bool]


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: MemberAssignment,
    subscribed: Container[bytes],
    has_subscription_changed: bool,
    is_owned: IsOwned,
    owned: Owned | None,
) -> ConsumerMember:
    """The member after this step: the same object if there is no step.

    `subscribed` are its topics; `owned` are the partitions that the client lists (None: no list).
    """
    if member.state is MemberState.STABLE:
        if member.epoch != target_epoch:
            return _next(member, target_epoch, target, subscribed, is_owned, owned)
        return _unsubscribed(member, subscribed, owned) if has_subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if owns_any(owned, member.pending_revocation):
            return _unsubscribed(member, subscribed, owned) if has_subscription_changed else member
    elif member.state is MemberState.UNKNOWN and owned != []:
        # A newer coordinator wrote this state: start over.
        raise FencedMemberEpoch(
            "The consumer group member is in a unknown state. The member must abandon all its partitions and "
            "rejoin."
        )
    return _next(member, target_epoch, target, subscribed, is_owned, owned)


def _unsubscribed(
    member: ConsumerMember, subscribed: Container[bytes], owned: Owned | None
) -> ConsumerMember:
    """Revoke partitions of topics that the member unsubscribed from, before the next target assignment."""
    dropped = [topic_id for topic_id in member.assigned if topic_id not in subscribed]
    if not dropped:
        return member
    assigned = {topic_id: mine for topic_id, mine in member.assigned.items() if topic_id not in dropped}
    pending = dict(member.pending_revocation)
    for topic_id in dropped:
        pending[topic_id] = {**pending.get(topic_id, {}), **member.assigned[topic_id]}
    if owns_any(owned, pending):
        return member.changed(
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            pending_revocation=pending,
        )
    return member.changed(previous_epoch=member.epoch, assigned=assigned)


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: MemberAssignment,
    subscribed: Container[bytes],
    is_owned: IsOwned,
    owned: Owned | None,
) -> ConsumerMember:
    kept, revoked, added, has_unreleased = _compare(member, target, subscribed, is_owned)
    if revoked and owns_any(owned, revoked):
        return member.moved(MemberState.UNREVOKED_PARTITIONS, member.epoch, member.epoch, kept, revoked)
    for topic_id, partitions in added.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(partitions, target_epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
    return member.moved(state, target_epoch, member.epoch, kept, {})


def _compare(
    member: ConsumerMember, target: MemberAssignment, subscribed: Container[bytes], is_owned: IsOwned
) -> tuple[dict[bytes, dict[int, int]], Partitions, dict[bytes, list[int]], bool]:
    """The partitions that it keeps, revokes and gets, and whether others still own some of its target."""
    kept: dict[bytes, dict[int, int]] = {}
    revoked: dict[bytes, dict[int, int]] = {}
    added: dict[bytes, list[int]] = {}
    has_unreleased = False
    for topic_id, mine in member.assigned.items():
        wanted = set(target.get(topic_id, ())) if topic_id in subscribed else set()
        kept_here = {partition: since for partition, since in mine.items() if partition in wanted}
        if kept_here:
            kept[topic_id] = kept_here
        if len(kept_here) < len(mine):
            revoked[topic_id] = {
                partition: since for partition, since in mine.items() if partition not in wanted
            }
    for topic_id, partitions in target.items():
        if topic_id not in subscribed:
            continue
        mine = member.assigned.get(topic_id, {})
        # Partitions that it was revoking itself have no other owner.
        pending = member.pending_revocation.get(topic_id, {})
        missing = [partition for partition in partitions if partition not in mine]
        free = [
            partition for partition in missing if partition in pending or not is_owned(topic_id, partition)
        ]
        if free:
            added[topic_id] = free
        has_unreleased = has_unreleased or len(free) < len(missing)
    return kept, revoked, added, has_unreleased
