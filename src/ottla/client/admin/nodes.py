"""The cluster itself: brokers and controllers, the metadata quorum, features, API versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.client.admin.engine import Deadline, Engine, Place, Role
from ottla.client.admin.permissions import AclOperation, operations_of
from ottla.client.admin.results import Results, check, failure
from ottla.version import __version__
from ottla.wire import uuid
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import ErrorCode, NotController, UnknownServerError, UnsupportedVersion
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

if TYPE_CHECKING:
    from ottla.wire.messages.add_raft_voter import AddRaftVoterResponse
    from ottla.wire.messages.describe_quorum import DescribeQuorumResponse
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterResponse

_METADATA_TOPIC = "__cluster_metadata"
_BROKERS, _CONTROLLERS = 1, 2


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node, and whether it is fenced."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster. With `bootstrap.controllers` its nodes are controllers, and `controller` the active one."""

    cluster_id: str
    controller: ClusterNode | None
    nodes: tuple[ClusterNode, ...]
    authorized_operations: frozenset[AclOperation] | None = None


async def describe_cluster(
    engine: Engine,
    *,
    include_authorized_operations: bool = False,
    include_fenced_brokers: bool = False,
    timeout_ms: int | None = None,
) -> ClusterDescription:
    """Describe the cluster: its id and nodes. As controller, brokers name a broker that forwards requests."""
    if engine.asks_controllers and include_fenced_brokers:
        raise ValueError(
            "Controllers do not list fenced brokers. Create the admin client with bootstrap.servers."
        )
    deadline = engine.deadline(timeout_ms)
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=include_authorized_operations,
        endpoint_type=_CONTROLLERS if engine.asks_controllers else _BROKERS,
        include_fenced_brokers=include_fenced_brokers,
    )
    try:
        return await engine.call(
            "describe_cluster",
            Role.BROKER_OR_CONTROLLER,
            lambda timeout_ms: request,
            read_cluster,
            deadline=deadline,
        )
    except UnsupportedVersion:
        if engine.asks_controllers or include_fenced_brokers:
            raise
    return await _describe_by_metadata(engine, include_authorized_operations, deadline)


def read_cluster(answer: DescribeClusterResponse) -> ClusterDescription:
    """Read the cluster in a response; pure."""
    check(answer.error_code, answer.error_message)
    nodes = {
        one.broker_id: ClusterNode(one.broker_id, one.host, one.port, one.rack, one.is_fenced)
        for one in answer.brokers
    }
    return ClusterDescription(
        answer.cluster_id,
        nodes.get(answer.controller_id),
        tuple(nodes.values()),
        operations_of(answer.cluster_authorized_operations),
    )


async def _describe_by_metadata(engine: Engine, operations: bool, deadline: Deadline) -> ClusterDescription:
    """For brokers before version 2.8."""
    from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

    def read(answer: MetadataResponse) -> ClusterDescription:
        nodes = {
            one.node_id: ClusterNode(one.node_id, one.host, one.port, one.rack) for one in answer.brokers
        }
        return ClusterDescription(
            answer.cluster_id or "",
            nodes.get(answer.controller_id),
            tuple(nodes.values()),
            operations_of(answer.cluster_authorized_operations),
        )

    request = MetadataRequest(topics=[], include_cluster_authorized_operations=operations)
    return await engine.call(
        "describe_cluster", Role.BROKER, lambda timeout_ms: request, read, deadline=deadline
    )


# The metadata quorum


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A replica of the metadata log, as the quorum leader reports it."""

    id: int
    directory_id: str
    log_end_offset: int
    last_fetch_timestamp: int | None = None
    last_caught_up_timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a controller listens."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The voters and observers of the metadata quorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, tuple[Endpoint, ...]]


async def describe_metadata_quorum(engine: Engine, *, timeout_ms: int | None = None) -> QuorumDescription:
    """Describe the metadata quorum: its leader, and how far each replica is."""
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest

    topic = DescribeQuorumRequest.TopicData(
        topic_name=_METADATA_TOPIC, partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)]
    )
    return await engine.call(
        "describe_metadata_quorum",
        Role.BROKER_OR_CONTROLLER,
        lambda timeout_ms: DescribeQuorumRequest(topics=[topic]),
        lambda answer: read_quorum(answer, asks_controllers=engine.asks_controllers),
        deadline=engine.deadline(timeout_ms),
    )


def read_quorum(answer: DescribeQuorumResponse, *, asks_controllers: bool = False) -> QuorumDescription:
    """Read the quorum in a response; pure."""
    partitions = [one for topic in answer.topics for one in topic.partitions]
    _check_controller([answer.error_code, *(one.error_code for one in partitions)], asks_controllers)
    check(answer.error_code, answer.error_message)
    if len(partitions) != 1 or answer.topics[0].topic_name != _METADATA_TOPIC:
        raise UnknownServerError(
            "The response to DescribeQuorum does not describe exactly the metadata partition."
        )
    told = partitions[0]
    check(told.error_code, told.error_message)
    return QuorumDescription(
        told.leader_id,
        told.leader_epoch,
        told.high_watermark,
        tuple(_replica(one) for one in told.current_voters),
        tuple(_replica(one) for one in told.observers),
        {
            node.node_id: tuple(Endpoint(one.name, one.host, one.port) for one in node.listeners)
            for node in answer.nodes
        },
    )


def _replica(told: DescribeQuorumResponse.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        told.replica_id,
        uuid.to_text(told.replica_directory_id),
        told.log_end_offset,
        None if told.last_fetch_timestamp < 0 else told.last_fetch_timestamp,
        None if told.last_caught_up_timestamp < 0 else told.last_caught_up_timestamp,
    )


def _check_controller(codes: Collection[int], asks_controllers: bool) -> None:
    """Raise NotController. A controller that does not lead answers with one of two codes."""
    if ErrorCode.NOT_CONTROLLER in codes or (asks_controllers and ErrorCode.NOT_LEADER_OR_FOLLOWER in codes):
        raise NotController("The controller has moved.")


async def add_raft_voter(
    engine: Engine,
    voter_id: int,
    directory_id: str,
    endpoints: Iterable[Endpoint],
    *,
    cluster_id: str | None = None,
    timeout_ms: int | None = None,
) -> None:
    """Make a controller that is an observer a voter."""
    from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest

    listeners = [
        AddRaftVoterRequest.Listener(name=one.listener, host=one.host, port=one.port) for one in endpoints
    ]
    outcome = await engine.call(
        "add_raft_voter",
        Role.BROKER_OR_CONTROLLER,
        lambda timeout_ms: AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=timeout_ms,
            voter_id=voter_id,
            voter_directory_id=uuid.from_text(directory_id),
            listeners=listeners,
        ),
        lambda answer: _read_voter_change(engine, answer),
        deadline=engine.deadline(timeout_ms),
    )
    if outcome is not None:
        raise outcome


async def remove_raft_voter(
    engine: Engine,
    voter_id: int,
    directory_id: str,
    *,
    cluster_id: str | None = None,
    timeout_ms: int | None = None,
) -> None:
    """Remove a voter from the quorum."""
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest

    request = RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=uuid.from_text(directory_id)
    )
    outcome = await engine.call(
        "remove_raft_voter",
        Role.BROKER_OR_CONTROLLER,
        lambda timeout_ms: request,
        lambda answer: _read_voter_change(engine, answer),
        deadline=engine.deadline(timeout_ms),
    )
    if outcome is not None:
        raise outcome


def _read_voter_change(
    engine: Engine, answer: AddRaftVoterResponse | RemoveRaftVoterResponse
) -> Exception | None:
    """The error of a rejected change. It is returned, not raised, since some codes would be retried."""
    _check_controller([answer.error_code], engine.asks_controllers)
    return failure(answer.error_code, answer.error_message) if answer.error_code else None


async def unregister_broker(engine: Engine, broker_id: int, *, timeout_ms: int | None = None) -> None:
    """Unregister a broker that will not come back."""
    from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

    def read(answer: UnregisterBrokerResponse) -> None:
        _check_controller([answer.error_code], engine.asks_controllers)
        check(answer.error_code, answer.error_message)

    await engine.call(
        "unregister_broker",
        Role.BROKER_OR_CONTROLLER,
        lambda timeout_ms: UnregisterBrokerRequest(broker_id=broker_id),
        read,
        deadline=engine.deadline(timeout_ms),
    )


# Features and versions


class UpgradeType(IntEnum):
    """What a change of a feature's level may lose."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The new level of a feature; 0 disables it."""

    level: int
    type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """The supported or finalized levels of a feature."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """The finalized features of the cluster, and the features that the answering node supports."""

    finalized: Mapping[str, FeatureRange]
    finalized_epoch: int | None
    supported: Mapping[str, FeatureRange]


@dataclass(frozen=True, slots=True)
class ApiRange:
    """The versions of an API that a node serves. `name` is None for an API that this client does not know."""

    key: int
    name: str | None
    first: int
    last: int
    usable: int | None
    """The version that this client uses; None if there is no common version."""


def _hello() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)


async def describe_features(
    engine: Engine, *, node_id: int | None = None, timeout_ms: int | None = None
) -> FeatureDescription:
    """Describe the features of the cluster, as one node (by default any) knows them."""
    place: Place = Role.BROKER_OR_CONTROLLER if node_id is None else node_id
    return await engine.call(
        "describe_features",
        place,
        lambda timeout_ms: _hello(),
        read_features,
        deadline=engine.deadline(timeout_ms),
    )


def read_features(answer: ApiVersionsResponse) -> FeatureDescription:
    """Read the features in a response; pure."""
    check(answer.error_code)
    return FeatureDescription(
        {
            one.name: FeatureRange(one.min_version_level, one.max_version_level)
            for one in answer.finalized_features
        },
        None if answer.finalized_features_epoch < 0 else answer.finalized_features_epoch,
        {one.name: FeatureRange(one.min_version, one.max_version) for one in answer.supported_features},
    )


async def update_features(
    engine: Engine,
    updates: Mapping[str, FeatureUpdate | int],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Results[str, None]:
    """Change the levels of features: a number is an upgrade to it."""
    from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

    if not updates or not all(name.strip() for name in updates):
        raise ValueError("Specify at least one feature. Names must not be empty.")
    wanted = {
        name: FeatureUpdate(update) if isinstance(update, int) else update for name, update in updates.items()
    }

    def build(names: Collection[str], timeout_ms: int) -> UpdateFeaturesRequest:
        return UpdateFeaturesRequest(
            timeout_ms=timeout_ms,
            feature_updates=[
                UpdateFeaturesRequest.FeatureUpdateKey(
                    feature=name, max_version_level=wanted[name].level, upgrade_type=wanted[name].type
                )
                for name in names
            ],
            validate_only=validate_only,
        )

    def read(names: Collection[str], answer: UpdateFeaturesResponse) -> Mapping[str, Exception | None]:
        _check_controller([answer.error_code], engine.asks_controllers)
        if answer.error_code:
            return dict.fromkeys(names, failure(answer.error_code, answer.error_message))
        if not answer.results:
            return dict.fromkeys(names)
        return {
            one.feature: failure(one.error_code, one.error_message) if one.error_code else None
            for one in answer.results
        }

    places = dict.fromkeys(wanted, Role.CONTROLLER_EITHER_WAY)
    return await engine.items("update_features", places, build, read, deadline=engine.deadline(timeout_ms))


async def describe_api_versions(
    engine: Engine, node_ids: Iterable[int] | None = None, *, timeout_ms: int | None = None
) -> Results[int, tuple[ApiRange, ...]]:
    """Describe the APIs and versions that each node serves; without ids: all nodes."""
    deadline = engine.deadline(timeout_ms)
    if node_ids is None:
        cluster = await describe_cluster(engine, timeout_ms=timeout_ms)
        node_ids = [node.id for node in cluster.nodes]

    def read(
        nodes: Collection[int], answer: ApiVersionsResponse
    ) -> dict[int, tuple[ApiRange, ...] | Exception]:
        outcome = failure(answer.error_code) if answer.error_code else read_apis(answer)
        return dict.fromkeys(nodes, outcome)

    places: dict[int, Place] = {node: node for node in node_ids}
    return await engine.items(
        "describe_api_versions", places, lambda nodes, timeout_ms: _hello(), read, deadline=deadline
    )


def read_apis(answer: ApiVersionsResponse) -> tuple[ApiRange, ...]:
    """Read the APIs in a response, by key; pure."""
    ranges = []
    for told in sorted(answer.api_keys, key=lambda one: one.api_key):
        known = API_BY_KEY.get(told.api_key)
        usable = None
        if known is not None:
            ours = known.stable_versions or known.versions
            last = min(told.max_version, ours[-1])
            usable = last if last >= max(told.min_version, ours[0]) else None
        name = None if known is None else known.name
        ranges.append(ApiRange(told.api_key, name, told.min_version, told.max_version, usable))
    return tuple(ranges)
