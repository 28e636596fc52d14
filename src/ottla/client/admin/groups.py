"""Groups of every type: list, describe, delete; remove members.

Rule: a group is described by the API of its own type. Only its coordinator knows the type, so consumer groups
are requested with the newer API first, and with the classic one if that does not find them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ottla.client.admin.engine import Engine, Outcome
from ottla.client.admin.lookups import GROUP, MOVED_COORDINATOR, at_nodes, brokers_of, coordinators
from ottla.client.admin.permissions import AclOperation, operations_of
from ottla.client.admin.results import Listed, Results, failure
from ottla.client.values import TopicPartition
from ottla.wire import codec
from ottla.wire.errors import ErrorCode, GroupIdNotFound, InvalidGroupId, MalformedMessage, UnsupportedVersion
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

V = TypeVar("V")

CONSUMER_PROTOCOL = "consumer"
REMOVED_BY_ADMIN = "member was removed by an admin"


class GroupState(StrEnum):
    """The state of a group."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        return _by_text(cls, value, cls.UNKNOWN)


class GroupType(StrEnum):
    """The protocol that the members of a group use."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"

    @classmethod
    def _missing_(cls, value: object) -> GroupType:
        return _by_text(cls, value, cls.UNKNOWN)


E = TypeVar("E", bound=StrEnum)


def _by_text(kind: type[E], value: object, unknown: E) -> E:
    """Brokers write names in several cases."""
    wanted = str(value).lower()
    return next((one for one in kind if one.value.lower() == wanted), unknown)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a listing. Old brokers report neither type nor state."""

    group_id: str
    type: GroupType | None
    protocol_type: str
    state: GroupState | None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether the group only stores offsets: no member has joined it."""
        return self.type is GroupType.CLASSIC and not self.protocol_type


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a consumer group. Fields that the classic protocol lacks are None."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: frozenset[TopicPartition]
    rack: str | None = None
    target_assignment: frozenset[TopicPartition] | None = None
    member_epoch: int | None = None
    is_upgraded: bool | None = None
    """Whether it uses the consumer protocol; None if the broker does not report it."""
    subscribed_topics: frozenset[str] | None = None
    subscribed_pattern: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A consumer group."""

    group_id: str
    is_simple: bool
    members: tuple[MemberDescription, ...]
    assignor: str
    type: GroupType
    state: GroupState
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """A member of a classic group of any protocol type; metadata and assignment are its bytes."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupDescription:
    """A classic group of any protocol type (consumers, Connect workers, schema registries)."""

    group_id: str
    protocol_type: str
    protocol: str
    members: tuple[ClassicMember, ...]
    state: GroupState
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None


# Listing


async def list_groups(
    engine: Engine,
    *,
    states: Collection[GroupState | str] = (),
    types: Collection[GroupType | str] = (),
    protocol_types: Collection[str] = (),
    timeout_ms: int | None = None,
) -> Listed[GroupListing]:
    """List the groups of all coordinators. An empty filter matches all; "" is the protocol type of simple
    groups.
    """
    deadline = engine.deadline(timeout_ms)
    brokers = [node.id for node in await brokers_of(engine, deadline, "list_groups")]

    def read(
        broker: int, keys: Collection[int], answer: ListGroupsResponse
    ) -> Outcome[int, list[GroupListing]]:
        outcome: Outcome[int, list[GroupListing]] = Outcome()
        if answer.error_code in _NOT_READY:
            outcome.again.add(broker)
        elif answer.error_code:
            outcome.done[broker] = failure(answer.error_code)
        else:
            outcome.done[broker] = read_listed(answer, protocol_types)
        return outcome

    told = await engine.spread(
        "list_groups",
        brokers,
        at_nodes({broker: broker for broker in brokers}),
        lambda broker, keys, timeout_ms: ListGroupsRequest(
            states_filter=[str(state) for state in states], types_filter=[str(kind) for kind in types]
        ),
        read,
        deadline=deadline,
    )
    found = {one.group_id: one for of_broker in told.succeeded.values() for one in of_broker}
    return Listed(list(found.values()), told.failed)


_NOT_READY = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def read_listed(answer: ListGroupsResponse, protocol_types: Collection[str]) -> list[GroupListing]:
    """Read the groups in a response; pure."""
    return [
        GroupListing(
            one.group_id,
            GroupType(one.group_type) if one.group_type else None,
            one.protocol_type,
            GroupState(one.group_state) if one.group_state else None,
        )
        for one in answer.groups
        if not protocol_types or one.protocol_type in protocol_types
    ]


async def list_consumer_groups(
    engine: Engine,
    *,
    states: Collection[GroupState | str] = (),
    types: Collection[GroupType | str] = (),
    timeout_ms: int | None = None,
) -> Listed[GroupListing]:
    """List consumer groups, including those that only store offsets."""
    return await list_groups(
        engine,
        states=states,
        types=types,
        protocol_types=("", CONSUMER_PROTOCOL),
        timeout_ms=timeout_ms,
    )


# Describing


async def describe_consumer_groups(
    engine: Engine,
    group_ids: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, ConsumerGroupDescription]:
    """Describe consumer groups of both protocols. A group that does not exist fails with GroupIdNotFound."""
    deadline = engine.deadline(timeout_ms)
    wanted = list(dict.fromkeys(group_ids))
    newer = await engine.spread(
        "describe_consumer_groups",
        wanted,
        coordinators(GROUP),
        lambda node, keys, timeout_ms: ConsumerGroupDescribeRequest(
            group_ids=keys, include_authorized_operations=include_authorized_operations
        ),
        read_consumer_groups,
        deadline=deadline,
    )
    left = [key for key in wanted if isinstance(newer[key], GroupIdNotFound | UnsupportedVersion)]
    classic = await engine.spread(
        "describe_consumer_groups",
        left,
        coordinators(GROUP),
        lambda node, keys, timeout_ms: DescribeGroupsRequest(
            groups=keys, include_authorized_operations=include_authorized_operations
        ),
        read_classic_consumer_groups,
        deadline=deadline,
    )
    outcomes = {**newer, **classic}
    for key in left:
        if isinstance(outcomes[key], GroupIdNotFound) and isinstance(newer[key], GroupIdNotFound):
            outcomes[key] = newer[key]  # the newer API says better what was not found
    return Results(outcomes)


def read_consumer_groups(
    node: int, keys: Collection[str], answer: ConsumerGroupDescribeResponse
) -> Outcome[str, ConsumerGroupDescription]:
    """Read the groups of the consumer protocol in a response; pure."""
    outcome: Outcome[str, ConsumerGroupDescription] = Outcome()
    for told in answer.groups:
        if told.error_code:
            take(outcome, told.group_id, told.error_code, told.error_message)
            continue
        outcome.done[told.group_id] = ConsumerGroupDescription(
            told.group_id,
            False,
            tuple(_member(one) for one in told.members),
            told.assignor_name,
            GroupType.CONSUMER,
            GroupState(told.group_state),
            node,
            operations_of(told.authorized_operations),
            told.group_epoch,
            told.assignment_epoch,
        )
    return outcome


def _member(told: ConsumerGroupDescribeResponse.Member) -> MemberDescription:
    return MemberDescription(
        told.member_id,
        told.instance_id,
        told.client_id,
        told.client_host,
        _assigned(told.assignment),
        told.rack_id,
        _assigned(told.target_assignment),
        told.member_epoch,
        None if told.member_type < 0 else told.member_type == 1,
        frozenset(told.subscribed_topic_names),
        told.subscribed_topic_regex or None,
    )


def _assigned(told: ConsumerGroupDescribeResponse.Assignment) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, index)
        for topic in told.topic_partitions
        for index in topic.partitions
    )


def read_classic_consumer_groups(
    node: int, keys: Collection[str], answer: DescribeGroupsResponse
) -> Outcome[str, ConsumerGroupDescription]:
    """Read the classic consumer groups in a response; another protocol type is an error. Pure."""
    outcome: Outcome[str, ConsumerGroupDescription] = Outcome()
    for told in answer.groups:
        if told.error_code:
            take(outcome, told.group_id, told.error_code, told.error_message)
        elif told.protocol_type not in ("", CONSUMER_PROTOCOL):
            outcome.done[told.group_id] = InvalidGroupId(
                f"Group {told.group_id} has the protocol type {told.protocol_type}. Describe it with "
                "describe_classic_groups."
            )
        else:
            outcome.done[told.group_id] = ConsumerGroupDescription(
                told.group_id,
                not told.protocol_type,
                tuple(
                    MemberDescription(
                        one.member_id,
                        one.group_instance_id,
                        one.client_id,
                        one.client_host,
                        read_assignment(one.member_assignment),
                    )
                    for one in told.members
                ),
                told.protocol_data,
                GroupType.CLASSIC,
                GroupState(told.group_state),
                node,
                operations_of(told.authorized_operations),
            )
    return outcome


def read_assignment(assignment: bytes) -> frozenset[TopicPartition]:
    """The partitions in the assignment of a classic consumer; empty if it is not one."""
    from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment

    if len(assignment) < 2:
        return frozenset()
    version = min(int.from_bytes(assignment[:2], "big", signed=True), ConsumerProtocolAssignment.VERSIONS[-1])
    try:
        told = codec.decode(ConsumerProtocolAssignment, assignment, max(version, 0), 2, exact=False)
    except MalformedMessage:
        return frozenset()
    return frozenset(
        TopicPartition(topic.topic, index) for topic in told.assigned_partitions for index in topic.partitions
    )


async def describe_classic_groups(
    engine: Engine,
    group_ids: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, ClassicGroupDescription]:
    """Describe classic groups of any protocol type."""
    return await engine.spread(
        "describe_classic_groups",
        group_ids,
        coordinators(GROUP),
        lambda node, keys, timeout_ms: DescribeGroupsRequest(
            groups=keys, include_authorized_operations=include_authorized_operations
        ),
        read_classic_groups,
        deadline=engine.deadline(timeout_ms),
    )


def read_classic_groups(
    node: int, keys: Collection[str], answer: DescribeGroupsResponse
) -> Outcome[str, ClassicGroupDescription]:
    """Read the classic groups in a response; pure."""
    outcome: Outcome[str, ClassicGroupDescription] = Outcome()
    for told in answer.groups:
        if told.error_code:
            take(outcome, told.group_id, told.error_code, told.error_message)
            continue
        outcome.done[told.group_id] = ClassicGroupDescription(
            told.group_id,
            told.protocol_type,
            told.protocol_data,
            tuple(
                ClassicMember(
                    one.member_id,
                    one.group_instance_id,
                    one.client_id,
                    one.client_host,
                    bytes(one.member_metadata),
                    bytes(one.member_assignment),
                )
                for one in told.members
            ),
            GroupState(told.group_state),
            node,
            operations_of(told.authorized_operations),
        )
    return outcome


def take(outcome: Outcome[str, V], group_id: str, code: int, message: str | None = None) -> None:
    """Record a group's error. Only errors of a coordinator that moves or loads are retried."""
    if code in MOVED_COORDINATOR:
        outcome.moved.add(group_id)
    elif code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        outcome.again.add(group_id)
    else:
        outcome.done[group_id] = failure(code, message)


# Changing


async def delete_groups(
    engine: Engine, group_ids: Iterable[str], *, timeout_ms: int | None = None
) -> Results[str, None]:
    """Delete groups of any type with their offsets. A group with members fails with NonEmptyGroup."""

    def read(node: int, keys: Collection[str], answer: DeleteGroupsResponse) -> Outcome[str, None]:
        outcome: Outcome[str, None] = Outcome()
        for told in answer.results:
            if told.error_code:
                take(outcome, told.group_id, told.error_code)
            else:
                outcome.done[told.group_id] = None
        return outcome

    return await engine.spread(
        "delete_groups",
        group_ids,
        coordinators(GROUP),
        lambda node, keys, timeout_ms: DeleteGroupsRequest(groups_names=keys),
        read,
        deadline=engine.deadline(timeout_ms),
    )


async def remove_members(
    engine: Engine,
    group_id: str,
    group_instance_ids: Collection[str] | None = None,
    *,
    reason: str = REMOVED_BY_ADMIN,
    timeout_ms: int | None = None,
) -> Results[str, None]:
    """Remove static members by their instance ids; without ids, all members of the group.

    The results are by instance id, or by member id for dynamic members.
    """
    if group_instance_ids is None:
        group = (await describe_consumer_groups(engine, [group_id], timeout_ms=timeout_ms)).result(group_id)
        members = [(one.group_instance_id, one.member_id) for one in group.members]
    else:
        members = [(one, "") for one in group_instance_ids]
    if not members:
        return Results({})

    def build(node: int, keys: list[str], timeout_ms: int) -> LeaveGroupRequest:
        return LeaveGroupRequest(
            group_id=group_id,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id="" if instance else member, group_instance_id=instance, reason=reason[:255]
                )
                for instance, member in members
            ],
        )

    def read(
        node: int, keys: Collection[str], answer: LeaveGroupResponse
    ) -> Outcome[str, dict[str, Exception | None]]:
        outcome: Outcome[str, dict[str, Exception | None]] = Outcome()
        if answer.error_code:
            take(outcome, group_id, answer.error_code)
        else:
            outcome.done[group_id] = {
                one.group_instance_id or one.member_id: failure(one.error_code) if one.error_code else None
                for one in answer.members
            }
        return outcome

    results = await engine.spread(
        "remove_members", [group_id], coordinators(GROUP), build, read, deadline=engine.deadline(timeout_ms)
    )
    return Results(results.result(group_id))
