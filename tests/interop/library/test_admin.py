"""The admin on each cluster: topics, settings, offsets, the cluster; beside confluent-kafka's admin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicCollection
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.admin import OffsetSpec as ConfluentSpec
from confluent_kafka.admin import ResourceType as ConfluentResourceType

from ottla.client.admin import (
    Admin,
    AlterConfig,
    AlterOperation,
    AsyncAdmin,
    ConfigSource,
    ElectionType,
    FeatureUpdate,
    IsolationLevel,
    NewTopic,
    OffsetSpec,
    Replica,
    ResourceType,
    Results,
    broker_resource,
    group_resource,
    topic_resource,
    values,
)
from ottla.client.values import TopicPartition
from ottla.wire.errors import (
    BrokerIdNotRegistered,
    ElectionNotNeeded,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidTopicException,
    InvalidUpdateVersion,
    KafkaError,
    LogDirNotFound,
    NoReassignmentInProgress,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedEndpointType,
    UnsupportedVersion,
    VoterNotFound,
)
from tests.interop.library.admin_support import PATIENCE_MS, made
from tests.interop.library.support import LibraryCluster, eventually, unique


@pytest.fixture
def admin(cluster: LibraryCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, default_api_timeout_ms=PATIENCE_MS) as client:
        yield client


@pytest.fixture
def other(cluster: LibraryCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def write(cluster: LibraryCluster, topic: str, timestamps: list[int], partition: int = 0) -> None:
    producer = ConfluentProducer({"bootstrap.servers": cluster.bootstrap})
    for timestamp in timestamps:
        producer.produce(topic, b"value", partition=partition, timestamp=timestamp)
    assert producer.flush(120) == 0


def kinds(results: Results[Any, Any]) -> dict[Any, type[Exception]]:
    return {item: type(error) for item, error in results.failed.items()}


# Topics


def test_topics_are_made_with_an_outcome_for_each(admin: Admin, cluster: LibraryCluster) -> None:
    fine, again, large, strange = (unique(name) for name in ("fine", "again", "large", "strange"))
    made(admin, cluster, "before")
    admin.create_topics([NewTopic(again, 1, 1)]).all()

    results = admin.create_topics(
        [
            NewTopic(fine, 3, 1, configs={"retention.ms": "7200000"}),
            NewTopic(again, 1, 1),
            NewTopic(large, 1, 9),
            NewTopic("not/a name", 1, 1),
            NewTopic(strange, 1, 1, configs={"no.such.setting": "1"}),
        ]
    )

    assert kinds(results) == {
        again: TopicAlreadyExists,
        large: InvalidReplicationFactor,
        "not/a name": InvalidTopicException,
        strange: InvalidConfig,
    }
    created = results.result(fine)
    assert (created.partitions, created.replication_factor) == (3, 1)
    assert created.configs["retention.ms"].value == "7200000"
    assert created.configs["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    with pytest.raises(KafkaError):
        results.all()


def test_what_is_only_validated_is_not_made(admin: Admin) -> None:
    topic = unique("maybe")

    assert admin.create_topics([NewTopic(topic, 2, 1)], validate_only=True).result(topic).partitions == 2
    assert topic not in admin.list_topics()


def test_topics_are_described_as_another_client_describes_them(
    admin: Admin, other: AdminClient, cluster: LibraryCluster
) -> None:
    topic, missing = made(admin, cluster, "described", 5), unique("missing")

    results = admin.describe_topics([topic, missing])
    theirs = other.describe_topics(TopicCollection([topic]), request_timeout=60)[topic].result(120)

    ours = results.result(topic)
    assert kinds(results) == {missing: UnknownTopicOrPartition}
    # librdkafka writes ids in the other base64.
    assert ours.topic_id == str(theirs.topic_id).replace("+", "-").replace("/", "_")
    assert not ours.is_internal
    for one, their in zip(ours.partitions, theirs.partitions, strict=True):
        assert one.leader is not None
        assert (one.partition, one.leader.id) == (their.id, their.leader.id)
        assert [node.id for node in one.replicas] == [node.id for node in their.replicas]
        assert {node.id for node in one.isr} == {node.id for node in their.isr}
        assert {node.port for node in one.replicas} == {node.port for node in their.replicas}
        assert one.elr == ()


def test_a_large_topic_comes_in_pages(admin: Admin, cluster: LibraryCluster) -> None:
    large, small = made(admin, cluster, "large", 7), made(admin, cluster, "small", 2)

    whole = admin.describe_topics([large, small]).all()
    paged = admin.describe_topics([small, large], partitions_per_answer=2).all()

    assert [one.partition for one in paged[large].partitions] == list(range(7))
    assert {name: one.partitions for name, one in paged.items()} == {
        name: one.partitions for name, one in whole.items()
    }


def test_topics_are_listed_described_and_deleted_by_name_and_id(
    admin: Admin, cluster: LibraryCluster
) -> None:
    first, second = made(admin, cluster, "first"), made(admin, cluster, "second")
    ids = {name: str(admin.list_topics()[name].topic_id) for name in (first, second)}

    assert admin.describe_topics_by_id(list(ids.values())).result(ids[first]).name == first
    missing = unique("missing")
    assert kinds(admin.delete_topics([first, missing])) == {missing: UnknownTopicOrPartition}
    assert kinds(admin.delete_topics_by_id([ids[first], ids[second]])) == {ids[first]: UnknownTopicId}
    eventually(lambda: not {first, second} & admin.list_topics().keys(), "the topics to go")
    eventually(
        lambda: kinds(admin.describe_topics_by_id([ids[first]])) == {ids[first]: UnknownTopicId},
        "the id to be unknown",
    )


def test_partitions_are_added_and_never_taken(admin: Admin, cluster: LibraryCluster) -> None:
    topic, same, missing = (
        made(admin, cluster, "grows", 2),
        made(admin, cluster, "same", 2),
        unique("missing"),
    )

    results = admin.create_partitions({topic: 4, same: 2, missing: 3})

    assert kinds(results) == {same: InvalidPartitions, missing: UnknownTopicOrPartition}
    eventually(lambda: len(admin.describe_topics([topic]).result(topic).partitions) == 4, "four partitions")
    assert kinds(admin.create_partitions({topic: 1})) == {topic: InvalidPartitions}


# Settings


def test_settings_are_changed_one_by_one_and_read_with_their_sources(
    admin: Admin, other: AdminClient, cluster: LibraryCluster
) -> None:
    topic = made(admin, cluster, "settings", retention_ms="3600000")
    resource = topic_resource(topic)
    admin.incremental_alter_configs(
        {
            resource: [
                AlterConfig("cleanup.policy", "compact", AlterOperation.APPEND),
                AlterConfig("segment.bytes", "2097152"),
                AlterConfig("retention.ms", operation=AlterOperation.DELETE),
            ]
        }
    ).all()

    def changed() -> Any:
        told = admin.describe_configs([resource], include_synonyms=True).result(resource)
        return told if told["segment.bytes"].value == "2097152" else None

    found = eventually(changed, "the new values")
    assert found["cleanup.policy"].value == "delete,compact"
    assert found["segment.bytes"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert found["segment.bytes"].synonyms[0].name == "segment.bytes"
    assert found["retention.ms"].is_default
    values_here = {name: entry.value for name, entry in found.items()}

    def theirs() -> dict[str, Any]:
        asked = ConfigResource(ConfluentResourceType.TOPIC, topic)
        (future,) = other.describe_configs([asked], request_timeout=60).values()
        return {name: entry.value for name, entry in future.result(120).items()}

    eventually(lambda: theirs() == values_here, "another client to see the same values")
    only = admin.describe_configs([resource], names=["segment.bytes"], include_documentation=True)
    assert list(only.result(resource)) == ["segment.bytes"]
    assert only.result(resource)["segment.bytes"].documentation


def test_a_setting_that_is_refused_leaves_the_others_of_other_resources(
    admin: Admin, cluster: LibraryCluster
) -> None:
    bad, good = topic_resource(made(admin, cluster, "bad")), topic_resource(made(admin, cluster, "good"))
    missing = topic_resource(unique("missing"))

    results = admin.incremental_alter_configs(
        {bad: {"no.such": "1"}, good: {"max.message.bytes": "4096"}, missing: {"max.message.bytes": "4096"}}
    )

    assert kinds(results) == {bad: InvalidConfig, missing: UnknownTopicOrPartition}
    assert kinds(admin.describe_configs([missing])) == {missing: UnknownTopicOrPartition}
    with_names = {"no.such": "1"}
    assert kinds(admin.incremental_alter_configs({bad: with_names}, validate_only=True)) == {
        bad: InvalidConfig
    }


def test_brokers_loggers_groups_and_client_metrics_have_settings_too(
    admin: Admin, cluster: LibraryCluster
) -> None:
    node = admin.describe_cluster().nodes[0].id
    group = group_resource(unique("group"))
    metrics = values.ConfigResource(ResourceType.CLIENT_METRICS, unique("metrics"))
    logger = values.ConfigResource(ResourceType.BROKER_LOGGER, str(node))
    admin.incremental_alter_configs(
        {
            broker_resource(): {"log.cleaner.backoff.ms": "15001"},
            broker_resource(node): {"background.threads": "9"},
            group: {"consumer.session.timeout.ms": "46000"},
            metrics: {"interval.ms": "60001"},
        }
    ).all()

    def described() -> Any:
        return admin.describe_configs(
            [broker_resource(), broker_resource(node), group, metrics, logger]
        ).all()

    eventually(
        lambda: (
            "log.cleaner.backoff.ms" in described()[broker_resource()]
            and described()[broker_resource(node)]["background.threads"].value == "9"
            and described()[group]["consumer.session.timeout.ms"].value == "46000"
            and described()[metrics]["interval.ms"].value == "60001"
        ),
        "the settings on every broker",
    )
    assert described()[broker_resource(node)]["node.id"].is_read_only
    assert described()[logger]
    kinds_asked = [ResourceType.GROUP, ResourceType.CLIENT_METRICS]
    eventually(lambda: {group, metrics} <= set(admin.list_config_resources(kinds_asked)), "both resources")
    eventually(
        lambda: metrics in admin.list_config_resources([ResourceType.CLIENT_METRICS]), "the metrics' settings"
    )
    admin.incremental_alter_configs(
        {
            broker_resource(): {"log.cleaner.backoff.ms": None},
            broker_resource(node): {"background.threads": None},
        }
    ).all()


# Offsets and records


def test_offsets_of_every_kind_are_as_another_client_sees_them(
    admin: Admin, other: AdminClient, cluster: LibraryCluster
) -> None:
    topic, missing = made(admin, cluster, "offsets", 3), TopicPartition(unique("missing"), 0)
    write(cluster, topic, [1_000, 5_000, 3_000])
    key, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def offset(spec: int) -> int:
        return admin.list_offsets({key: spec}).result(key).offset

    assert [offset(spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.EARLIEST_LOCAL)] == [
        0,
        3,
        0,
    ]
    assert [offset(at) for at in (0, 1_001, 5_001)] == [0, 1, -1]
    newest = admin.list_offsets({key: OffsetSpec.MAX_TIMESTAMP}).result(key)
    assert (newest.offset, newest.timestamp) == (1, 5_000)
    assert offset(OffsetSpec.LATEST_TIERED) == -1

    results = admin.list_offsets(
        {key: OffsetSpec.LATEST, empty: OffsetSpec.LATEST, missing: OffsetSpec.LATEST}
    )
    assert kinds(results) == {missing: UnknownTopicOrPartition}
    asked = {ConfluentPartition(topic, index): ConfluentSpec.latest() for index in range(2)}
    for partition, future in other.list_offsets(asked, request_timeout=60).items():
        ours = results.result(TopicPartition(topic, partition.partition))
        assert ours.offset == future.result(120).offset


def test_an_open_transaction_hides_what_follows_from_committed_readers(
    admin: Admin, cluster: LibraryCluster
) -> None:
    topic = made(admin, cluster, "open")
    key = TopicPartition(topic, 0)
    producer = ConfluentProducer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": unique("open"), "linger.ms": 0}
    )
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"pending", partition=0)
    producer.flush(120)

    def latest(level: IsolationLevel) -> int:
        return admin.list_offsets({key: OffsetSpec.LATEST}, isolation_level=level).result(key).offset

    eventually(lambda: latest(IsolationLevel.READ_UNCOMMITTED) == 1, "the record")
    assert latest(IsolationLevel.READ_COMMITTED) == 0
    producer.abort_transaction(120)
    eventually(lambda: latest(IsolationLevel.READ_COMMITTED) == 2, "the end of the transaction")


def test_records_are_deleted_up_to_an_offset(admin: Admin, cluster: LibraryCluster) -> None:
    topic = made(admin, cluster, "deleted", 3)
    for partition in range(3):
        write(cluster, topic, [1_000] * 4, partition)
    keys = [TopicPartition(topic, index) for index in range(3)]

    results = admin.delete_records({keys[0]: 3, keys[1]: -1, keys[2]: 99})

    assert results.succeeded == {keys[0]: 3, keys[1]: 4}
    assert kinds(results) == {keys[2]: OffsetOutOfRange}
    earliest = admin.list_offsets(dict.fromkeys(keys, OffsetSpec.EARLIEST)).all()
    assert [earliest[key].offset for key in keys] == [3, 4, 0]


# The cluster


def test_the_cluster_is_described_as_another_client_describes_it(admin: Admin, other: AdminClient) -> None:
    def described() -> Any:
        ours = admin.describe_cluster(include_authorized_operations=True, include_fenced_brokers=True)
        theirs = other.describe_cluster(request_timeout=60).result(120)
        assert ours.cluster_id == theirs.cluster_id
        same = {(node.id, node.host, node.port) for node in ours.nodes} == {
            (node.id, node.host, node.port) for node in theirs.nodes
        }
        return ours if same and not any(node.is_fenced for node in ours.nodes) else None

    ours = eventually(described, "all brokers, by both clients")
    assert ours.controller in ours.nodes
    assert values.AclOperation.CREATE in (ours.authorized_operations or ())


def test_the_quorum_features_and_versions_are_told(admin: Admin, cluster: LibraryCluster) -> None:
    quorum = admin.describe_metadata_quorum()
    features = admin.describe_features()
    versions = admin.describe_api_versions().all()

    assert quorum.leader_id in {voter.id for voter in quorum.voters}
    assert quorum.high_watermark > 0
    assert {voter.id for voter in quorum.voters} <= quorum.endpoints.keys()
    assert len(quorum.voters) == cluster.replication
    level = features.finalized["metadata.version"]
    assert features.supported["metadata.version"].last >= level.last > 0
    assert features.finalized_epoch is not None
    assert versions.keys() == {node.id for node in admin.describe_cluster().nodes}
    for apis in versions.values():
        by_name = {api.name: api for api in apis}
        assert (by_name["CreateTopics"].last, by_name["CreateTopics"].usable) == (7, 7)


def test_changes_of_the_cluster_that_make_no_sense_are_refused(admin: Admin) -> None:
    level = admin.describe_features().finalized["metadata.version"].last

    results = admin.update_features({"metadata.version": FeatureUpdate(level)}, validate_only=True)
    assert not results.failed
    wrong = admin.update_features({"metadata.version": FeatureUpdate(999)}, validate_only=True)
    assert kinds(wrong) == {"metadata.version": InvalidUpdateVersion}
    with pytest.raises(BrokerIdNotRegistered):
        admin.unregister_broker(77)
    with pytest.raises((VoterNotFound, UnsupportedVersion)):
        admin.remove_raft_voter(77, "AAAAAAAAAAAAAAAAAAAAAQ")
    with pytest.raises(KafkaError):
        admin.add_raft_voter(77, "AAAAAAAAAAAAAAAAAAAAAQ", [values.Endpoint("CONTROLLER", "127.0.0.1", 9)])


def test_leaders_are_elected_where_that_is_needed(admin: Admin, cluster: LibraryCluster) -> None:
    topic, missing = made(admin, cluster, "elected"), TopicPartition(unique("missing"), 0)
    key = TopicPartition(topic, 0)

    results = admin.elect_leaders(ElectionType.PREFERRED, [key, missing])

    assert kinds(results) == {key: ElectionNotNeeded, missing: UnknownTopicOrPartition}
    assert not admin.elect_leaders(ElectionType.PREFERRED).failed


def test_partitions_are_reassigned(admin: Admin, cluster: LibraryCluster) -> None:
    nodes = sorted(node.id for node in admin.describe_cluster().nodes)
    topic = unique("reassigned")
    admin.create_topics([NewTopic(topic, assignments={0: nodes[:1], 1: nodes[:1]})]).all()
    eventually(lambda: not admin.describe_topics([topic]).failed, "the topic")
    first, second, missing = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 9)

    results = admin.alter_partition_reassignments(
        {first: nodes[-1:], second: None, missing: nodes[:1], TopicPartition(topic, 8): [99]}
    )

    failed = kinds(results)
    assert failed.pop(TopicPartition(topic, 8)) in (InvalidReplicaAssignment, UnknownTopicOrPartition)
    assert failed == {second: NoReassignmentInProgress, missing: UnknownTopicOrPartition}
    assert kinds(admin.alter_partition_reassignments({second: [99]})) == {second: InvalidReplicaAssignment}
    eventually(lambda: not admin.list_partition_reassignments([first, second]), "the reassignment to end")
    assert first not in admin.list_partition_reassignments()

    def replicas() -> list[int]:
        return [node.id for node in admin.describe_topics([topic]).result(topic).partitions[0].replicas]

    eventually(lambda: replicas() == nodes[-1:], "the new replica on every broker")


def test_log_directories_are_looked_at_and_chosen(admin: Admin, cluster: LibraryCluster) -> None:
    topic = made(admin, cluster, "directories")
    write(cluster, topic, [1_000])
    key = TopicPartition(topic, 0)
    node = admin.describe_topics([topic]).result(topic).partitions[0].replicas[0].id

    described = admin.describe_log_dirs([node]).result(node)
    (path,) = (path for path, directory in described.items() if key in directory.replicas)
    replica = Replica(topic, 0, node)

    assert described[path].error is None
    assert described[path].replicas[key].size_bytes > 0
    assert (described[path].total_bytes or 0) > (described[path].usable_bytes or 0) > 0
    assert admin.describe_replica_log_dirs([replica]).result(replica).current == path
    assert kinds(admin.alter_replica_log_dirs({replica: "/no/such/directory"})) == {replica: LogDirNotFound}
    admin.alter_replica_log_dirs({replica: path}).all()


def test_controllers_are_asked_directly(admin: Admin) -> None:
    quorum = admin.describe_metadata_quorum()
    servers = ",".join(f"{one.host}:{one.port}" for ends in quorum.endpoints.values() for one in ends)

    with Admin(bootstrap_controllers=servers, default_api_timeout_ms=PATIENCE_MS) as direct:
        eventually(
            lambda: (
                (active := direct.describe_cluster().controller) is not None
                and active.id == direct.describe_metadata_quorum().leader_id
            ),
            "the active controller",
        )
        assert direct.describe_features().finalized == admin.describe_features().finalized
        assert direct.list_partition_reassignments() == {}
        resource = broker_resource()
        direct.incremental_alter_configs({resource: {"log.cleaner.backoff.ms": None}}).all()
        with pytest.raises(UnsupportedEndpointType):
            direct.list_topics()
        with pytest.raises(BrokerIdNotRegistered):
            direct.unregister_broker(77)


async def _awaited(bootstrap: str, topic: str) -> tuple[set[str], int]:
    async with AsyncAdmin(bootstrap, default_api_timeout_ms=PATIENCE_MS) as awaiting:
        names = set(await awaiting.list_topics())
        key = TopicPartition(topic, 0)
        return names, (await awaiting.list_offsets({key: OffsetSpec.LATEST})).result(key).offset


def test_the_awaited_twin_says_the_same(admin: Admin, cluster: LibraryCluster) -> None:
    import asyncio

    topic = made(admin, cluster, "twin")

    names, offset = asyncio.run(_awaited(cluster.bootstrap, topic))

    assert topic in names
    assert offset == 0
