"""The classic group protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup as decisions.

State that is in a record (the members of a generation, and their assignments) changes by replay of that
record. State that is never written (which members have joined so far, which requests are held) a decision
changes itself, and rolls back if the log rejects its record. A consumer group can have classic members: their
requests go to `consumer`. `rebalance.py` decides how a group rebalances.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.classic.member import ClassicMember, HeldJoin, Protocols, protocols_of
from ottla.coordinator.groups.classic.rebalance import NEW_MEMBER_TIMEOUT_MS, Home, Rebalances, timer_keys
from ottla.coordinator.groups.classic.responses import join_refused, joined, sync_refused, synced
from ottla.coordinator.groups.group import GroupType
from ottla.coordinator.result import HELD, Caller, Held, Result, StartTimer, StopTimer
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import ErrorCode, IllegalGeneration, KafkaError, UnknownMemberId
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.ports import Random
    from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue

_ID_REQUIRED_FROM = 4  # versions of JoinGroup
_SKIP_ASSIGNMENT_FROM = 9

MEMBER_NAME_LETTERS_MAX = 8000
"""Limit of the client id or instance id in a member id: at four bytes each, the id must fit into a string."""


class ConsumerSide(Protocol):
    """Requests of classic members of consumer groups: see `migration.py`."""

    def classic_join(
        self, request: JoinGroupRequest, caller: Caller, pending: PendingResponse
    ) -> Result[JoinGroupResponse]: ...

    def classic_sync(
        self, request: SyncGroupRequest, caller: Caller, pending: PendingResponse
    ) -> Result[SyncGroupResponse]: ...

    def classic_heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Result[HeartbeatResponse]: ...

    def classic_leave(self, request: LeaveGroupRequest, caller: Caller) -> Result[LeaveGroupResponse]: ...


class ClassicHome(Home, Protocol):
    """The shard."""

    @property
    def random(self) -> Random: ...

    @property
    def consumer(self) -> ConsumerSide: ...


class ClassicProtocol:
    """See the module."""

    def __init__(self, shard: ClassicHome) -> None:
        self._home = shard
        self._rebalances = Rebalances(shard)

    # JoinGroup

    def join(
        self, request: JoinGroupRequest, caller: Caller, pending: PendingResponse
    ) -> Result[JoinGroupResponse]:
        """A member joins or rejoins. Its response is held until the generation begins."""
        group = self._home.groups.get(request.group_id)
        if isinstance(group, ClassicGroup):
            return self._join(group, request, caller, pending)
        if group is not None and group.type is not GroupType.CONSUMER:
            return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", caller)
        if group is not None and not group.is_empty:
            return self._home.consumer.classic_join(request, caller, pending)
        if request.member_id:
            return _refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, caller)
        new_group = ClassicGroup.new(request.group_id, self._home.clock.now_ms())
        result = self._join(new_group, request, caller, pending)
        if group is not None:  # it replaces an empty consumer group
            result.records += group.tombstones()
        result.records.append(new_group.initial_record())
        self._expect(new_group, result)
        return result

    def _join(
        self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, pending: PendingResponse
    ) -> Result[JoinGroupResponse]:
        member_id = request.member_id
        protocols = protocols_of(request)
        if not self._has_room(group, member_id):
            result = _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "", caller)
            self._rebalances.let_pending_go(group, member_id, result)
            return result
        if not group.supports(request.protocol_type, protocols):
            return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id, caller)
        if member_id:
            return self._join_known(group, request, protocols, caller, pending)
        instance_id = request.group_instance_id
        new_id = self._new_member_id(caller.client_id if instance_id is None else instance_id)
        if instance_id is not None and instance_id in group.static_ids:
            return self._join_again_static(group, request, protocols, new_id, caller, pending)
        if instance_id is None and caller.version >= _ID_REQUIRED_FROM:
            group.pending_join.add(new_id)
            result = _refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id, caller)
            result.timers.append(self._rebalances.session_timer(group.id, new_id, request.session_timeout_ms))
            return result
        return self._join_new(group, request, protocols, new_id, caller, pending)

    def rejoin(
        self,
        group_id: str,
        member_id: str,
        protocol_type: str,
        protocols: Protocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        version: int,
        pending: PendingResponse,
    ) -> bool:
        """`join` of a known dynamic member with the same protocols, while the group waits for others too.

        False: this is another case, and nothing has happened.
        """
        group = self._home.groups.get(group_id)
        if type(group) is not ClassicGroup or group.state is not ClassicState.PREPARING:
            return False
        member = group.members.get(member_id)
        joined_count = group.joined_count
        if (
            member is None
            or member.join is not None
            or member.protocols != protocols
            or member_id in group.pending_join
            or joined_count + 1 >= len(group.members)
            or joined_count >= self._home.settings.classic.size_max
            or not group.supports(protocol_type, protocols)
        ):
            return False
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        group.hold_join(member, HeldJoin(pending, version))
        return True

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """While the group prepares, only joined members count: it may exceed a limit that was lowered."""
        size_max = self._home.settings.classic.size_max
        if group.is_empty:
            return True
        member = group.members.get(member_id)
        if group.state is ClassicState.PREPARING:
            return (member is not None and member.join is not None) or group.joined_count < size_max
        return member is not None or len(group.members) < size_max

    def _new_member_id(self, prefix: str) -> str:
        name = prefix[:MEMBER_NAME_LETTERS_MAX]
        return f"{name}-{UUID(bytes=self._home.random.bytes(16), version=4)}"

    def _join_new(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        protocols: Protocols,
        member_id: str,
        caller: Caller,
        pending: PendingResponse,
    ) -> Result[JoinGroupResponse]:
        member = ClassicMember(
            member_id,
            instance_id=request.group_instance_id,
            client_id=caller.client_id,
            client_host=caller.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols,
        )
        member.is_new = True
        member.join = HeldJoin(pending, caller.version)
        if group.state is ClassicState.PREPARING and group.previous_state is ClassicState.EMPTY:
            group.has_new_member = True
        group.add(member, request.protocol_type)
        result: Result[JoinGroupResponse] = Result(HELD)
        result.timers.append(self._rebalances.session_timer(group.id, member_id, NEW_MEMBER_TIMEOUT_MS))
        self._rebalances.prepare_or_complete(group, result)
        return result

    def _join_known(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        protocols: Protocols,
        caller: Caller,
        pending: PendingResponse,
    ) -> Result[JoinGroupResponse]:
        member_id = request.member_id
        if member_id in group.pending_join and request.group_instance_id is None:
            return self._join_new(group, request, protocols, member_id, caller, pending)
        try:
            member = group.check_member(member_id, request.group_instance_id)
        except KafkaError as error:
            return _refuse(error.code, member_id, caller)
        is_leader = group.is_leader(member_id)
        has_changed = member.protocols != protocols
        if group.state is ClassicState.COMPLETING and not has_changed:  # its response may be lost
            return Result(joined(group, member_id, caller.version, with_members=is_leader))
        if group.state is ClassicState.STABLE and not has_changed and not is_leader:
            return Result(joined(group, member_id, caller.version))
        # A leader of a stable group that rejoins requests a new assignment.
        if has_changed:
            group.set_protocols(member, protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        result: Result[JoinGroupResponse] = Result(HELD)
        self._hold_join(group, member, caller, pending, result)
        self._rebalances.prepare_or_complete(group, result)
        return result

    def _hold_join(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        caller: Caller,
        pending: PendingResponse,
        result: Result[object],
    ) -> None:
        """Only the last JoinGroup of a member waits: a client that retries has given up the earlier one."""
        if member.join is not None:
            self._rebalances.answer_join(group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.id, result)
        group.hold_join(member, HeldJoin(pending, caller.version))

    def _join_again_static(
        self,
        group: ClassicGroup,
        request: JoinGroupRequest,
        protocols: Protocols,
        new_id: str,
        caller: Caller,
        pending: PendingResponse,
    ) -> Result[JoinGroupResponse]:
        """A static member restarted: it replaces its earlier member id, which is fenced."""
        old = group.members[group.static_ids[request.group_instance_id or ""]]
        new = ClassicMember(
            new_id,
            instance_id=old.instance_id,
            client_id=old.client_id,
            client_host=old.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols,
            assignment=old.assignment,
        )
        result: Result[JoinGroupResponse] = Result(HELD)
        leader_id = group.leader_id
        self._rebalances.answer_join(group, old, ErrorCode.FENCED_INSTANCE_ID, old.id, result)
        self._rebalances.answer_sync(old, ErrorCode.FENCED_INSTANCE_ID, result)
        group.replace(old, new)
        self._rebalances.stop_session(group, old, result)
        self._rebalances.start_session(group, new, result)
        if group.state is ClassicState.STABLE and group.select_protocol() == group.protocol_name:
            self._keep_generation(group, old, new, result)
            result.response = _rejoined(group, new.id, leader_id, caller.version)
            return result
        self._hold_join(group, new, caller, pending, result)
        self._rebalances.prepare_or_complete(group, result)
        return result

    def _keep_generation(
        self, group: ClassicGroup, old: ClassicMember, new: ClassicMember, result: Result[object]
    ) -> None:
        """Nothing changes for other members, so there is no rebalance: only the new id is written."""
        group.update_subscribed_topics()
        result.records.append(group.current_record())
        self._expect(group, result)

        def take_back(_error: KafkaError) -> Result[None]:
            self._forget(group)
            group.replace(new, old)
            group.update_subscribed_topics()
            return Result()

        result.on_failed = take_back

    # SyncGroup

    def sync(
        self, request: SyncGroupRequest, caller: Caller, pending: PendingResponse
    ) -> Result[SyncGroupResponse]:
        """A member requests its assignment; the leader provides those of all members."""
        group = self._home.groups.get(request.group_id)
        if group is None or group.is_empty:
            return Result(sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        if not isinstance(group, ClassicGroup):
            if group.type is GroupType.CONSUMER:
                return self._home.consumer.classic_sync(request, caller, pending)
            return Result(sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
        try:
            member = group.check_member(request.member_id, request.group_instance_id)
        except KafkaError as error:
            return Result(sync_refused(error.code))
        if request.generation_id != group.generation:
            return Result(sync_refused(ErrorCode.ILLEGAL_GENERATION))
        if _differs(request.protocol_type, group.protocol_type or None) or _differs(
            request.protocol_name, group.protocol_name
        ):
            return Result(sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if group.state is ClassicState.PREPARING:
            return Result(sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
        result: Result[SyncGroupResponse] = Result()
        self._rebalances.sync_arrived(group, member.id, result)
        if group.state is ClassicState.STABLE:
            result.response = synced(group, member.assignment)
            return result
        self._rebalances.answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, result)  # an earlier one
        if group.is_leader(member.id):
            self._assign(group, member, request.assignments, result)
        else:
            member.sync = pending
            result.response = HELD
        return result

    def sync_plainly(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        protocol: tuple[str, str] | None,
        pending: PendingResponse,
    ) -> bytes | Held | None:
        """`sync` of a dynamic member that is not the leader, and not the last one: its assignment, or HELD.

        None: this is another case, and nothing has happened.
        """
        group = self._home.groups.get(group_id)
        if type(group) is not ClassicGroup or group.generation != generation:
            return None
        member = group.members.get(member_id)
        if (
            member is None
            or len(group.pending_sync) < 2
            or (protocol is not None and protocol != (group.protocol_type, group.protocol_name))
        ):
            return None
        if group.state is ClassicState.STABLE:
            group.pending_sync.discard(member_id)
            return member.assignment
        if group.state is ClassicState.COMPLETING and member.sync is None and group.leader_id != member_id:
            group.pending_sync.discard(member_id)
            member.sync = pending
            return HELD
        return None

    def _assign(
        self,
        group: ClassicGroup,
        leader: ClassicMember,
        assignments: Iterable[SyncGroupRequest.SyncGroupRequestAssignment],
        result: Result[SyncGroupResponse],
    ) -> None:
        """Write the leader's assignments; replay of the record makes the group stable.

        A member that the leader omitted gets an empty assignment, and an unknown member is ignored.
        """
        given = {assignment.member_id: assignment.assignment for assignment in assignments}
        by_member = {member_id: given.get(member_id, b"") for member_id in group.members}
        result.records.append(group.record(by_member))
        self._expect(group, result)
        result.on_failed = partial(self._assignment_not_written, group, result)
        result.response = synced(group, by_member[leader.id])
        self._rebalances.start_session(group, leader, result)
        for member in group.members.values():
            if member.sync is not None:
                result.late_responses.append((member.sync, synced(group, by_member[member.id])))
                member.sync = None
                self._rebalances.start_session(group, member, result)

    def _assignment_not_written(
        self, group: ClassicGroup, failed: Result[object], _error: KafkaError
    ) -> Result[None]:
        """The assignment could not be written: held SyncGroups fail, and all members rejoin."""
        self._forget(group)
        result: Result[None] = Result(timers=failed.timers)
        self._rebalances.prepare(group, result)
        return result

    # Heartbeat

    def heartbeat(self, request: HeartbeatRequest, caller: Caller) -> Result[HeartbeatResponse]:
        """A heartbeat of a member. The error says when it must rejoin."""
        group = self._home.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            if group is not None and group.type is GroupType.CONSUMER:
                return self._home.consumer.classic_heartbeat(request, caller)
            raise UnknownMemberId(f"Group {request.group_id} not found.")
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGeneration
        response = HeartbeatResponse()
        if group.state is ClassicState.PREPARING:
            response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
        result = Result(response)
        self._rebalances.start_session(group, member, result)
        return result

    # LeaveGroup

    def leave(self, request: LeaveGroupRequest, caller: Caller) -> Result[LeaveGroupResponse]:
        """Members leave, or are removed by their instance id. The request has the form of version 3."""
        group = self._home.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup):
            if group is not None and group.type is GroupType.CONSUMER:
                return self._home.consumer.classic_leave(request, caller)
            raise UnknownMemberId(f"Group {request.group_id} not found.")
        response = LeaveGroupResponse()
        result = Result(response)
        has_anyone_left = False
        for identity in request.members:
            code = self._leave(group, identity, result)
            has_anyone_left = has_anyone_left or code == ErrorCode.NONE
            response.members.append(
                LeaveGroupResponse.MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=code,
                )
            )
        if has_anyone_left and not group.is_empty:
            self._rebalances.prepare_or_complete(group, result)
        return result

    def _leave(
        self, group: ClassicGroup, identity: LeaveGroupRequest.MemberIdentity, result: Result[object]
    ) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if not member_id and instance_id is not None:
            member_id = group.static_ids.get(instance_id, "")
        elif member_id in group.pending_join:
            self._rebalances.let_pending_go(group, member_id, result)
            return ErrorCode.NONE
        try:
            member = group.check_member(member_id, instance_id)
        except KafkaError as error:
            return error.code
        self._rebalances.let_go(group, member, result)
        return ErrorCode.NONE

    # Replay and load

    def _expect(self, group: ClassicGroup, result: Result[object]) -> None:
        """The result has the record of this group's state: replay uses the group object as it is."""
        self._rebalances.due[group.id] = group
        result.on_failed = lambda _error: self._forget(group)

    def _forget(self, group: ClassicGroup) -> Result[None]:
        self._rebalances.due.pop(group.id, None)
        return Result()

    def replay_group(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Replay the record of a group: of a decision of this node, or from the log."""
        groups = self._home.groups
        due = self._rebalances.due.pop(key.group, None)
        if value is None:
            gone = groups.pop(key.group, None)
            if isinstance(gone, ClassicGroup):
                gone.move_to(ClassicState.DEAD, self._home.clock.now_ms())
        elif due is not None:
            groups[key.group] = due
            due.replay_assignments(value, self._home.clock.now_ms())
        else:
            groups[key.group] = ClassicGroup.of_value(key.group, value)

    def on_loaded(self) -> Result[None]:
        """All members get a full session timeout. A group above a lowered limit rebalances."""
        result: Result[None] = Result()
        size_max = self._home.settings.classic.size_max
        for group in self._groups():
            self.start_sessions(group, result)
            if len(group.members) > size_max:
                self._rebalances.prepare(group, result)
        return result

    def pending_responses(self) -> list[PendingResponse]:
        """All held requests."""
        pending = []
        for group in self._groups():
            for member in group.members.values():
                if member.join is not None:
                    pending.append(member.join.pending)
                if member.sync is not None:
                    pending.append(member.sync)
        return pending

    def _groups(self) -> list[ClassicGroup]:
        return [group for group in self._home.groups.values() if isinstance(group, ClassicGroup)]

    # For the consumer protocol, and the deletion of groups

    def session_of(self, group: ClassicGroup, member_id: str) -> StartTimer:
        """The timer to restart when the member has sent another request than a heartbeat."""
        return self._rebalances.session_of(group, group.members[member_id])

    def start_sessions(self, group: ClassicGroup, result: Result[object]) -> None:
        for member in group.members.values():
            self._rebalances.start_session(group, member, result)

    def adopt(self, group: ClassicGroup, result: Result[object], *, rebalance: bool) -> None:
        """A consumer group was downgraded to this one: write its record, start the sessions of its members.

        The result has the tombstones already. If its records are rejected, nothing changes.
        """
        result.records.append(group.current_record())
        self._expect(group, result)
        self.start_sessions(group, result)
        if rebalance:
            self._rebalances.prepare(group, result)

    def release(self, group: ClassicGroup, result: Result[object]) -> None:
        """The group is upgraded to the consumer protocol: members with held requests must rejoin."""
        self._rebalances.release(group, ErrorCode.REBALANCE_IN_PROGRESS, result)

    def stop_timers(self, group: ClassicGroup, result: Result[object]) -> None:
        """The group is deleted."""
        result.timers += [StopTimer(key) for key in timer_keys(group)]


def _refuse(code: ErrorCode, member_id: str, caller: Caller) -> Result[JoinGroupResponse]:
    return Result(join_refused(code, member_id, caller.version))


def _rejoined(group: ClassicGroup, member_id: str, leader_id: str | None, version: int) -> JoinGroupResponse:
    """A static member rejoined a generation that continues.

    A leader is not to assign: from version 9 on a field says so; before, the response names another leader.
    """
    if version >= _SKIP_ASSIGNMENT_FROM:
        is_leader = group.is_leader(member_id)
        return joined(group, member_id, version, with_members=is_leader, skip_assignment=is_leader)
    return joined(group, member_id, version, leader_id=leader_id)


def _differs(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known
