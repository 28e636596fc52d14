"""The same requests to Kafka's controller and to ours, one after the other: the answers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.controller.configs import alter_configs, incremental_alter_configs
from ottla.controller.create_partitions import create_partitions
from ottla.controller.elections import elect_leaders
from ottla.controller.features import update_features
from ottla.controller.quotas import alter_client_quotas, describe_client_quotas
from ottla.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from ottla.controller.topics import create_topics, delete_topics
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.message import Message, Struct
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.messages.update_features import UpdateFeaturesRequest
from tests.interop.metadata.nodes import Controller, ask, run
from tests.interop.peers import KafkaBroker

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment
Deleted = DeleteTopicsRequest.DeleteTopicState
Moves = AlterPartitionReassignmentsRequest
Quotas = AlterClientQuotasRequest
Filters = DescribeClientQuotasRequest
Updates = UpdateFeaturesRequest
Case = tuple[Message, int, Callable[..., Any]]
"""A request, its version, and who decides on it here, given the controller's state (or image) and it."""


def topics(*names: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreateTopicsRequest:
    made = [
        Topic(name=name, num_partitions=partitions, replication_factor=replicas, **fields) for name in names
    ]
    return CreateTopicsRequest(topics=made)


def configured(**configs: str | None) -> list[Config]:
    return [Config(name=name.replace("_", "."), value=value) for name, value in configs.items()]


def assigned(*assignments: tuple[int, list[int]]) -> list[Assignment]:
    return [Assignment(partition_index=index, broker_ids=brokers) for index, brokers in assignments]


def creations() -> Iterator[CreateTopicsRequest]:
    yield topics("plain", "two")
    yield topics(
        "with.settings", partitions=3, configs=configured(retention_ms="1000", cleanup_policy="compact")
    )
    yield topics("defaults", partitions=-1, replicas=-1)
    yield topics("plain")
    yield topics("with_settings")
    yield topics("twice", "twice", "once.more")
    yield topics("__cluster_metadata")
    for name in ("", ".", "..", "a b", "x" * 250):
        yield topics(name)
    yield topics("t", partitions=0)
    yield topics("t", partitions=-2)
    yield topics("t", replicas=0)
    yield topics("t", replicas=-2)
    yield topics("t", replicas=2)
    yield topics("t", configs=configured(no_such="1"))
    yield topics("t", configs=configured(retention_ms="soon"))
    yield topics("t", configs=configured(cleanup_policy="sleep"))
    yield topics("t", configs=configured(segment_bytes="1"))
    yield topics("t", configs=configured(retention_ms=None))
    yield topics("t", configs=configured(min_insync_replicas="0"))
    yield topics("by.hand", partitions=-1, replicas=-1, assignments=assigned((0, [1]), (1, [1])))
    yield topics("t", partitions=1, replicas=-1, assignments=assigned((0, [1])))
    yield topics("t", partitions=-1, replicas=1, assignments=assigned((0, [1])))
    yield topics("t", partitions=-1, replicas=-1, assignments=assigned((0, [1]), (0, [1])))
    yield topics("t", partitions=-1, replicas=-1, assignments=assigned((1, [1])))
    yield topics("t", partitions=-1, replicas=-1, assignments=assigned((0, [])))
    yield topics("t", partitions=-1, replicas=-1, assignments=assigned((0, [9])))
    yield topics("t", partitions=-1, replicas=-1, assignments=assigned((0, [1, 1])))
    request = topics("dry")
    request.validate_only = True
    yield request
    yield topics("many", partitions=10_001)


def more_partitions() -> Iterator[CreatePartitionsRequest]:
    for name, count, brokers in (
        ("plain", 3, None),
        ("plain", 3, None),
        ("plain", 1, None),
        ("no", 3, None),
        ("plain", 0, None),
        ("plain", 4, [[1]]),
        ("plain", 6, [[1]]),
        ("plain", 5, [[9]]),
        ("plain", 5, [[1, 1]]),
        ("plain", 5, [[]]),
    ):
        assignments = None
        if brokers is not None:
            assignments = [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=b) for b in brokers]
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        yield CreatePartitionsRequest(topics=[topic])
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="plain", count=9, assignments=None)
    yield CreatePartitionsRequest(topics=[topic, topic])


def changes() -> Iterator[IncrementalAlterConfigsRequest]:
    for name, setting, operation, value in (
        ("plain", "retention.ms", 0, "7"),
        ("plain", "retention.ms", 0, "x"),
        ("plain", "no.such", 0, "1"),
        ("no", "retention.ms", 0, "7"),
        ("plain", "cleanup.policy", 2, "compact"),
        ("plain", "cleanup.policy", 3, "delete"),
        ("plain", "retention.ms", 2, "1"),
        ("plain", "retention.ms", 1, None),
        ("", "retention.ms", 0, "7"),
        ("a b", "retention.ms", 0, "7"),
        ("plain", "min.insync.replicas", 0, "-1"),
        ("plain", "compression.type", 0, "rar"),
    ):
        config = IncrementalAlterConfigsRequest.AlterableConfig(
            name=setting, config_operation=operation, value=value
        )
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=2, resource_name=name, configs=[config]
        )
        yield IncrementalAlterConfigsRequest(resources=[resource])


def replacements() -> Iterator[AlterConfigsRequest]:
    for name, setting, value in (
        ("plain", "retention.ms", "9"),
        ("plain", "retention.ms", "x"),
        ("no", "x", "1"),
    ):
        config = AlterConfigsRequest.AlterableConfig(name=setting, value=value)
        resource = AlterConfigsRequest.AlterConfigsResource(
            resource_type=2, resource_name=name, configs=[config]
        )
        yield AlterConfigsRequest(resources=[resource])


def elections() -> Iterator[ElectLeadersRequest]:
    for kind in (0, 1):
        yield ElectLeadersRequest(election_type=kind, topic_partitions=None)
        for name, index in (("plain", 0), ("plain", 77), ("no", 0)):
            partitions = ElectLeadersRequest.TopicPartitions(topic=name, partitions=[index])
            yield ElectLeadersRequest(election_type=kind, topic_partitions=[partitions])


def moves() -> Iterator[AlterPartitionReassignmentsRequest]:
    for name, index, replicas in (
        ("plain", 0, [1]),
        ("plain", 0, None),
        ("plain", 0, [9]),
        ("plain", 0, []),
        ("plain", 77, [1]),
        ("no", 0, [1]),
        ("plain", 0, [1, 1]),
    ):
        partition = Moves.ReassignablePartition(partition_index=index, replicas=replicas)
        yield Moves(topics=[Moves.ReassignableTopic(name=name, partitions=[partition])])


def quotas() -> Iterator[AlterClientQuotasRequest]:
    for entity, key, value in (
        ({"user": "alice"}, "producer_byte_rate", 1000.0),
        ({"user": None}, "consumer_byte_rate", 5.0),
        ({"user": "alice", "client-id": "c"}, "request_percentage", 12.5),
        ({"ip": "10.1.2.3"}, "connection_creation_rate", 3.0),
        ({"user": "alice"}, "producer_byte_rate", 1.5),
        ({"user": "alice"}, "producer_byte_rate", -1.0),
        ({"user": "alice"}, "no_such", 1.0),
        ({"planet": "x"}, "producer_byte_rate", 1.0),
        ({}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"user": "alice"}, "connection_creation_rate", 3.0),
        ({"ip": "10.1.2.3", "user": "a"}, "connection_creation_rate", 3.0),
        ({"ip": "1.1.1.1"}, "connection_creation_rate", 3e9),
        ({"user": "nobody"}, "producer_byte_rate", None),
    ):
        parts = [Quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        op = Quotas.OpData(key=key, value=value or 0.0, remove=value is None)
        yield Quotas(entries=[Quotas.EntryData(entity=parts, ops=[op])])


def quota_filters() -> Iterator[DescribeClientQuotasRequest]:
    for is_strict, *components in (
        (False, ("user", 0, "alice")),
        (True, ("user", 0, "alice")),
        (False, ("user", 1, None)),
        (False, ("user", 2, None)),
        (False, ("ip", 2, None)),
        (False,),
        (False, ("user", 0, None)),
        (False, ("user", 1, "x")),
        (False, ("", 1, None)),
        (False, ("planet", 1, None)),
        (False, ("user", 2, None), ("ip", 2, None)),
        (False, ("user", 7, None)),
    ):
        filters: Any = [Filters.ComponentData(entity_type=k, match_type=t, match=m) for k, t, m in components]
        yield Filters(components=filters, strict=is_strict)


def levels() -> Iterator[UpdateFeaturesRequest]:
    for name, level, kind in (
        ("group.version", 1, 1),
        ("group.version", 0, 1),
        ("group.version", 7, 1),
        ("no.such", 1, 1),
        ("group.version", -1, 1),
        ("metadata.version", 25, 2),
        ("metadata.version", 25, 3),
        ("metadata.version", 30, 1),
        ("metadata.version", 31, 1),
        ("metadata.version", 99, 1),
        ("group.version", 1, 0),
        ("share.version", 0, 2),
        ("share.version", 1, 2),
        ("share.version", 1, 1),
        ("kraft.version", 0, 2),
        ("kraft.version", 9, 1),
    ):
        update = Updates.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        yield Updates(feature_updates=[update])


def deletions() -> Iterator[DeleteTopicsRequest]:
    for states in (
        [Deleted(name="no")],
        [Deleted(name=None, topic_id=b"n" * 16)],
        [Deleted(name=None)],
        [Deleted(name="plain", topic_id=b"n" * 16)],
        [Deleted(name="plain"), Deleted(name="plain")],
        [Deleted(name=None, topic_id=b"n" * 16)] * 2,
        [Deleted(name="plain"), Deleted(name="two")],
    ):
        yield DeleteTopicsRequest(topics=states)


def cases() -> Iterator[Case]:
    yield from ((request, 7, create_topics) for request in creations())
    yield from ((request, 3, create_partitions) for request in more_partitions())
    yield from ((request, 1, incremental_alter_configs) for request in changes())
    yield from ((request, 2, alter_configs) for request in replacements())
    yield from ((request, 2, elect_leaders) for request in elections())
    yield from ((request, 1, alter_partition_reassignments) for request in moves())
    yield ListPartitionReassignmentsRequest(topics=None), 0, list_partition_reassignments
    yield from ((request, 1, alter_client_quotas) for request in quotas())
    yield from ((request, 1, describe_client_quotas) for request in quota_filters())
    for version in (1, 2):
        yield from ((request, version, update_features) for request in levels())
    yield from ((request, 6, delete_topics) for request in deletions())


def plain(value: Any) -> Any:
    """An answer as data: ids that differ from run to run are only there or not, order does not count."""
    if isinstance(value, Struct):
        names = [
            name for name in value.__slots__ if name not in ("unknown_tagged_fields", "throttle_time_ms")
        ]
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, list):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, bytes) and value not in (uuid.ZERO, b"n" * 16):
        return "some id"
    return value


async def answer_here(
    controller: Controller, request: Message, version: int, decision: Callable[..., Any]
) -> Any:
    try:
        if decision in (list_partition_reassignments, describe_client_quotas):
            return plain(decision(controller.quorum.image, request))
        extra = (version,) if decision in (update_features, delete_topics) else ()
        return plain(await controller.do(decision, request, *extra))
    except KafkaError as error:
        return error.code.name, error.message


def answer_there(port: int, request: Message, version: int) -> Any:
    return plain(ask(port, request, version))


def same(there: Any, here: Any) -> bool:
    """A raised error stands for every place of the answer where Kafka puts it."""
    if isinstance(here, tuple):
        text = repr(there)
        return f"'error_code': {int(ErrorCode[here[0]])}" in text and (here[1] is None or here[1] in text)
    return bool(there == here)


@pytest.mark.parametrize("quorum", ["static"])
def test_every_answer_is_kafkas(tmp_path: Path, quorum: str) -> None:
    theirs = KafkaBroker(tmp_path / "theirs")
    ours = KafkaBroker(tmp_path / "ours")
    for broker in (theirs, ours):
        broker.extra_properties["controller.quorum.voters"] = f"1@127.0.0.1:{broker.controller_port}"
    differences: list[str] = []

    async def compare() -> None:
        async with Controller(ours) as controller:
            await controller.start_broker()
            for request, version, decision in cases():
                if "timeout_ms" in request.__slots__:
                    request.timeout_ms = 30_000  # type: ignore[attr-defined]
                there = answer_there(theirs.port, request, version)
                here = await answer_here(controller, request, version, decision)
                if not same(there, here):
                    differences.append(f"{request}\n  Kafka: {there}\n  here:  {here}")

    with theirs:
        run(compare())
    assert not differences, f"{len(differences)} answers differ:\n" + "\n".join(differences)


def test_the_quorum_is_described_as_by_kafka(tmp_path: Path) -> None:
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])]
    )

    def shape(response: Any) -> Any:
        found = response.topics[0].partitions[0]
        voter = found.current_voters[0]
        return (
            found.leader_id,
            found.leader_epoch,
            found.error_code,
            [state.replica_id for state in found.current_voters],
            found.high_watermark <= voter.log_end_offset,
            voter.last_fetch_timestamp > 0,
            [(node.node_id, [listener.name for listener in node.listeners]) for node in response.nodes],
        )

    theirs, ours = KafkaBroker(tmp_path / "theirs"), KafkaBroker(tmp_path / "ours")

    async def describe() -> Any:
        async with Controller(ours) as controller:
            return shape(controller.quorum.describe_quorum(request))

    with theirs:
        expected = shape(ask(theirs.port, request, 2))
    assert run(describe()) == expected
