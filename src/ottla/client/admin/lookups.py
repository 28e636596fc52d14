"""Finds the nodes of keys: the leaders of partitions, the coordinators of groups and transactional ids.

Rule: a lookup returns only what the cluster has just answered. Keys without a node are omitted and looked up
again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ottla.client.admin.engine import Deadline, Engine, Found, Lookup, Role
from ottla.client.admin.results import failure
from ottla.client.core.metadata import Node
from ottla.client.errors import Disconnected
from ottla.client.values import TopicPartition
from ottla.wire.errors import ErrorCode, UnsupportedVersion
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from ottla.wire.messages.find_coordinator import FindCoordinatorResponse

K = TypeVar("K", bound=Hashable)

GROUP = 0
TRANSACTION = 1

MOVED_COORDINATOR = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors after which a coordinator is looked up again."""

_TOPIC_LATER = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.BROKER_NOT_AVAILABLE})
_PARTITION_LATER = _TOPIC_LATER | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def at_nodes(nodes: Mapping[K, int]) -> Lookup[K]:
    """For keys that contain their node."""

    async def find(engine: Engine, keys: Collection[K], timeout_ms: int) -> Found[K]:
        return Found({key: nodes[key] for key in keys})

    return find


async def brokers_of(engine: Engine, deadline: Deadline, name: str) -> list[Node]:
    """The brokers that are alive now."""

    def read(answer: MetadataResponse) -> list[Node]:
        if not answer.brokers:
            raise Disconnected("The metadata contains no brokers yet.")
        return [Node(one.node_id, one.host, one.port, one.rack) for one in answer.brokers]

    return await engine.call(
        name, Role.BROKER, lambda timeout_ms: MetadataRequest(topics=[]), read, deadline=deadline
    )


def leaders(*, unknown_topics_may_come: bool) -> Lookup[TopicPartition]:
    """Find the leaders of partitions. A topic that does not exist is retried, or fails at once."""

    async def find(
        engine: Engine, keys: Collection[TopicPartition], timeout_ms: int
    ) -> Found[TopicPartition]:
        topics = dict.fromkeys(key.topic for key in keys)
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics],
            allow_auto_topic_creation=False,
        )
        answer = await engine.ask(Role.BROKER, request, timeout_ms=timeout_ms)
        return read_leaders(answer, keys, unknown_topics_may_come=unknown_topics_may_come)

    return find


def read_leaders(
    answer: MetadataResponse, keys: Collection[TopicPartition], *, unknown_topics_may_come: bool
) -> Found[TopicPartition]:
    """Read the leaders in a metadata response; pure."""
    found: Found[TopicPartition] = Found()
    asked = set(keys)
    later = _TOPIC_LATER | ({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if unknown_topics_may_come else set())
    for topic in answer.topics:
        if topic.error_code:
            if topic.error_code not in later:
                for key in keys:
                    if key.topic == topic.name:
                        found.failed[key] = failure(topic.error_code, _why(topic.error_code, key))
            continue
        for partition in topic.partitions:
            key = TopicPartition(topic.name or "", partition.partition_index)
            if key not in asked:
                continue
            if partition.error_code and partition.error_code not in _PARTITION_LATER:
                found.failed[key] = failure(partition.error_code, _why(partition.error_code, key))
            elif not partition.error_code and partition.leader_id >= 0:
                found.at[key] = partition.leader_id
    return found


def _why(code: int, key: TopicPartition) -> str:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"Topic {key.topic} does not exist, so {key} has no leader."
    return f"Cannot get the metadata of {key}: {failure(code).code.name}."


def coordinators(kind: int, key_of: Callable[[K], str] = str) -> Lookup[K]:
    """Find the coordinators of groups or transactional ids: in one request if the broker supports that."""

    async def find(engine: Engine, keys: Collection[K], timeout_ms: int) -> Found[K]:
        from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

        names = {key_of(key): key for key in keys}
        try:
            answer = await engine.ask(
                Role.BROKER,
                FindCoordinatorRequest(key_type=kind, coordinator_keys=list(names)),
                timeout_ms=timeout_ms,
            )
        except UnsupportedVersion:
            return await _one_by_one(engine, names, kind, timeout_ms)
        return read_coordinators(answer, names)

    return find


async def _one_by_one(engine: Engine, names: Mapping[str, K], kind: int, timeout_ms: int) -> Found[K]:
    from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

    found: Found[K] = Found()
    for name in names:
        request = FindCoordinatorRequest(key=name, key_type=kind)
        answer = await engine.ask(Role.BROKER, request, timeout_ms=timeout_ms)
        one = read_coordinators(answer, names, asked=name)
        found.at.update(one.at)
        found.failed.update(one.failed)
    return found


def read_coordinators(
    answer: FindCoordinatorResponse, names: Mapping[str, K], *, asked: str | None = None
) -> Found[K]:
    """Read the coordinators in a response, of the batched form or, with `asked`, of the single form; pure."""
    found: Found[K] = Found()
    told = [(one.key, one.error_code, one.error_message, one.node_id) for one in answer.coordinators]
    if asked is not None:
        told = [(asked, answer.error_code, answer.error_message, answer.node_id)]
    for name, code, message, node in told:
        if name not in names:
            continue
        if not code:
            found.at[names[name]] = node
        elif code not in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            found.failed[names[name]] = failure(code, message)
    return found
