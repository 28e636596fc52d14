"""Helpers of the requests of the metadata quorum: their receiver, and the leader's endpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.raft.messages import Answer, Request, VoterChangeRefused
from ottla.raft.metadata_log import TOPIC
from ottla.raft.replica import Replica
from ottla.raft.voters import ReplicaKey
from ottla.server.parts import HasClusterId, HasQuorum
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode, KafkaStorageError

if TYPE_CHECKING:
    from ottla.server.metadata.metadata_quorum import MetadataQuorum
    from ottla.server.metadata.voter_changes import VoterChanges
    from ottla.server.net.dispatch import RequestContext

_Node = TypeVar("_Node")


class VoterParts(HasClusterId, HasQuorum, Protocol):
    """The parts of a node that a change of the voters needs."""


class Partition(Protocol):
    partition_index: int


_P = TypeVar("_P", bound=Partition, covariant=True)


class Topic(Protocol[_P]):
    @property
    def topic_name(self) -> str: ...
    @property
    def partitions(self) -> Sequence[_P]: ...


def is_of_this_cluster(parts: HasClusterId, cluster_id: str | None) -> bool:
    """Whether a request is for this cluster; one without a cluster id is."""
    return cluster_id is None or cluster_id == parts.cluster_id


def only_partition(topics: Sequence[Topic[_P]]) -> _P | None:
    """The partition of a request that names only the metadata log; else None."""
    if len(topics) != 1 or topics[0].topic_name != TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == 0 else None


async def asked_replica(quorum: MetadataQuorum, request: Request) -> Answer | None:
    """The answer of this node's replica; None if its log has failed.

    Such a node is shutting down, and its answer cannot be on disk: the connection closes without a response.
    """
    try:
        return await quorum.driver.answer(request)
    except KafkaStorageError:
        return None


def receiver_of(voter_id: int, directory_id: bytes) -> ReplicaKey | None:
    """The receiver that a request names; None if it names none."""
    return None if voter_id < 0 else ReplicaKey(voter_id, directory_id)


class _Endpoint(Protocol):
    name: str
    host: str
    port: int


def learn_endpoints(
    quorum: MetadataQuorum, context: RequestContext, leader_id: int, endpoints: Sequence[_Endpoint]
) -> None:
    """Store the endpoint that a leader reports on the controller listener."""
    for endpoint in endpoints:
        if endpoint.name == context.listener:
            quorum.learn_address(leader_id, endpoint.host, endpoint.port)


def voter_changes(quorum: MetadataQuorum) -> VoterChanges:
    """The voter changes of a controller; on a broker, the request was not forwarded."""
    changes = quorum.voter_changes
    if changes is None:
        raise VoterChangeRefused(ErrorCode.REQUEST_TIMED_OUT, "The active controller did not answer in time.")
    return changes


class VoterRequest(Protocol):
    """A request to add or to remove a voter."""

    cluster_id: str | None
    voter_id: int
    voter_directory_id: bytes


def change_asked_for(parts: VoterParts, request: VoterRequest, verb: str) -> tuple[VoterChanges, ReplicaKey]:
    """The voter changes and the voter of a request; VoterChangeRefused if the request is invalid."""
    if not is_of_this_cluster(parts, request.cluster_id):
        raise VoterChangeRefused(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{parts.cluster_id}"',
        )
    changes = voter_changes(parts.quorum)
    if request.voter_id < 0 or request.voter_directory_id == uuid.ZERO:
        raise VoterChangeRefused(
            ErrorCode.INVALID_REQUEST, f"{verb} voter request didn't include a valid voter"
        )
    return changes, ReplicaKey(request.voter_id, request.voter_directory_id)


def replica_of(quorum: MetadataQuorum) -> Replica:
    return quorum.driver.replica


def leader_endpoints(
    quorum: MetadataQuorum, context: RequestContext, node_class: Callable[..., _Node]
) -> list[_Node]:
    """The leader's endpoint on the listener of the request, in the response's own class."""
    replica = replica_of(quorum)
    leader_id = replica.leader_id
    voter = replica.local if leader_id == replica.local.key.id else replica.voters.last.get(leader_id)
    if voter is None:
        return []
    return [
        node_class(node_id=leader_id, host=endpoint.host, port=endpoint.port)
        for endpoint in voter.endpoints
        if endpoint.name == context.listener
    ]
