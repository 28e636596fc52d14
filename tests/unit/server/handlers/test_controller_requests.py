"""What the controller decides and a handler only carries: the answers, and errors of a request as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import CONTROLLER_LISTENER, RunningNode

from ottla.controller.feature_levels import SUPPORTED_FEATURES
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_partition import AlterPartitionRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest

# ElectLeaders


def elect(node: RunningNode, version: int, **fields: int) -> list[tuple[int, int]]:
    """The whole's error code, and that of the partition."""
    partitions = [ElectLeadersRequest.TopicPartitions(topic="a", partitions=[0])]
    request = ElectLeadersRequest(topic_partitions=partitions, timeout_ms=fields.get("timeout_ms", 5000))
    request.election_type = fields.get("election_type", 0)
    response = node.ask(request, version)
    return [
        (response.error_code, one.error_code) for one in response.replica_election_results[0].partition_result
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_partition_with_its_preferred_leader_needs_no_election(node: RunningNode, version: int) -> None:
    node.create("a")
    assert elect(node, version) == [(0, ErrorCode.ELECTION_NOT_NEEDED)]


def test_an_election_of_an_unknown_kind_is_refused_as_a_whole(node: RunningNode) -> None:
    node.create("a")
    assert elect(node, 2, election_type=7) == [(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)]


def test_version_0_has_no_error_of_the_whole(node: RunningNode) -> None:
    node.create("a")
    assert elect(node, 0, timeout_ms=0) == [(0, ErrorCode.REQUEST_TIMED_OUT)]
    assert elect(node, 1, timeout_ms=0) == [(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)]


# Reassignments


def reassign(node: RunningNode, replicas: list[int] | None, timeout_ms: int = 5000) -> tuple[int, int]:
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=replicas)
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="a", partitions=[partition])
    response = node.ask(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=timeout_ms))
    return response.error_code, response.responses[0].partitions[0].error_code


def test_a_reassignment_to_where_the_replicas_are_is_done_at_once(node: RunningNode) -> None:
    node.create("a")
    assert reassign(node, [1]) == (0, 0)
    assert node.ask(ListPartitionReassignmentsRequest(topics=None)).topics == []


def test_reassignments_that_cannot_be_are_refused(node: RunningNode) -> None:
    node.create("a")
    assert reassign(node, [9]) == (0, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    assert reassign(node, None) == (0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    assert reassign(node, [1], timeout_ms=0) == (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT)


# Quotas


def quota_entry(kind: str, name: str) -> AlterClientQuotasRequest.EntryData:
    return AlterClientQuotasRequest.EntryData(
        entity=[AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)],
        ops=[AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1000.0)],
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_quota_is_set_and_found(node: RunningNode, version: int) -> None:
    request = AlterClientQuotasRequest(entries=[quota_entry("user", "alice"), quota_entry("planet", "x")])
    codes = {one.entity[0].entity_type: one.error_code for one in node.ask(request, version).entries}
    assert codes == {"user": 0, "planet": ErrorCode.INVALID_REQUEST}
    component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=0, match="alice")
    (entry,) = node.ask(DescribeClientQuotasRequest(components=[component]), version).entries
    assert [(one.key, one.value) for one in entry.values] == [("producer_byte_rate", 1000.0)]


def test_a_filter_that_has_no_meaning_is_refused(node: RunningNode) -> None:
    component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=9, match="alice")
    response = node.ask(DescribeClientQuotasRequest(components=[component]))
    assert (response.error_code, response.entries) == (ErrorCode.INVALID_REQUEST, None)


# Features


def update(node: RunningNode, feature: str, level: int, version: int) -> tuple[int, str | None]:
    key = UpdateFeaturesRequest.FeatureUpdateKey(feature=feature, max_version_level=level)
    response = node.ask(UpdateFeaturesRequest(feature_updates=[key]), version)
    return response.error_code, response.error_message


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_feature_is_moved_to_a_level_that_all_support(node: RunningNode, version: int) -> None:
    level = node.broker.image.metadata_version
    assert update(node, "metadata.version", level, version)[0] == 0
    code, message = update(node, "no.such.feature", 1, version)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert message is not None
    assert "no.such.feature" in message


# The quorum


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_by_its_leader(node: RunningNode, version: int) -> None:
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
    response = node.ask(DescribeQuorumRequest(topics=[topic]), version)
    (found,) = response.topics[0].partitions
    assert (response.error_code, found.error_code, found.leader_id) == (0, 0, 1)
    assert [one.replica_id for one in found.current_voters] == [1]
    assert found.high_watermark > 0
    if version >= 2:
        assert found.current_voters[0].replica_directory_id != uuid.ZERO
        assert [one.node_id for one in response.nodes] == [1]
        assert (response.error_message, found.error_message) == ("", "")


def test_another_topic_has_no_quorum(node: RunningNode) -> None:
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name="a", partitions=[partition])
    response = node.ask(DescribeQuorumRequest(topics=[topic]))
    (found,) = response.topics[0].partitions
    assert (found.error_code, response.error_message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    assert found.error_message


# Brokers


def test_a_broker_registers_and_is_fenced_until_it_has_caught_up(node: RunningNode) -> None:
    request = BrokerRegistrationRequest(
        broker_id=7,
        cluster_id=node.broker.cluster_id,
        incarnation_id=b"7" * 16,
        listeners=[BrokerRegistrationRequest.Listener(name="PLAINTEXT", host="seven", port=9092)],
        features=[
            BrokerRegistrationRequest.Feature(
                name=name, min_supported_version=lowest, max_supported_version=highest
            )
            for name, (lowest, highest) in SUPPORTED_FEATURES.items()
        ],
        rack=None,
        log_dirs=[b"d" * 16],
    )
    registered = node.ask(request, listener=CONTROLLER_LISTENER)
    assert registered.error_code == 0
    assert node.broker.image.brokers[7].fenced
    beat = BrokerHeartbeatRequest(
        broker_id=7, broker_epoch=registered.broker_epoch, current_metadata_offset=10_000
    )
    answer = node.ask(beat, listener=CONTROLLER_LISTENER)
    assert (answer.error_code, answer.is_fenced) == (0, False)
    assert not node.broker.image.brokers[7].fenced


def test_a_broker_of_another_cluster_is_refused(node: RunningNode) -> None:
    request = BrokerRegistrationRequest(broker_id=7, cluster_id="another", rack=None)
    response = node.ask(request, listener=CONTROLLER_LISTENER)
    assert (response.error_code, response.broker_epoch) == (ErrorCode.INCONSISTENT_CLUSTER_ID, -1)


def test_a_heartbeat_of_a_broker_that_is_not_registered_is_refused(node: RunningNode) -> None:
    response = node.ask(BrokerHeartbeatRequest(broker_id=77, broker_epoch=1), listener=CONTROLLER_LISTENER)
    assert (response.error_code, response.is_fenced) == (ErrorCode.STALE_BROKER_EPOCH, True)


def test_a_heartbeat_waits_for_a_commit_that_takes_longer_than_beats_are_apart(
    start_node: Callable[..., RunningNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been taken by then: to refuse it would tell the broker what is not so."""
    node = start_node({"broker.heartbeat.interval.ms": "10"})
    epoch = node.broker.image.brokers[1].epoch
    submit = node.broker.quorum.submit

    async def submit_slowly(decision: Callable[[Any], Any], **options: Any) -> Any:
        answer = await submit(decision, **options)
        await asyncio.sleep(0.1)
        return answer

    monkeypatch.setattr(node.broker.quorum, "submit", submit_slowly)
    beat = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=10_000)
    answer = node.ask(beat, listener=CONTROLLER_LISTENER)
    assert (answer.error_code, answer.is_fenced) == (0, False)


def test_a_broker_that_is_not_there_cannot_be_unregistered(node: RunningNode) -> None:
    response = node.ask(UnregisterBrokerRequest(broker_id=77))
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert "77" in response.error_message


def test_a_block_of_producer_ids_goes_to_registered_brokers_only(node: RunningNode) -> None:
    epoch = node.broker.image.brokers[1].epoch
    given = node.ask(
        AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), listener=CONTROLLER_LISTENER
    )
    assert (given.error_code, given.producer_id_len) == (0, 1000)
    stale = node.ask(
        AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 9), listener=CONTROLLER_LISTENER
    )
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH


# Replicas


def alter(node: RunningNode, epoch: int, isr: list[int], partition_epoch: int = 0) -> tuple[int, int | None]:
    """The whole's error code, and that of the partition."""
    partition = AlterPartitionRequest.PartitionData(
        partition_index=0,
        leader_epoch=0,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=[AlterPartitionRequest.BrokerState(broker_id=one) for one in isr],
    )
    topic_id = node.broker.image.topics_by_name["a"].id
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=epoch,
        topics=[AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=[partition])],
    )
    response = node.ask(request, listener=CONTROLLER_LISTENER)
    return response.error_code, response.topics[0].partitions[0].error_code if response.topics else None


def test_the_replicas_in_sync_are_told_by_the_leader_with_its_epochs(node: RunningNode) -> None:
    node.create("a")
    epoch = node.broker.image.brokers[1].epoch
    assert alter(node, epoch, [1]) == (0, 0)
    assert alter(node, epoch, [1], partition_epoch=7) == (0, ErrorCode.NOT_CONTROLLER)
    assert alter(node, epoch, [], partition_epoch=0) == (0, ErrorCode.INVALID_REQUEST)
    assert alter(node, epoch + 9, [1]) == (ErrorCode.STALE_BROKER_EPOCH, None)


def assign(node: RunningNode, epoch: int, directory: bytes) -> int:
    partition = AssignReplicasToDirsRequest.PartitionData(partition_index=0)
    topic = AssignReplicasToDirsRequest.TopicData(
        topic_id=node.broker.image.topics_by_name["a"].id, partitions=[partition]
    )
    request = AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=epoch,
        directories=[AssignReplicasToDirsRequest.DirectoryData(id=directory, topics=[topic])],
    )
    code: int = node.ask(request, listener=CONTROLLER_LISTENER).error_code
    return code


def test_the_directory_of_a_replica_is_written_down(node: RunningNode) -> None:
    node.create("a")
    broker = node.broker.image.brokers[1]
    assert assign(node, broker.epoch, broker.directories[0]) == 0
    partition = node.broker.image.partition("a", 0)
    assert partition is not None
    assert partition.directories == broker.directories
    assert assign(node, broker.epoch + 9, broker.directories[0]) == ErrorCode.STALE_BROKER_EPOCH


def test_a_controller_is_registered_with_its_endpoints(node: RunningNode) -> None:
    listener = ControllerRegistrationRequest.Listener(name="CONTROLLER", host="nine", port=9093)
    request = ControllerRegistrationRequest(controller_id=9, incarnation_id=b"9" * 16, listeners=[listener])
    assert node.ask(request, listener=CONTROLLER_LISTENER).error_code == 0
    assert [one.host for one in node.broker.image.controllers[9].endpoints] == ["nine"]
