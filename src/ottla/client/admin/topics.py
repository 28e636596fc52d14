"""Topics and partitions: create, delete, list, describe."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin.engine import FAILURES, Deadline, Engine, Role
from ottla.client.admin.permissions import AclOperation, operations_of
from ottla.client.admin.results import Results, failure
from ottla.client.core.metadata import Node
from ottla.client.errors import TimedOut
from ottla.wire import uuid
from ottla.wire.errors import (
    ErrorCode,
    NotController,
    ThrottlingQuotaExceeded,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.wire.message import Message
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.client.admin.configs import ConfigEntry

V = TypeVar("V")

BROKER_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. None means the brokers' default.

    `assignments` (partition -> brokers) sets the replicas; `partitions` and `replication_factor` must then be
    None.
    """

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic. What the broker does not report (old version, no permission) is None or empty."""

    name: str
    topic_id: str | None
    partitions: int | None
    replication_factor: int | None
    configs: Mapping[str, ConfigEntry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The new total number of partitions of a topic; `assignments` are the replicas of each new one."""

    total: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic in a listing."""

    name: str
    topic_id: str | None
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition. Replicas that have left the cluster have an empty host.

    `elr` and `last_known_elr` (eligible leader replicas) are None if the broker does not report them.
    """

    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    elr: tuple[Node, ...] | None = None
    last_known_elr: tuple[Node, ...] | None = None
    leader_epoch: int | None = None
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in order."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


# Making


async def create_topics(
    engine: Engine,
    topics: Iterable[NewTopic | str],
    *,
    validate_only: bool = False,
    retry_on_quota_violation: bool = True,
    timeout_ms: int | None = None,
) -> Results[str, CreatedTopic]:
    """Create topics. `validate_only`: only check whether they could be created."""
    wanted = {one.name: one for one in (_new_topic(topic) for topic in topics)}

    def build(names: Collection[str], timeout_ms: int) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            topics=[_creatable(wanted[name]) for name in names],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )

    return await _within_quota(
        engine, "create_topics", wanted, build, read_created, retry_on_quota_violation, timeout_ms
    )


def _new_topic(topic: NewTopic | str) -> NewTopic:
    if isinstance(topic, str):
        return NewTopic(topic)
    if topic.assignments is not None and (topic.partitions or topic.replication_factor):
        raise ValueError(
            f"Topic {topic.name} has assignments, which already determine its partitions and replicas. Omit "
            "partitions and replication_factor."
        )
    return topic


def _creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=BROKER_DEFAULT if topic.partitions is None else topic.partitions,
        replication_factor=BROKER_DEFAULT if topic.replication_factor is None else topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (topic.assignments or {}).items()
        ],
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configs.items()
        ],
    )


def read_created(names: Collection[str], answer: CreateTopicsResponse) -> dict[str, CreatedTopic | Exception]:
    """Read the created topics in a response; pure."""
    _check_controller(told.error_code for told in answer.topics)
    return {
        told.name: failure(told.error_code, told.error_message) if told.error_code else _created(told)
        for told in answer.topics
    }


def _created(told: CreateTopicsResponse.CreatableTopicResult) -> CreatedTopic:
    from ottla.client.admin.configs import ConfigEntry, ConfigSource

    configs = {
        one.name: ConfigEntry(
            one.name, one.value, ConfigSource(one.config_source), one.read_only, one.is_sensitive
        )
        for one in told.configs or ()
    }
    return CreatedTopic(
        told.name,
        _id_text(told.topic_id),
        None if told.num_partitions < 0 else told.num_partitions,
        None if told.replication_factor < 0 else told.replication_factor,
        configs,
    )


async def create_partitions(
    engine: Engine,
    totals: Mapping[str, int | NewPartitions],
    *,
    validate_only: bool = False,
    retry_on_quota_violation: bool = True,
    timeout_ms: int | None = None,
) -> Results[str, None]:
    """Add partitions to topics: topic -> new total number."""
    wanted = {
        topic: total if isinstance(total, NewPartitions) else NewPartitions(total)
        for topic, total in totals.items()
    }

    def build(names: Collection[str], timeout_ms: int) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(
            topics=[_grown(name, wanted[name]) for name in names],
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )

    def read(names: Collection[str], answer: CreatePartitionsResponse) -> dict[str, Exception | None]:
        _check_controller(told.error_code for told in answer.results)
        return {
            told.name: failure(told.error_code, told.error_message) if told.error_code else None
            for told in answer.results
        }

    return await _within_quota(
        engine, "create_partitions", wanted, build, read, retry_on_quota_violation, timeout_ms
    )


def _grown(name: str, wanted: NewPartitions) -> CreatePartitionsRequest.CreatePartitionsTopic:
    assignments = None
    if wanted.assignments is not None:
        assignments = [
            CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(brokers))
            for brokers in wanted.assignments
        ]
    return CreatePartitionsRequest.CreatePartitionsTopic(
        name=name, count=wanted.total, assignments=assignments
    )


# Removing


async def delete_topics(
    engine: Engine,
    names: Iterable[str],
    *,
    retry_on_quota_violation: bool = True,
    timeout_ms: int | None = None,
) -> Results[str, None]:
    """Delete topics by name."""

    def build(names: Collection[str], timeout_ms: int) -> DeleteTopicsRequest:
        # Versions from 6 on read the one list, those before it the other.
        return DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=timeout_ms,
        )

    def read(names: Collection[str], answer: DeleteTopicsResponse) -> dict[str, Exception | None]:
        return _deleted({told.name or "": told for told in answer.responses})

    return await _within_quota(
        engine, "delete_topics", dict.fromkeys(names), build, read, retry_on_quota_violation, timeout_ms
    )


async def delete_topics_by_id(
    engine: Engine,
    topic_ids: Iterable[str],
    *,
    retry_on_quota_violation: bool = True,
    timeout_ms: int | None = None,
) -> Results[str, None]:
    """Delete topics by id, so that a topic recreated under the same name survives."""
    wanted = {topic_id: uuid.from_text(topic_id) for topic_id in topic_ids}

    def build(topic_ids: Collection[str], timeout_ms: int) -> DeleteTopicsRequest:
        states = [DeleteTopicsRequest.DeleteTopicState(topic_id=wanted[one]) for one in topic_ids]
        return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)

    def read(topic_ids: Collection[str], answer: DeleteTopicsResponse) -> dict[str, Exception | None]:
        return _deleted({uuid.to_text(told.topic_id): told for told in answer.responses})

    return await _within_quota(
        engine, "delete_topics_by_id", wanted, build, read, retry_on_quota_violation, timeout_ms
    )


def _deleted(told: Mapping[str, DeleteTopicsResponse.DeletableTopicResult]) -> dict[str, Exception | None]:
    _check_controller(one.error_code for one in told.values())
    return {
        key: failure(one.error_code, one.error_message) if one.error_code else None
        for key, one in told.items()
    }


async def _within_quota(
    engine: Engine,
    name: str,
    wanted: Collection[str],
    build: Callable[[Collection[str], int], Message],
    read: Callable[[Collection[str], Any], Mapping[str, V | Exception]],
    retry: bool,
    timeout_ms: int | None,
) -> Results[str, V]:
    """Send all to the controller, and again those that its quota throttled.

    The connection delays requests by the throttle time of a response, so the retry is not immediate.
    """
    deadline = engine.deadline(timeout_ms)
    outcomes: dict[str, V | Exception] = {}
    left = list(wanted)
    while left:
        places = dict.fromkeys(left, Role.CONTROLLER)
        told = await engine.items(name, places, build, read, deadline=deadline)
        for item, outcome in told.items():
            if item not in outcomes or not isinstance(outcome, TimedOut):
                outcomes[item] = outcome
        left = [item for item in left if isinstance(told[item], ThrottlingQuotaExceeded)]
        if not retry or not deadline.remaining_ms:
            break
    return Results({item: outcomes[item] for item in wanted})


def _check_controller(codes: Iterable[int]) -> None:
    if ErrorCode.NOT_CONTROLLER in codes:
        raise NotController("The controller has moved.")


def _id_text(topic_id: bytes) -> str | None:
    return None if topic_id == uuid.ZERO else uuid.to_text(topic_id)


# Looking


async def list_topics(
    engine: Engine, *, include_internal: bool = False, timeout_ms: int | None = None
) -> dict[str, TopicListing]:
    """List the topics that this client may see, by name."""

    def read(answer: MetadataResponse) -> dict[str, TopicListing]:
        return {
            one.name: TopicListing(one.name, _id_text(one.topic_id), one.is_internal)
            for one in answer.topics
            if one.name and not one.error_code and (include_internal or not one.is_internal)
        }

    return await engine.call(
        "list_topics",
        Role.BROKER,
        lambda timeout_ms: MetadataRequest(topics=None, allow_auto_topic_creation=True),
        read,
        deadline=engine.deadline(timeout_ms),
    )


async def describe_topics(
    engine: Engine,
    names: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    partitions_per_answer: int = 2000,
    timeout_ms: int | None = None,
) -> Results[str, TopicDescription]:
    """Describe topics with their partitions, by name. Large topics arrive in several responses."""
    deadline = engine.deadline(timeout_ms)
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return Results({})
    try:
        described = await _describe_in_pages(engine, wanted, partitions_per_answer, deadline)
    except UnsupportedVersion:
        return await _describe_at_once(engine, wanted, include_authorized_operations, deadline)
    except FAILURES as error:
        return Results(dict.fromkeys(wanted, error))
    if include_authorized_operations:
        return described
    return Results({name: _without_operations(outcome) for name, outcome in described.items()})


def _without_operations(outcome: TopicDescription | Exception) -> TopicDescription | Exception:
    """Drop the operations, which brokers return in paged responses even if not requested."""
    return outcome if isinstance(outcome, Exception) else replace(outcome, authorized_operations=None)


async def _describe_in_pages(
    engine: Engine, wanted: Collection[str], limit: int, deadline: Deadline
) -> Results[str, TopicDescription]:
    nodes = await _nodes(engine, deadline)
    pages = Pages(wanted, limit)
    while pages.left:
        answer = await engine.call(
            "describe_topics",
            Role.BROKER,
            lambda timeout_ms: pages.request(),
            lambda got: got,
            deadline=deadline,
        )
        pages.take(answer, nodes)
    return Results({name: pages.outcomes[name] for name in wanted})


class Pages:
    """Topics that arrive in pages: those left to request, and those received. Pure.

    A page may end within a topic; the cursor then names that topic and the next partition.
    """

    def __init__(self, names: Iterable[str], limit: int) -> None:
        self.left = sorted(names)
        self.outcomes: dict[str, TopicDescription | Exception] = {}
        self._limit = limit
        self._cursor: DescribeTopicPartitionsResponse.Cursor | None = None
        self._begun: TopicDescription | None = None

    def request(self) -> DescribeTopicPartitionsRequest:
        cursor = None
        if self._cursor is not None:
            cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=self._cursor.topic_name, partition_index=self._cursor.partition_index
            )
        return DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in self.left],
            response_partition_limit=self._limit,
            cursor=cursor,
        )

    def take(self, answer: DescribeTopicPartitionsResponse, nodes: Mapping[int, Node]) -> None:
        """Add one response. A page that brings nothing new is an error."""
        before = (len(self.left), self._cursor and (self._cursor.topic_name, self._cursor.partition_index))
        cursor = answer.next_cursor
        for told in answer.topics:
            name = told.name or ""
            if told.error_code:
                self.outcomes[name] = failure(told.error_code)
                self._finish(name)
                continue
            page = _described_page(told, nodes)
            if self._begun is not None and self._begun.name == name:
                page = replace(page, partitions=self._begun.partitions + page.partitions)
            if cursor is not None and cursor.topic_name == name and name not in self.outcomes:
                self._begun = page
            else:
                self.outcomes[name] = page
                self._finish(name)
        self._cursor = cursor if cursor is not None and cursor.topic_name in self.left else None
        if cursor is None:
            silence = "The broker returned no result for this topic."
            self.outcomes.update((name, UnknownServerError(silence)) for name in self.left)
            self.left = []
        after = (len(self.left), self._cursor and (self._cursor.topic_name, self._cursor.partition_index))
        if self.left and before == after:
            raise UnknownServerError("The broker returned the same page of DescribeTopicPartitions twice.")

    def _finish(self, name: str) -> None:
        if name in self.left:
            self.left.remove(name)
        if self._begun is not None and self._begun.name == name:
            self._begun = None


def _described_page(
    told: DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic, nodes: Mapping[int, Node]
) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            one.partition_index,
            _leader(one.leader_id, nodes),
            _of(one.replica_nodes, nodes),
            _of(one.isr_nodes, nodes),
            None if one.eligible_leader_replicas is None else _of(one.eligible_leader_replicas, nodes),
            None if one.last_known_elr is None else _of(one.last_known_elr, nodes),
            None if one.leader_epoch < 0 else one.leader_epoch,
            tuple(one.offline_replicas),
        )
        for one in sorted(told.partitions, key=lambda one: one.partition_index)
    )
    return TopicDescription(
        told.name or "",
        _id_text(told.topic_id),
        told.is_internal,
        partitions,
        operations_of(told.topic_authorized_operations),
    )


def _leader(node_id: int, nodes: Mapping[int, Node]) -> Node | None:
    return None if node_id < 0 else nodes.get(node_id, Node(node_id, "", -1))


def _of(node_ids: Iterable[int], nodes: Mapping[int, Node]) -> tuple[Node, ...]:
    return tuple(nodes.get(node_id, Node(node_id, "", -1)) for node_id in node_ids)


async def _nodes(engine: Engine, deadline: Deadline) -> dict[int, Node]:
    from ottla.client.admin.lookups import brokers_of

    return {node.id: node for node in await brokers_of(engine, deadline, "describe_topics")}


async def _describe_at_once(
    engine: Engine, wanted: Collection[str], include_authorized_operations: bool, deadline: Deadline
) -> Results[str, TopicDescription]:
    """Describe topics by their metadata, for brokers before version 3.8; without eligible leader replicas."""

    def build(names: Collection[str], timeout_ms: int) -> MetadataRequest:
        return MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        )

    def read(names: Collection[str], answer: MetadataResponse) -> dict[str, TopicDescription | Exception]:
        told = {one.name: one for one in answer.topics}
        missing = [name for name in names if name not in told]
        return {
            **{one.name or "": _described(one, answer) for one in answer.topics},
            **{name: UnknownTopicOrPartition(f"Topic {name} does not exist.") for name in missing},
        }

    return await engine.items(
        "describe_topics", dict.fromkeys(wanted, Role.BROKER), build, read, deadline=deadline
    )


async def describe_topics_by_id(
    engine: Engine,
    topic_ids: Iterable[str],
    *,
    include_authorized_operations: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, TopicDescription]:
    """Describe topics with their partitions, by id; without eligible leader replicas."""
    wanted = {topic_id: uuid.from_text(topic_id) for topic_id in topic_ids}

    def build(topic_ids: Collection[str], timeout_ms: int) -> MetadataRequest:
        return MetadataRequest(
            topics=[
                MetadataRequest.MetadataRequestTopic(topic_id=wanted[topic_id], name=None)
                for topic_id in topic_ids
            ],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        )

    def read(topic_ids: Collection[str], answer: MetadataResponse) -> dict[str, TopicDescription | Exception]:
        told = {uuid.to_text(one.topic_id): _described(one, answer) for one in answer.topics}
        silence = "No topic has this id."
        return {topic_id: told.get(topic_id, UnknownTopicId(silence)) for topic_id in topic_ids}

    return await engine.items(
        "describe_topics_by_id",
        dict.fromkeys(wanted, Role.BROKER),
        build,
        read,
        deadline=engine.deadline(timeout_ms),
    )


def _described(
    told: MetadataResponse.MetadataResponseTopic, answer: MetadataResponse
) -> TopicDescription | Exception:
    if told.error_code:
        return failure(told.error_code)
    nodes = {one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in answer.brokers}
    partitions = tuple(
        PartitionDescription(
            one.partition_index,
            _leader(one.leader_id, nodes),
            _of(one.replica_nodes, nodes),
            _of(one.isr_nodes, nodes),
            leader_epoch=None if one.leader_epoch < 0 else one.leader_epoch,
            offline=tuple(one.offline_replicas),
        )
        for one in sorted(told.partitions, key=lambda one: one.partition_index)
    )
    return TopicDescription(
        told.name or "",
        _id_text(told.topic_id),
        told.is_internal,
        partitions,
        operations_of(told.topic_authorized_operations),
    )
