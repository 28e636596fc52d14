"""The rebalance of a classic group: members join, a generation begins, and absent members are removed.

Every method reads one group and adds to a `Result`: responses to held requests, timers, and the record of a
group that has become empty. Rule: a held JoinGroup or SyncGroup gets exactly one response. A timer looks its
group and member up by id: they may have been removed or replaced.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.classic.responses import FollowerResponses, join_refused, joined, sync_refused
from ottla.coordinator.result import Result, StartTimer, StopTimer
from ottla.wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ottla.coordinator.groups.classic.member import ClassicMember
    from ottla.coordinator.groups.group import Group
    from ottla.coordinator.groups.settings import GroupSettings
    from ottla.ports import Clock

AGAIN_MS_MIN = 1000
"""How long a rebalance without joined members waits for its next check, whatever their timeouts."""
NEW_MEMBER_TIMEOUT_MS = 5 * 60_000
"""A new member sends no heartbeats while its JoinGroup is held: after this time it is removed."""


class Home(Protocol):
    """What the classic protocol needs of its shard."""

    settings: GroupSettings

    @property
    def groups(self) -> dict[str, Group]: ...

    @property
    def clock(self) -> Clock: ...


class Rebalances:
    """See the module. `due` has the groups whose own record is about to be replayed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.due: dict[str, ClassicGroup] = {}

    def group(self, group_id: str) -> ClassicGroup | None:
        group = self._home.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # Sessions

    def start_session(self, group: ClassicGroup, member: ClassicMember, result: Result[object]) -> None:
        """The member is alive: its next request is due within its session timeout."""
        result.timers.append(self.session_of(group, member))

    def session_of(self, group: ClassicGroup, member: ClassicMember) -> StartTimer:
        timer = member.session_timer
        if timer is None or timer.delay_ms != member.session_timeout_ms:
            timer = member.session_timer = self.session_timer(group.id, member.id, member.session_timeout_ms)
        return timer

    def session_timer(self, group_id: str, member_id: str, delay_ms: int) -> StartTimer:
        decision = partial(self._session_expired, group_id, member_id)
        return StartTimer(_session_key(group_id, member_id), delay_ms, decision)

    def _session_expired(self, group_id: str, member_id: str) -> Result[None]:
        result: Result[None] = Result()
        group = self.group(group_id)
        if group is None:
            return result
        if member_id in group.pending_join:
            group.remove(member_id)
            if group.state is ClassicState.PREPARING and group.has_everyone_joined:
                self.complete_join(group, result)
            return result
        member = group.members.get(member_id)
        if member is None or member.is_alive:
            return result
        self.let_go(group, member, result)
        if group.state in (ClassicState.STABLE, ClassicState.COMPLETING):
            self.prepare(group, result)
        elif group.state is ClassicState.PREPARING and group.has_everyone_joined:
            self.complete_join(group, result)
        return result

    def let_go(self, group: ClassicGroup, member: ClassicMember, result: Result[object]) -> None:
        """Remove a member. A request of it that is held fails, so that it rejoins."""
        self.answer_join(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", result)
        self.answer_sync(member, ErrorCode.UNKNOWN_MEMBER_ID, result)
        group.remove(member.id)
        self.stop_session(group, member, result)

    def stop_session(self, group: ClassicGroup, member: ClassicMember, result: Result[object]) -> None:
        result.timers.append(StopTimer(_session_key(group.id, member.id)))

    def let_pending_go(self, group: ClassicGroup, member_id: str, result: Result[object]) -> None:
        """Remove an id that no member has used."""
        group.remove(member_id)
        result.timers.append(StopTimer(_session_key(group.id, member_id)))

    # Held requests

    def answer_join(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        code: ErrorCode,
        member_id: str,
        result: Result[object],
    ) -> None:
        """Fail a held JoinGroup."""
        held = group.hold_join(member, None)
        if held is not None:
            result.late_responses.append((held.pending, join_refused(code, member_id, held.version)))

    def answer_sync(self, member: ClassicMember, code: ErrorCode, result: Result[object]) -> bool:
        """Fail a held SyncGroup."""
        if member.sync is None:
            return False
        result.late_responses.append((member.sync, sync_refused(code)))
        member.sync = None
        return True

    # Joining

    def prepare_or_complete(self, group: ClassicGroup, result: Result[object]) -> None:
        """The members have changed: all must rejoin, or the last one just did."""
        if group.state is ClassicState.PREPARING:
            self.complete_if_all_joined(group, result)
        else:
            self.prepare(group, result)

    def prepare(self, group: ClassicGroup, result: Result[object]) -> None:
        """Make all members rejoin. The first generation is delayed, so that more members can join."""
        if group.state is ClassicState.COMPLETING:
            for member in group.members.values():
                member.assignment = b""
                if self.answer_sync(member, ErrorCode.REBALANCE_IN_PROGRESS, result):
                    self.start_session(group, member, result)
        group.pending_sync.clear()
        result.timers.append(StopTimer(_sync_key(group.id)))
        is_first = group.is_empty
        group.move_to(ClassicState.PREPARING, self._home.clock.now_ms())
        if is_first:
            delay_ms = self._home.settings.classic.initial_rebalance_delay_ms
            self._delay(group.id, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), result)
        elif group.has_everyone_joined:
            self.complete_join(group, result)
        else:
            self._await_joins(group, result)

    def _await_joins(self, group: ClassicGroup, result: Result[object], *, wait_ms_min: int = 0) -> None:
        decision = partial(self._join_expired, group.id)
        wait_ms = max(group.rebalance_timeout_ms, wait_ms_min)
        result.timers.append(StartTimer(_join_key(group.id), wait_ms, decision))

    def _join_expired(self, group_id: str) -> Result[None]:
        result: Result[None] = Result()
        group = self.group(group_id)
        if group is not None and group.state is ClassicState.PREPARING:
            self.complete_join(group, result)
        return result

    def _delay(self, group_id: str, delay_ms: int, remaining_ms: int, result: Result[object]) -> None:
        decision = partial(self._delay_over, group_id, delay_ms, remaining_ms)
        result.timers.append(StartTimer(_join_key(group_id), delay_ms, decision))

    def _delay_over(self, group_id: str, delay_ms: int, remaining_ms: int) -> Result[None]:
        """Wait on if a member joined meanwhile, for at most the rebalance timeout."""
        result: Result[None] = Result()
        group = self.group(group_id)
        if group is None or group.state is not ClassicState.PREPARING:
            return result
        if group.has_new_member and remaining_ms:
            group.has_new_member = False
            next_ms = min(self._home.settings.classic.initial_rebalance_delay_ms, remaining_ms)
            self._delay(group_id, next_ms, max(remaining_ms - delay_ms, 0), result)
        else:
            self.complete_join(group, result)
        return result

    def complete_if_all_joined(self, group: ClassicGroup, result: Result[object]) -> None:
        """Begin the generation if all members have joined; the first one begins after its delay."""
        if (
            group.state is ClassicState.PREPARING
            and group.previous_state is not ClassicState.EMPTY
            and group.has_everyone_joined
        ):
            self.complete_join(group, result)

    def complete_join(self, group: ClassicGroup, result: Result[object]) -> None:
        """Begin a generation of the joined members. Static members may be absent; others are removed."""
        result.timers.append(StopTimer(_join_key(group.id)))
        if len(group.members) != group.joined_count:
            for member in list(group.members.values()):
                if member.join is None and member.instance_id is None:
                    self.let_go(group, member, result)
        if group.members and not group.elect_joined_leader():
            # Until the sessions of the static members end, or one rejoins. A timeout of 0 would loop.
            self._await_joins(group, result, wait_ms_min=AGAIN_MS_MIN)
            return
        group.begin_generation(self._home.clock.now_ms())
        if group.is_empty:
            self._write_empty(group, result)
            return
        followers: dict[int, FollowerResponses] = {}
        for member in group.members.values():
            held = group.hold_join(member, None)
            if held is not None:
                version = held.version
                if group.leader_id == member.id:
                    answer = joined(group, member.id, version, with_members=True)
                else:
                    if version not in followers:
                        followers[version] = FollowerResponses(group, version)
                    answer = followers[version].of(member.id)
                result.late_responses.append((held.pending, answer))
            self.start_session(group, member, result)
            member.is_new = False
        group.pending_sync.update(group.members)
        decision = partial(self._sync_expired, group.id, group.generation)
        result.timers.append(StartTimer(_sync_key(group.id), group.rebalance_timeout_ms, decision))

    def _write_empty(self, group: ClassicGroup, result: Result[object]) -> None:
        """If the log rejects the record, the group is empty nevertheless.

        A restart then restores its last generation, which ends when no member sends heartbeats.
        """
        result.records.append(group.record({}))
        self.due[group.id] = group
        result.on_failed = partial(self._empty_not_written, group, result)

    def _empty_not_written(
        self, group: ClassicGroup, failed: Result[object], _error: KafkaError
    ) -> Result[None]:
        self.due.pop(group.id, None)
        return Result(timers=failed.timers)

    # Syncing

    def sync_arrived(self, group: ClassicGroup, member_id: str, result: Result[object]) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            result.timers.append(StopTimer(_sync_key(group.id)))

    def _sync_expired(self, group_id: str, generation: int) -> Result[None]:
        """Remove the members that did not send SyncGroup in time."""
        result: Result[None] = Result()
        group = self.group(group_id)
        if (
            group is None
            or group.generation != generation
            or group.state not in (ClassicState.COMPLETING, ClassicState.STABLE)
            or not group.pending_sync
        ):
            return result
        for member_id in list(group.pending_sync):
            member = group.members.get(member_id)
            if member is not None:
                self.let_go(group, member, result)
        self.prepare(group, result)
        return result

    # For the consumer protocol

    def release(self, group: ClassicGroup, code: ErrorCode, result: Result[object]) -> None:
        """Fail all held requests and stop the timers: the group becomes one of another kind."""
        for member in group.members.values():
            self.answer_join(group, member, code, member.id, result)
            self.answer_sync(member, code, result)
        result.timers += [StopTimer(key) for key in timer_keys(group)]


def timer_keys(group: ClassicGroup) -> list[Hashable]:
    """The timers that may run for a group."""
    keys: list[Hashable] = [_join_key(group.id), _sync_key(group.id)]
    keys += [_session_key(group.id, member_id) for member_id in (*group.members, *group.pending_join)]
    return keys


def _session_key(group_id: str, member_id: str) -> Hashable:
    return ("classic-session", group_id, member_id)


def _join_key(group_id: str) -> Hashable:
    return ("classic-join", group_id)


def _sync_key(group_id: str) -> Hashable:
    return ("classic-sync", group_id)
