"""The consumer group protocol (KIP-848) as decisions: heartbeats with which members join, reconcile and
leave.

Each heartbeat takes the same steps: it updates the member's subscription; if that or the topics changed, it
bumps the group's epoch; if the epoch is ahead of the target assignment, a new one is made (`assignment.py`:
at once if it is small, else in a task); then the member takes its next step towards its target
(`reconciliation.py`). Rule: state changes by replay of the records; a decision itself changes only what a
restart may lose (timers, tasks under way, held heartbeats).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.consumer import records
from ottla.coordinator.groups.consumer.assignment import Assigning, HeldHeartbeat
from ottla.coordinator.groups.consumer.description import assignment_of, described
from ottla.coordinator.groups.consumer.group import ConsumerGroup, known_static
from ottla.coordinator.groups.consumer.member import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConsumerMember,
    MemberState,
    Owned,
    is_within,
)
from ottla.coordinator.groups.consumer.reconciliation import reconcile
from ottla.coordinator.groups.consumer.regex_resolution import Regexes
from ottla.coordinator.groups.consumer.replay import ConsumerReplay
from ottla.coordinator.groups.consumer.subscriptions import (
    Subscriptions,
    after_change,
    after_leaving,
    metadata_hash,
)
from ottla.coordinator.groups.consumer.timers import ConsumerTimers
from ottla.coordinator.groups.migration import Migration
from ottla.coordinator.result import HELD, Caller, Result
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import errors, uuid
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.coordinator.groups.assignors.spec import MemberAssignment
    from ottla.coordinator.groups.settings import ConsumerSettings
    from ottla.coordinator.groups.shard import GroupShard

_METADATA_REFRESH_INTERVAL_MS = 2**31 - 1  # only changes of topics matter, and they request a refresh


class ConsumerProtocol:
    """See the module."""

    def __init__(self, shard: GroupShard) -> None:
        self.shard = shard
        self.timers = ConsumerTimers(self.fence_if_there)
        self.assigning = Assigning(self)
        self.replay = ConsumerReplay(shard.groups, self.assigning.forget)
        self.regexes = Regexes(self)
        self.migration = Migration(self)
        self.classic_join = self.migration.join
        self.classic_sync = self.migration.sync
        self.classic_heartbeat = self.migration.heartbeat
        self.classic_leave = self.migration.leave

    # Heartbeats

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, caller: Caller, pending: PendingResponse | None = None
    ) -> Result[ConsumerGroupHeartbeatResponse]:
        """A member joins, heartbeats or leaves.

        With `pending` the response is held while a large assignment is made that the member waits for;
        without it the member gets the assignment at its next heartbeat.
        """
        if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
            return self._leave(request)
        result: Result[ConsumerGroupHeartbeatResponse] = Result()
        now_ms = self.shard.clock.now_ms()
        group = self._group_of(request, result)
        self.check_room(group, request.member_id)
        member = self._member_of(group, request, result)
        updated = _updated(member, request, caller)
        if updated is not member:
            result.records.append(records.subscription(group.id, updated))
        has_new_names = updated.topic_names != member.topic_names
        regex_changed, regex_resolved = self.regexes.update(group, member, updated, now_ms, result)
        epoch, subscriptions = self.update_epoch(
            group, member, updated, has_new_names or regex_resolved, now_ms, result
        )
        self.timers.start_session(group.id, member.id, self.settings(group).session_timeout_ms, result)
        held = None
        if pending is not None:
            held = HeldHeartbeat(pending, request, member, has_new_names or regex_changed)
        target_epoch, target, is_held = self.assigning.update(
            group, epoch, member, updated, subscriptions, held, result
        )
        if is_held:
            result.response = HELD
        else:
            has_changed = has_new_names or regex_changed
            result.response = self.finish(
                group, member, updated, target_epoch, target, has_changed, request, result
            )
        return result

    def finish(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        member: ConsumerMember,
        target_epoch: int,
        target: MemberAssignment,
        has_subscription_changed: bool,
        request: ConsumerGroupHeartbeatRequest,
        result: Result[object],
    ) -> ConsumerGroupHeartbeatResponse:
        """Reconcile a member and make its response."""
        member = self.reconcile(
            group, member, target_epoch, target, has_subscription_changed, request.topic_partitions, result
        )
        return self.answer(group, before, member, request)

    def answer(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        member: ConsumerMember,
        request: ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse:
        """The response has the assignment if that changed, or if the request has all fields."""
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self.settings(group).heartbeat_interval_ms,
        )
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        if request.member_epoch == 0 or is_full or member.assigned != before.assigned:
            response.assignment = assignment_of(member.assigned)
        return response

    def settings(self, group: ConsumerGroup) -> ConsumerSettings:
        return self.shard.settings.of_group(group.id)

    # Groups and members

    def group(self, group_id: str) -> ConsumerGroup | None:
        return self.replay.group(group_id)

    def _group_of(self, request: ConsumerGroupHeartbeatRequest, result: Result[object]) -> ConsumerGroup:
        """The group. A member that joins creates it, or upgrades a classic group."""
        is_joining = request.member_epoch == 0
        group = self.shard.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is None:
            if is_joining:
                return ConsumerGroup(request.group_id)
            raise errors.GroupIdNotFound(f"Consumer group {request.group_id} not found.")
        if not is_joining or not isinstance(group, ClassicGroup):
            raise errors.GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")
        if group.is_empty:
            result.records += group.tombstones()
            self.shard.classic.stop_timers(group, result)
            return ConsumerGroup(request.group_id)
        return self.migration.upgrade(group, result)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        size_max = self.shard.settings.consumer.size_max
        if len(group.members) >= size_max and member_id not in group.members:
            raise errors.GroupMaxSizeReached(
                f"The consumer group has reached its maximum capacity of {size_max} members."
            )

    def new_member_id(self) -> str:
        return uuid.to_text(uuid.random(self.shard.random.bytes))

    def _member_of(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, result: Result[object]
    ) -> ConsumerMember:
        member_id = request.member_id or self.new_member_id()
        is_joining = request.member_epoch == 0
        if request.instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                member = ConsumerMember(member_id) if is_joining else group.member(member_id)
        elif is_joining:
            return self.join_static(group, member_id, request.instance_id, result, is_classic=False)
        else:
            member = known_static(group, member_id, request.instance_id)
        _check_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    def join_static(
        self,
        group: ConsumerGroup,
        member_id: str,
        instance_id: str,
        result: Result[object],
        *,
        is_classic: bool,
    ) -> ConsumerMember:
        """A static member joins and replaces its earlier member id, which has left unless one is classic."""
        old = group.static_member(instance_id)
        if old is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not is_classic and old.classic is None and old.epoch != LEAVE_STATIC_EPOCH:
            raise errors.UnreleasedInstanceId(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the "
                f"instance id is owned by {old.id} member."
            )
        member = old.changed(id=member_id, epoch=0, previous_epoch=0)
        result.records += records.no_member(group.id, old.id)
        result.records.append(records.subscription(group.id, member))
        result.records.append(records.target(group.id, member_id, group.target.get(old.id, {})))
        result.records.append(records.assignment(group.id, member))
        self.timers.stop(group.id, old.id, result)
        return member

    # Epochs and targets

    def update_epoch(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        bump: bool,
        now_ms: int,
        result: Result[object],
    ) -> tuple[int, Subscriptions | None]:
        """The group's epoch and subscriptions (None: unchanged) once `updated` replaces `member`.

        The epoch is bumped if the subscriptions or the topics change.
        """
        if not bump and not group.has_metadata_expired(now_ms):
            return group.epoch, None
        subscriptions = after_change(group, member, updated)
        hashed = self.metadata_hash(group, subscriptions)
        epoch = group.epoch
        if bump or hashed != group.metadata_hash:
            epoch += 1
            result.records.append(records.group_epoch(group.id, epoch, hashed))
        self.refreshed(group, epoch, now_ms)
        if group.has_subscription_metadata:
            result.records.append(records.no_subscription_metadata(group.id))
        return epoch, subscriptions

    def metadata_hash(self, group: ConsumerGroup, subscriptions: Subscriptions) -> int:
        return metadata_hash(group, subscriptions, self.replay.index, self.shard.image)

    def refreshed(self, group: ConsumerGroup, epoch: int, now_ms: int) -> None:
        """The topics were compared; the next comparison is when one changes."""
        group.refresh_deadline = (now_ms + _METADATA_REFRESH_INTERVAL_MS, epoch)

    def reconcile(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        target_epoch: int,
        target: MemberAssignment,
        has_subscription_changed: bool,
        owned: Owned | None,
        result: Result[object],
    ) -> ConsumerMember:
        """Write the member's next step towards its target, and start or stop its rebalance timeout."""
        if not has_subscription_changed and member.is_reconciled_to(target_epoch):
            return member
        moved = reconcile(
            member,
            target_epoch=target_epoch,
            target=target,
            subscribed=_TopicIds(group.subscribed_names(member), self.shard.image),
            has_subscription_changed=has_subscription_changed,
            is_owned=group.is_owned,
            owned=owned,
        )
        if moved is member or moved == member:
            return member
        result.records.append(records.assignment(group.id, moved))
        if moved.classic is None:  # classic members have join and sync timeouts
            if moved.state is MemberState.UNREVOKED_PARTITIONS:
                self._start_rebalance_timer(group.id, moved, result)
            else:
                self.timers.stop_rebalance(group.id, moved.id, result)
        return moved

    def _start_rebalance_timer(self, group_id: str, member: ConsumerMember, result: Result[object]) -> None:
        decision = partial(self._fence_if_unmoved, group_id, member.id, member.epoch)
        self.timers.start_rebalance(group_id, member.id, member.rebalance_timeout_ms, decision, result)

    def _fence_if_unmoved(self, group_id: str, member_id: str, epoch: int) -> Result[None]:
        group = self.group(group_id)
        member = group.members.get(member_id) if group is not None else None
        result: Result[None] = Result()
        if group is not None and member is not None and member.epoch == epoch:
            self.fence(group, [member], result)
        return result

    # Leaving

    def _leave(self, request: ConsumerGroupHeartbeatRequest) -> Result[ConsumerGroupHeartbeatResponse]:
        group = self.shard.group(request.group_id)
        if not isinstance(group, ConsumerGroup):
            raise errors.GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = known_static(group, request.member_id, request.instance_id)
            if request.member_epoch == LEAVE_STATIC_EPOCH:
                away = member.leaving_for_a_while()
                return Result(response, [records.assignment(group.id, away)])
        result: Result[ConsumerGroupHeartbeatResponse] = Result(response)
        self.fence(group, [member], result)
        return result

    def fence_if_there(self, group_id: str, member_id: str) -> Result[None]:
        """The session of a member timed out."""
        group = self.group(group_id)
        member = group.members.get(member_id) if group is not None else None
        result: Result[None] = Result()
        if group is not None and member is not None:
            self.fence(group, [member], result)
        return result

    def fence(
        self, group: ConsumerGroup, leaving: Collection[ConsumerMember], result: Result[object]
    ) -> None:
        """Remove members. If the remaining ones are all classic, downgrade the group."""
        if not leaving:
            return
        for member in leaving:
            self.timers.stop(group.id, member.id, result)
        if self.migration.can_downgrade_without(group, leaving):
            self.migration.downgrade(group, result, leaving=leaving, rebalance=True)
            return
        for member in leaving:
            result.records += records.no_member(group.id, member.id)
        subscriptions, gone = after_leaving(group, leaving)
        result.records += [records.no_regex(group.id, expression) for expression in gone]
        hashed = self.metadata_hash(group, subscriptions)
        result.records.append(records.group_epoch(group.id, group.epoch + 1, hashed))

    # The shard's calls

    def describe(self, group_id: str) -> ConsumerGroupDescribeResponse.DescribedGroup:
        group = self.shard.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return described(group, self.shard.settings.consumer.assignors[0], self.shard.image)
        reason = (
            f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        )
        return ConsumerGroupDescribeResponse.DescribedGroup(
            group_id=group_id, error_code=errors.ErrorCode.GROUP_ID_NOT_FOUND, error_message=reason
        )

    def on_loaded(self) -> Result[None]:
        """All members get a full session timeout."""
        result: Result[None] = Result()
        self.regexes.topics_version = self.shard.image.offset
        for group in self.shard.groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            session_timeout_ms = self.settings(group).session_timeout_ms
            for member in group.members.values():
                self.timers.start_session(group.id, member.id, session_timeout_ms, result)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._start_rebalance_timer(group.id, member, result)
        return result

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> Result[None]:
        """Topics were created, deleted or changed: their groups compare them at the next heartbeat."""
        if delta.topics_created:
            self.regexes.topics_version = image.offset
        names = {topic.name for topic in (*delta.topics_created.values(), *delta.topics_deleted.values())}
        for topic_id, changed in delta.partitions_changed.items():
            topic = image.topics.get(topic_id)
            if topic is not None and any(
                before is None or before.replicas != topic.partitions[index].replicas
                for index, before in changed.items()
            ):
                names.add(topic.name)
        index = self.replay.index
        for name in names:
            index.hashes.pop(name, None)
            for group_id in index.groups.get(name, ()):
                group = self.group(group_id)
                if group is not None:
                    group.request_metadata_refresh()
        return Result()

    def pending_responses(self) -> list[PendingResponse]:
        """The heartbeats that are held."""
        return self.assigning.pending_responses()


class _TopicIds:
    """The ids of those of the named topics that exist."""

    __slots__ = ("_names", "_topics")

    def __init__(self, names: frozenset[str], image: ClusterImage) -> None:
        self._names = names
        self._topics = image.topics

    def __contains__(self, topic_id: object) -> bool:
        topic = self._topics.get(topic_id)  # type: ignore[call-overload]
        return topic is not None and topic.name in self._names


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Accept the previous epoch from a member whose response was lost, if it owns only its partitions."""
    if epoch == 0 or epoch == member.epoch:
        return
    if epoch < member.epoch and epoch == member.previous_epoch and is_within(owned, member.assigned):
        return
    comparison = "greater" if epoch > member.epoch else "smaller"
    raise errors.FencedMemberEpoch(
        f"The consumer group member has a {comparison} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
    )


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """The member with the fields of the request: the same object if none changed."""
    fields: dict[str, Any] = {}
    if request.instance_id is not None and request.instance_id != member.instance_id:
        fields["instance_id"] = request.instance_id
    if request.rack_id is not None and request.rack_id != member.rack_id:
        fields["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms not in (-1, member.rebalance_timeout_ms):
        fields["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.server_assignor is not None and request.server_assignor != member.assignor:
        fields["assignor"] = request.server_assignor
    if request.subscribed_topic_names is not None:
        names = frozenset(request.subscribed_topic_names)
        if names != member.topic_names:
            fields["topic_names"] = names
    if request.subscribed_topic_regex is not None and request.subscribed_topic_regex != member.topic_regex:
        fields["topic_regex"] = request.subscribed_topic_regex
    if caller.client_id != member.client_id:
        fields["client_id"] = caller.client_id
    if caller.client_host != member.client_host:
        fields["client_host"] = caller.client_host
    if member.classic is not None:
        fields["classic"] = None
    return member.changed(**fields) if fields else member
