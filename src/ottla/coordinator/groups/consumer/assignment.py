"""Computes the target assignment of a group, within the heartbeat that needs it or as a task.

Assignments of a group are at least `group.consumer.assignment.interval.ms` apart, so that one assignment
covers members that join together. A small one is made at once. A large one is a task: the heartbeat that
needs it is held until it is complete (if it can be); other heartbeats get the last target meanwhile.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ottla.coordinator.groups.assignors import ASSIGNORS
from ottla.coordinator.groups.assignors.spec import Assignment, AssignmentFailed, Assignor, MemberAssignment
from ottla.coordinator.groups.consumer import records, target_assignment
from ottla.coordinator.groups.consumer.group import NOTHING, ConsumerGroup, count, most_wanted
from ottla.coordinator.groups.consumer.member import ConsumerMember
from ottla.coordinator.groups.consumer.records import TargetRecord
from ottla.coordinator.groups.consumer.subscriptions import Subscriptions, after_change
from ottla.coordinator.groups.consumer.target_assignment import Snapshot
from ottla.coordinator.groups.consumer.timers import undone, when_refused
from ottla.coordinator.result import Result, Task
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import errors
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.groups.consumer.protocol import ConsumerProtocol

_Outcome = tuple[Assignment, dict[str, TargetRecord]] | AssignmentFailed
"""The assignment and the records of its changes, or why there is none."""


@dataclass(frozen=True, slots=True)
class HeldHeartbeat:
    """A heartbeat that waits for an assignment, and the member before it."""

    pending: PendingResponse
    request: ConsumerGroupHeartbeatRequest
    before: ConsumerMember
    has_subscription_changed: bool


@dataclass(slots=True)
class _Work:
    taken: Snapshot
    member_id: str
    held: HeldHeartbeat | None
    is_void: bool = False  # the group was removed: a new one of the same name is another group


class Assigning:
    """At most one assignment per group is in progress. See the module."""

    def __init__(self, protocol: ConsumerProtocol) -> None:
        self._protocol = protocol
        self._under_way: dict[str, _Work] = {}

    def update(
        self,
        group: ConsumerGroup,
        epoch: int,
        member: ConsumerMember,
        updated: ConsumerMember,
        subscriptions: Subscriptions | None,
        held: HeldHeartbeat | None,
        result: Result[object],
    ) -> tuple[int, MemberAssignment, bool]:
        """(target epoch, the member's target, whether the heartbeat is held for a task)."""
        last = group.target_epoch, group.target_of(updated), False
        if group.target_epoch >= epoch or group.id in self._under_way or not self._is_due(group):
            return last
        assignor = self._assignor(group, member, updated)
        if subscriptions is None:
            subscriptions = after_change(group, member, updated)
        image = self._protocol.shard.image
        taken = target_assignment.snapshot(group, epoch, updated, subscriptions, image)
        if not taken.is_small:
            work = self._under_way[group.id] = _Work(taken, updated.id, held)
            steps = undone(_steps(group.id, taken, assignor), partial(self._under_way.pop, group.id))
            decision = partial(self._made, group.id, work)
            when_refused(result, partial(self._under_way.pop, group.id))
            result.tasks.append(Task(("consumer-assignment", group.id), steps, decision))
            return *last[:2], held is not None
        try:
            outcome = target_assignment.at_once(target_assignment.steps(taken, assignor))
        except AssignmentFailed as error:
            raise errors.UnknownServerError(_failure(epoch, error)) from error
        result.records += [
            records.target(group.id, member_id, assignment)
            for member_id, assignment in target_assignment.changes(taken, outcome).items()
        ]
        self._write_epoch(group, epoch, result)
        return epoch, outcome.get(updated.id, NOTHING), False

    def _is_due(self, group: ConsumerGroup) -> bool:
        interval_ms = self._protocol.settings(group).assignment_interval_ms
        if group.target_timestamp_ms == 0 or interval_ms == 0:
            return True
        return self._protocol.shard.clock.now_ms() >= group.target_timestamp_ms + interval_ms

    def _assignor(self, group: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember) -> Assignor:
        """The assignor that most members request; the first of this node if it does not have that one."""
        allowed = self._protocol.shard.settings.consumer.assignors
        counts = group.assignors
        if member.assignor != updated.assignor:
            counts = dict(counts)
            if member.assignor is not None:
                count(counts, member.assignor, -1)
            if updated.assignor is not None:
                count(counts, updated.assignor, 1)
        name = most_wanted(counts)
        return ASSIGNORS[name if name in ASSIGNORS and name in allowed else allowed[0]]

    def _write_epoch(self, group: ConsumerGroup, epoch: int, result: Result[object]) -> None:
        now_ms = self._protocol.shard.clock.now_ms()
        result.records.append(records.target_epoch(group.id, epoch, now_ms))

    def _made(self, group_id: str, work: _Work, outcome: _Outcome) -> Result[None]:
        """A task is complete: write its assignment, and respond to the heartbeat that waited for it."""
        result: Result[None] = Result()
        if self._under_way.get(group_id) is work:  # not after the log has rejected these records before
            del self._under_way[group_id]
        group = self._protocol.group(group_id)
        if group is None or work.is_void:
            self._refuse(work, errors.GroupIdNotFound(f"Group {group_id} is not a consumer group."), result)
        elif isinstance(outcome, AssignmentFailed):
            self._refuse(work, errors.UnknownServerError(_failure(work.taken.epoch, outcome)), result)
        else:
            target_epoch = group.target_epoch
            assignment, made = outcome
            if work.taken.epoch > group.target_epoch:
                target_epoch = work.taken.epoch
                result.records += target_assignment.still_wanted(group, work.taken, made)
                self._write_epoch(group, target_epoch, result)
            self._answer(group, work, target_epoch, assignment, result)
        return result

    def _answer(
        self,
        group: ConsumerGroup,
        work: _Work,
        target_epoch: int,
        assignment: Assignment,
        result: Result[object],
    ) -> None:
        held = work.held
        if held is None:
            return
        member = group.members.get(work.member_id)
        if member is None:
            self._refuse(
                work,
                errors.UnknownMemberId(f"Member {work.member_id} is not a member of group {group.id}."),
                result,
            )
            return
        if member.epoch != held.before.epoch or member.assigned != held.before.assigned:
            # It did not wait: a later heartbeat got a response.
            response = self._protocol.answer(group, held.before, member, held.request)
            result.late_responses.append((held.pending, response))
            return
        target = group.target_of(member)
        if target_epoch == work.taken.epoch:
            target = assignment.get(member.id, NOTHING)
        try:
            response = self._protocol.finish(
                group,
                held.before,
                member,
                target_epoch,
                target,
                held.has_subscription_changed,
                held.request,
                result,
            )
        except errors.KafkaError as error:
            self._refuse(work, error, result)
        else:
            result.late_responses.append((held.pending, response))

    def _refuse(self, work: _Work, error: errors.KafkaError, result: Result[object]) -> None:
        if work.held is not None:
            response = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            result.late_responses.append((work.held.pending, response))

    def forget(self, group_id: str) -> None:
        """The group was removed. Its task continues only for the response to the held heartbeat."""
        work = self._under_way.get(group_id)
        if work is not None:
            work.is_void = True

    def pending_responses(self) -> list[PendingResponse]:
        return [work.held.pending for work in self._under_way.values() if work.held is not None]


def _steps(group_id: str, taken: Snapshot, assignor: Assignor) -> Generator[None, None, _Outcome]:
    try:
        outcome = yield from target_assignment.steps(taken, assignor)
    except AssignmentFailed as error:
        return error
    yield
    changed = target_assignment.changes(taken, outcome)
    yield
    made = yield from target_assignment.records_of(group_id, changed)
    return outcome, made


def _failure(epoch: int, error: AssignmentFailed) -> str:
    return f"Failed to compute a new target assignment for epoch {epoch}: {error}"
