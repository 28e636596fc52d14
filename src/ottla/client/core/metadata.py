"""The client's metadata: an immutable view, and how a response makes the next one.

Rule: a partition's leader epoch never decreases while its topic keeps its id. A broker that lags behind may
return an older leader; then the known one is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_cluster import DescribeClusterResponse
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.uuid import ZERO


@dataclass(frozen=True, slots=True)
class Node:
    """A broker (or, for an admin client of controllers, a controller)."""

    id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id {self.id})" if self.id >= 0 else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition. `leader` is -1 if it is unknown."""

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode | None = None


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic, or the error of its metadata."""

    name: str
    topic_id: bytes
    error: ErrorCode | None
    internal: bool
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The metadata at one moment. `partitions` of a topic are sorted by index."""

    brokers: Mapping[int, Node] = field(default_factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)

    def partition(self, topic: str, index: int) -> PartitionView | None:
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def leader(self, topic: str, index: int) -> int:
        """The id of a partition's leader, -1 if unknown."""
        found = self.partition(topic, index)
        return -1 if found is None or found.leader not in self.brokers else found.leader

    def after(self, answer: MetadataResponse, keep: Collection[str]) -> ClusterView:
        """The view after a response. Topics that it does not contain are kept if they are in `keep`."""
        brokers = {
            one.node_id: Node(one.node_id, one.host, one.port, one.rack or None) for one in answer.brokers
        }
        topics = {name: view for name, view in self.topics.items() if name in keep}
        for response in answer.topics:
            name = response.name if response.name is not None else self.topic_names.get(response.topic_id)
            if name is not None:
                topics[name] = _topic(name, response, self.topics.get(name))
        return ClusterView(
            brokers, answer.controller_id, answer.cluster_id or self.cluster_id, topics, _names(topics)
        )

    def after_controllers(self, answer: DescribeClusterResponse) -> ClusterView:
        """The view of an admin client that connects to controllers: they are its nodes."""
        nodes = {one.broker_id: Node(one.broker_id, one.host, one.port, one.rack) for one in answer.brokers}
        return replace(self, brokers=nodes, controller_id=answer.controller_id, cluster_id=answer.cluster_id)

    def with_leader(
        self, topic: str, index: int, leader: int, leader_epoch: int, endpoint: Node | None
    ) -> ClusterView:
        """The view after a broker's hint about a new leader; the same view if the hint is old."""
        found = self.partition(topic, index)
        if found is None or leader < 0 or leader_epoch <= found.leader_epoch:
            return self
        brokers = dict(self.brokers)
        if endpoint is not None:
            brokers[endpoint.id] = endpoint
        if leader not in brokers:
            return self
        view = self.topics[topic]
        partitions = list(view.partitions)
        partitions[index] = replace(found, leader=leader, leader_epoch=leader_epoch, error=None)
        topics = {**self.topics, topic: replace(view, partitions=tuple(partitions))}
        return replace(self, brokers=brokers, topics=topics)


def _names(topics: Mapping[str, TopicView]) -> dict[bytes, str]:
    return {view.topic_id: name for name, view in topics.items() if view.topic_id != ZERO}


def _topic(name: str, response: MetadataResponse.MetadataResponseTopic, known: TopicView | None) -> TopicView:
    error = _code(response.error_code)
    before: dict[int, PartitionView] = {}
    if known is not None and known.topic_id == response.topic_id:
        before = {partition.index: partition for partition in known.partitions}
    partitions = sorted(
        (_partition(one, before.get(one.partition_index)) for one in response.partitions),
        key=lambda partition: partition.index,
    )
    return TopicView(name, response.topic_id, error, response.is_internal, tuple(partitions))


def _partition(
    response: MetadataResponse.MetadataResponsePartition, known: PartitionView | None
) -> PartitionView:
    if known is not None and response.leader_epoch >= 0 and response.leader_epoch < known.leader_epoch:
        return known
    return PartitionView(
        response.partition_index,
        response.leader_id,
        response.leader_epoch,
        tuple(response.replica_nodes),
        tuple(response.isr_nodes),
        tuple(response.offline_replicas),
        _code(response.error_code),
    )


def _code(number: int) -> ErrorCode | None:
    if number == 0:
        return None
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
