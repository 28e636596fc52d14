"""Large changes of a cluster on an empty node: how long each holds the loop, with what it sets going.

One request changes up to 10,000 partitions, topics or quotas, as many as a controller accepts. The node then
has `REST_S` for what follows: the image, the logs of its partitions, their files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ottla.wire.frame import request_frame
from ottla.wire.message import Message
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.load.sweep.run import Measured, Other, measure_frame, swept_node

COUNT = 4_900
PARTITIONS_MAX = 9_999
REST_S = 10.0
_WIDE = "wide"


def changes(count: int = COUNT, partitions: int = PARTITIONS_MAX) -> Iterator[tuple[str, Message, int]]:
    """(what changes, request, version), in an order in which each finds what it changes."""
    names = [f"t{index}" for index in range(count)]
    yield f"{2 * count} topics, validate_only", _creation(2 * count, validate_only=True), 7
    yield f"{count} topics", _creation(count), 7
    settings = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=2,
            resource_name=name,
            configs=[IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="1000000")],
        )
        for name in names
    ]
    yield f"{count} topics", IncrementalAlterConfigsRequest(resources=settings), 1
    more = [CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=2) for name in names]
    yield f"{count} topics to 2", CreatePartitionsRequest(topics=more, timeout_ms=60_000), 3
    everything = ElectLeadersRequest(topic_partitions=None, timeout_ms=60_000)
    yield f"all of {2 * count} partitions", everything, 2
    named = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0]) for name in names]
    yield (
        f"{count} named partitions",
        ElectLeadersRequest(topic_partitions=named, timeout_ms=60_000),
        2,
    )
    moves = [
        AlterPartitionReassignmentsRequest.ReassignableTopic(
            name=name,
            partitions=[
                AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=[0])
                for index in range(2)
            ],
        )
        for name in names
    ]
    yield (
        f"{2 * count} partitions",
        AlterPartitionReassignmentsRequest(topics=moves, timeout_ms=60_000),
        1,
    )
    entries = [
        AlterClientQuotasRequest.EntryData(
            entity=[AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=f"u{index}")],
            ops=[AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1000.0)],
        )
        for index in range(2 * count)
    ]
    yield f"{2 * count} quotas", AlterClientQuotasRequest(entries=entries), 1
    yield f"{count} topics of 2 partitions", _deletion(names), 6
    yield f"one topic of {partitions} partitions", _creation(1, partitions), 7
    yield f"the topic of {partitions} partitions", _deletion([_WIDE]), 6


def _creation(count: int, partitions: int = 1, *, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=f"t{index}" if count > 1 else _WIDE, num_partitions=partitions, replication_factor=1
        )
        for index in range(count)
    ]
    return CreateTopicsRequest(topics=topics, validate_only=validate_only, timeout_ms=60_000)


def _deletion(names: list[str]) -> DeleteTopicsRequest:
    topics = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=topics, timeout_ms=60_000)


def measure_changes(
    directory: Path, count: int = COUNT, partitions: int = PARTITIONS_MAX
) -> Iterator[Measured]:
    """Change an empty node step by step."""
    with swept_node(directory, share=0) as node:
        other = Other(node.port)
        for name, message, version in changes(count, partitions):
            assert message.API_KEY is not None
            frame = request_frame(message, version, 1, "changes")
            yield measure_frame(node, other, message.API_KEY, version, name, frame, rest_s=REST_S)
        other.close()
        print((directory / "output").read_text())
