"""Live migration of a group between the two protocols, and classic members in a consumer group.

When a member of the consumer protocol joins a classic group of consumers, the group is upgraded to a consumer
group in which the others remain classic members: JoinGroup returns the epoch as generation at once, SyncGroup
returns the assignment, and Heartbeat makes them rejoin when they have a step to take. When the last member of
the consumer protocol leaves, the group is downgraded. `group.consumer.migration.policy` says what is allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.coordinator.groups.classic.embedded_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.coordinator.groups.classic.group import ClassicGroup
from ottla.coordinator.groups.classic.member import ClassicMember
from ottla.coordinator.groups.classic.responses import join_refused
from ottla.coordinator.groups.consumer import records
from ottla.coordinator.groups.consumer.group import NOTHING, PROTOCOL_TYPE, ConsumerGroup, known_static
from ottla.coordinator.groups.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
    Owned,
    with_epoch,
)
from ottla.coordinator.groups.consumer.subscriptions import now as subscriptions_now
from ottla.coordinator.groups.consumer.timers import when_refused
from ottla.coordinator.groups.settings import MigrationPolicy
from ottla.coordinator.result import Caller, Result
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import errors
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.group_records import ConsumerGroupMemberMetadataValue
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.protocol_data import ConsumerProtocolSubscription
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.groups.consumer.protocol import ConsumerProtocol

_ID_REQUIRED_FROM = 4  # versions of JoinGroup
_Protocol = ConsumerGroupMemberMetadataValue.ClassicProtocol


class Migration:
    """See the module."""

    def __init__(self, protocol: ConsumerProtocol) -> None:
        self._protocol = protocol

    @property
    def _policy(self) -> MigrationPolicy:
        return self._protocol.shard.settings.consumer.migration_policy

    # Classic -> consumer

    def upgrade(self, classic: ClassicGroup, result: Result[object]) -> ConsumerGroup:
        """Upgrade a classic group. Members with held requests must rejoin."""
        self._check_upgrade(classic)
        try:
            group = self._converted(classic)
        except errors.MalformedMessage as error:
            raise errors.GroupIdNotFound(
                f"Cannot upgrade classic group {classic.id} to consumer group because the embedded consumer "
                "protocol is malformed."
            ) from error
        self._protocol.shard.classic.release(classic, result)
        result.records += classic.tombstones()
        result.records += _records(group)
        for member in group.members.values():
            if member.classic is not None:
                self._protocol.timers.start_session(
                    group.id, member.id, member.classic.session_timeout_ms, result
                )
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        reason = None
        if not self._policy.allows_upgrade:
            reason = "online upgrade is disabled"
        elif not classic.is_of_consumers:
            reason = "the group does not use the consumer embedded protocol"
        elif len(classic.members) > self._protocol.shard.settings.consumer.size_max:
            reason = "the group size exceeds the consumer group maximum size"
        if reason is not None:
            raise errors.GroupIdNotFound(
                f"Cannot upgrade classic group {classic.id} to consumer group because {reason}."
            )

    def _converted(self, classic: ClassicGroup) -> ConsumerGroup:
        """The members, stable, with the assignment of the last generation."""
        group = ConsumerGroup(classic.id)
        group.epoch = group.target_epoch = classic.generation
        for old in classic.members.values():
            assigned = self._assigned(classic, old)
            # The group may have no protocol yet, or one that a member no longer has: the next rebalance would
            # have chosen another.
            by_name = dict(old.protocols)
            chosen = classic.protocol_name
            subscription = read_subscription(by_name[chosen] if chosen in by_name else old.protocols[0][1])
            group.target[old.id] = assigned
            group.put_member(
                ConsumerMember(
                    old.id,
                    epoch=classic.generation,
                    previous_epoch=classic.generation,
                    instance_id=old.instance_id,
                    rack_id=subscription.rack_id or None,
                    rebalance_timeout_ms=old.rebalance_timeout_ms,
                    client_id=old.client_id,
                    client_host=old.client_host,
                    topic_names=group.shared_names(subscription.topics),
                    assigned=with_epoch(assigned, classic.generation),
                    classic=_classic_metadata(old.session_timeout_ms, old.protocols),
                )
            )
        group.metadata_hash = self._protocol.metadata_hash(group, subscriptions_now(group))
        return group

    def _assigned(self, classic: ClassicGroup, member: ClassicMember) -> dict[bytes, tuple[int, ...]]:
        if not member.assignment:
            return {}  # it has just joined
        assignment = read_assignment(member.assignment)
        if assignment.user_data:
            raise errors.GroupIdNotFound(
                f"Cannot upgrade classic group {classic.id} to consumer group because an unsupported custom "
                "assignor is in use. Please refer to the documentation or switch to a default assignor "
                "before re-attempting the upgrade."
            )
        topics = self._protocol.shard.image.topics_by_name
        return {
            # The group's leader made the assignment, maybe with partitions that do not exist.
            topics[listed.topic].id: tuple(sorted({one for one in listed.partitions if one >= 0}))
            for listed in assignment.assigned_partitions
            if listed.topic in topics
        }

    # Consumer -> classic

    def can_downgrade_without(self, group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
        """Whether the group may be downgraded when these members leave."""
        staying = len(group.members) - len(leaving)
        return (
            staying > 0
            and group.is_classic_without(leaving)
            and self._policy.allows_downgrade
            and staying <= self._protocol.shard.settings.classic.size_max
        )

    def _can_downgrade_replacing(self, group: ConsumerGroup, replaced: ConsumerMember | None) -> bool:
        """The same when a classic member replaces a static one."""
        return (
            replaced is not None
            and replaced.classic is None
            and group.classic_count == len(group.members) - 1
            and self._policy.allows_downgrade
            and len(group.members) <= self._protocol.shard.settings.classic.size_max
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        result: Result[object],
        *,
        rebalance: bool,
        leaving: Iterable[ConsumerMember] = (),
        joining: ConsumerMember | None = None,
    ) -> None:
        """Downgrade to a classic group, whose members have the target assignment."""
        image = self._protocol.shard.image
        replaced = group.static_member(joining.instance_id) if joining is not None else None
        gone = {member.id for member in leaving}
        stays: list[tuple[ConsumerMember, str]] = []  # and the id of the member whose target it has
        written = []
        for member in group.members.values():
            if joining is not None and replaced is not None and member.id == replaced.id:
                # Earlier records of this result have replaced the static member already.
                written.append(joining.id)
            else:
                written.append(member.id)
                if member.id not in gone:
                    stays.append((member, member.id))
        if joining is not None and replaced is not None:
            stays.append((joining, replaced.id))
        result.records += records.no_group(group.id, written, group.resolved)
        for member, _owner in stays:
            self._protocol.timers.stop(group.id, member.id, result)
        classic = ClassicGroup.of_consumers(
            group.id,
            generation=group.epoch,
            members=[_classic_member(member) for member, _owner in stays],
            now_ms=self._protocol.shard.clock.now_ms(),
        )
        for member, owner in stays:
            as_classic = classic.members[member.id]
            metadata = as_classic.metadata(classic.protocol_name)
            as_classic.assignment = write_assignment(group.target.get(owner, NOTHING), metadata, image)
        earlier = result.on_failed
        self._protocol.shard.classic.adopt(classic, result, rebalance=rebalance)
        if earlier is not None:
            when_refused(result, partial(earlier, errors.UnknownServerError()))

    # Classic members

    def join(
        self, request: JoinGroupRequest, caller: Caller, pending: PendingResponse
    ) -> Result[JoinGroupResponse]:
        """A classic member joins or rejoins. Its response does not wait for others."""
        try:
            return self._join(request, caller)
        except errors.KafkaError as error:
            return Result(join_refused(error.code, "", caller.version))

    def _join(self, request: JoinGroupRequest, caller: Caller) -> Result[JoinGroupResponse]:
        group = self._group(request.group_id)
        if self._policy is MigrationPolicy.DISABLED:
            raise errors.InconsistentGroupProtocol(
                f"Cannot join the consumer group {group.id} with the classic protocol because the group "
                "migration is disabled."
            )
        instance_id = request.group_instance_id
        member_id = request.member_id or self._protocol.new_member_id()
        self._protocol.check_room(group, member_id)
        names = [protocol.name for protocol in request.protocols]
        if not names or not group.supports_protocols(request.protocol_type, names):
            raise errors.InconsistentGroupProtocol(f"Member {member_id}'s protocols are not supported.")
        if not request.member_id and instance_id is None and caller.version >= _ID_REQUIRED_FROM:
            return Result(join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id, caller.version))
        result: Result[JoinGroupResponse] = Result()
        member = self._member(group, request, member_id, result)
        replaced = group.static_member(instance_id)
        is_downgrade = self._can_downgrade_replacing(group, replaced)
        try:
            subscription = read_subscription(request.protocols[0].metadata)
        except errors.MalformedMessage as error:
            raise errors.InconsistentGroupProtocol("Malformed embedded consumer protocol.") from error
        updated = self._updated(member, request, caller, subscription)
        member = self._reconciled(group, member, updated, subscription, is_downgrade, result)
        result.response = JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            member_id=member.id,
        )
        timers = self._protocol.timers
        timers.stop_join(group.id, member.id, result)
        if not is_downgrade:
            timers.start_session(group.id, member.id, request.session_timeout_ms, result)
            timers.start_sync(group.id, member.id, request.rebalance_timeout_ms, result)
        return result

    def _member(
        self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, result: Result[object]
    ) -> ConsumerMember:
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not request.member_id:
            return self._protocol.join_static(group, member_id, instance_id, result, is_classic=True)
        return known_static(group, member_id, instance_id)

    def _updated(
        self,
        member: ConsumerMember,
        request: JoinGroupRequest,
        caller: Caller,
        subscription: ConsumerProtocolSubscription,
    ) -> ConsumerMember:
        protocols = [(protocol.name, protocol.metadata) for protocol in request.protocols]
        timeout_ms = request.rebalance_timeout_ms
        updated = member.changed(
            instance_id=request.group_instance_id or member.instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            topic_names=frozenset(subscription.topics),
            topic_regex="",
            client_id=caller.client_id,
            client_host=caller.client_host,
            classic=_classic_metadata(request.session_timeout_ms, protocols),
        )
        return member if updated == member else updated

    def _reconciled(
        self,
        group: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        subscription: ConsumerProtocolSubscription,
        is_downgrade: bool,
        result: Result[object],
    ) -> ConsumerMember:
        """The steps of a heartbeat; a group that is downgraded needs no target."""
        protocol = self._protocol
        now_ms = protocol.shard.clock.now_ms()
        if updated is not member:
            result.records.append(records.subscription(group.id, updated))
        regex_changed, _ = protocol.regexes.update(group, member, updated, now_ms, result)
        has_changed = updated.topic_names != member.topic_names or regex_changed
        epoch, subscriptions = protocol.update_epoch(group, member, updated, has_changed, now_ms, result)
        owned = self._owned(subscription)
        if not is_downgrade:
            target_epoch, target, _ = protocol.assigning.update(
                group, epoch, member, updated, subscriptions, None, result
            )
            return protocol.reconcile(group, updated, target_epoch, target, has_changed, owned, result)
        rebalance = group.target_epoch < epoch
        if not rebalance:
            updated = protocol.reconcile(
                group, updated, group.target_epoch, group.target_of(updated), has_changed, owned, result
            )
        self.downgrade(group, result, rebalance=rebalance, joining=updated)
        return updated

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Owned:
        topics = self._protocol.shard.image.topics_by_name
        return [
            ConsumerGroupHeartbeatRequest.TopicPartitions(
                topic_id=topics[listed.topic].id, partitions=listed.partitions
            )
            for listed in subscription.owned_partitions
            if listed.topic in topics
        ]

    def sync(
        self, request: SyncGroupRequest, caller: Caller, pending: PendingResponse
    ) -> Result[SyncGroupResponse]:
        """A classic member requests the assignment of its last JoinGroup."""
        try:
            return self._sync(request)
        except errors.KafkaError as error:
            return Result(SyncGroupResponse(error_code=error.code))

    def _sync(self, request: SyncGroupRequest) -> Result[SyncGroupResponse]:
        group = self._group(request.group_id)
        member, classic = _classic_of(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        name = classic.supported_protocols[0].name
        if request.protocol_type is not None and request.protocol_type != PROTOCOL_TYPE:
            raise errors.InconsistentGroupProtocol
        if request.protocol_name is not None and request.protocol_name != name:
            raise errors.InconsistentGroupProtocol
        timers = self._protocol.timers
        if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            # While it revokes partitions it has rejoined already; a later heartbeat makes it rejoin again.
            again = Result(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
            timers.start_join(group.id, member.id, member.rebalance_timeout_ms, again)
            return again
        metadata = classic.supported_protocols[0].metadata
        result = Result(
            SyncGroupResponse(
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignment=write_assignment(member.assigned, metadata, self._protocol.shard.image),
            )
        )
        timers.stop_sync(group.id, member.id, result)
        timers.start_session(group.id, member.id, classic.session_timeout_ms, result)
        return result

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Result[HeartbeatResponse]:
        """A heartbeat of a classic member. REBALANCE_IN_PROGRESS: it has a step to take."""
        group = self._group(request.group_id)
        member, classic = _classic_of(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        response = HeartbeatResponse()
        result = Result(response)
        timers = self._protocol.timers
        timers.start_session(group.id, member.id, classic.session_timeout_ms, result)
        target_epoch = group.target_epoch
        if group.classic_count == len(group.members):
            target_epoch = self._look_after(group, member, result)
        if (
            member.epoch < target_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not group.is_waiting_for_partitions(member)
            )
        ):
            response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
            timers.start_join(group.id, member.id, member.rebalance_timeout_ms, result)
        return result

    def _look_after(self, group: ConsumerGroup, member: ConsumerMember, result: Result[object]) -> int:
        """Update the target assignment, which otherwise only heartbeats of the consumer protocol do: its
        epoch.

        Without it a group of classic members that may not be downgraded would never get a new assignment.
        """
        protocol = self._protocol
        now_ms = protocol.shard.clock.now_ms()
        epoch, subscriptions = protocol.update_epoch(group, member, member, False, now_ms, result)
        return protocol.assigning.update(group, epoch, member, member, subscriptions, None, result)[0]

    def leave(self, request: LeaveGroupRequest, caller: Caller) -> Result[LeaveGroupResponse]:
        """Members of either protocol leave, or are removed by their instance id."""
        group = self._group(request.group_id)
        response = LeaveGroupResponse()
        leaving: dict[str, ConsumerMember] = {}
        for identity in request.members:
            answer = LeaveGroupResponse.MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id
            )
            response.members.append(answer)
            try:
                member = self._leaving(group, identity)
            except errors.KafkaError as error:
                answer.error_code = error.code
            else:
                leaving[member.id] = member
        result: Result[LeaveGroupResponse] = Result(response)
        self._protocol.fence(group, leaving.values(), result)
        return result

    def _leaving(self, group: ConsumerGroup, identity: LeaveGroupRequest.MemberIdentity) -> ConsumerMember:
        if identity.group_instance_id is None:
            return group.member(identity.member_id)
        member = group.static_member(identity.group_instance_id)
        if member is None:
            raise errors.UnknownMemberId
        if identity.member_id and identity.member_id != member.id:
            raise errors.FencedInstanceId
        return member

    def _group(self, group_id: str) -> ConsumerGroup:
        group = self._protocol.group(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        return group


def _classic_metadata(session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]) -> ClassicMetadata:
    return ClassicMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[_Protocol(name=name, metadata=bytes(metadata)) for name, metadata in protocols],
    )


def _classic_member(member: ConsumerMember) -> ClassicMember:
    classic = member.classic
    if classic is None:
        raise ValueError(f"Member {member.id} does not speak the classic protocol.")
    return ClassicMember(
        member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
    )


def _classic_of(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMetadata]:
    """The member with these ids, and its classic protocols."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        static = group.static_member(instance_id)
        if static is None:
            raise errors.UnknownMemberId(
                f"Member with instance id {instance_id} is not a member of group {group.id}."
            )
        if static.id != member_id:
            raise errors.FencedInstanceId
        member = static
    if member.classic is None:
        raise errors.UnknownMemberId(f"Member {member.id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if member.epoch != generation:
        raise errors.IllegalGeneration(
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} of "
            f"member {member.id}."
        )


def _records(group: ConsumerGroup) -> list[Any]:
    """The records of a whole group."""
    members = group.members.values()
    return [
        *(records.subscription(group.id, member) for member in members),
        records.group_epoch(group.id, group.epoch, group.metadata_hash),
        *(records.target(group.id, member.id, group.target[member.id]) for member in members),
        records.target_epoch(group.id, group.target_epoch, group.target_timestamp_ms),
        *(records.assignment(group.id, member) for member in members),
    ]
