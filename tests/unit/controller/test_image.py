"""The state is what the records make it, and a snapshot of it makes it again."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.controller.records import RECORD_CLASSES, decode_record, encode_record
from ottla.controller.registrations import InvalidMetadata
from ottla.wire.errors import KafkaError, MalformedMessage
from ottla.wire.message import Message
from ottla.wire.messages import metadata_records as records
from ottla.wire.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.wire.messages.protocol_data import KRaftVersionRecord

from .cluster import Cluster, identifier


def replayed(*given_records: Message) -> ClusterImage:
    image = ClusterImage()
    for offset, record in enumerate(given_records):
        image.offset = offset
        image.replay(record)
    return image


def topic(name: str) -> TopicRecord:
    return TopicRecord(name=name, topic_id=identifier(name))


def partition(name: str, index: int = 0) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index, topic_id=identifier(name), replicas=[1], isr=[1], leader=1, leader_epoch=0,
        partition_epoch=0, directories=[identifier("d")],
    )  # fmt: skip


def through_a_snapshot(image: ClusterImage) -> ClusterImage:
    level = image.metadata_version
    return replayed(*[decode_record(encode_record(record, level)) for record in image.to_records()])


operations = st.lists(
    st.sampled_from(
        ["create", "delete", "stop", "kill", "start", "beat", "config", "unregister", "ids", "isr"]
    ),
    max_size=25,
)


def run(cluster: Cluster, name: str, step: int) -> None:
    """Do one thing to the cluster; what cannot be done now is refused and changes nothing."""
    from ottla.controller.producer_ids import allocate_producer_ids
    from ottla.controller.topics import delete_topics
    from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest

    broker = step % 3 + 1
    if name == "create":
        cluster.create(f"t{step}", [broker], [broker % 3 + 1, broker], configs={"min.insync.replicas": "2"})
    elif name == "delete" and cluster.image.topics_by_name:
        names = sorted(cluster.image.topics_by_name)
        cluster.do(delete_topics, DeleteTopicsRequest(topic_names=[names[step % len(names)]]), 5)
    elif name == "stop":
        cluster.heartbeat(broker, want_shut_down=True)
    elif name == "kill":
        cluster.state.now_ms += 60_000
    elif name == "start":
        cluster.register(broker, run=step, previous_epoch=cluster.epochs.get(broker, -1))
    elif name == "beat":
        cluster.heartbeat(broker)
    elif name == "config":
        cluster.apply(
            [ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value=str(step))]
        )
    elif name == "ids":
        request = AllocateProducerIdsRequest(broker_id=broker, broker_epoch=cluster.epochs[broker])
        cluster.do(allocate_producer_ids, request)


@settings(max_examples=60)
@given(operations)
def test_a_snapshot_replays_to_an_equal_image_whatever_happened(names: list[str]) -> None:
    cluster = Cluster().start(1, 2, 3)
    for step, name in enumerate(names):
        try:
            run(cluster, name, step)
        except (KafkaError, AssertionError, KeyError):
            continue
    assert through_a_snapshot(cluster.image) == cluster.image
    assert replayed(*cluster.log) == cluster.image
    assert cluster.image.copy() == cluster.image


def test_a_copy_goes_its_own_way() -> None:
    image = replayed(topic("a"), partition("a"))
    copy = image.copy()
    copy.replay(RemoveTopicRecord(topic_id=identifier("a")))
    copy.replay(ConfigRecord(resource_type=4, resource_name="", name="x", value="1"))
    assert image.partition("a", 0) is not None
    assert image.configs == {}
    assert copy.topics == {}


def test_a_transaction_takes_effect_at_its_end() -> None:
    image = replayed(BeginTransactionRecord(name="t"), topic("a"))
    assert image.is_in_transaction
    assert image.topics == {}
    image.replay(EndTransactionRecord())
    assert "a" in image.topics_by_name
    assert not image.is_in_transaction


def test_an_aborted_transaction_leaves_nothing() -> None:
    assert replayed(BeginTransactionRecord(), topic("a"), AbortTransactionRecord()).topics == {}


def test_every_change_of_a_partition_counts_and_one_with_a_leader_starts_an_epoch() -> None:
    image = replayed(topic("a"), partition("a"))
    image.replay(PartitionChangeRecord(topic_id=identifier("a"), partition_id=0, isr=[]))
    found = image.partition("a", 0)
    assert found is not None
    assert (found.partition_epoch, found.leader_epoch, found.isr) == (1, 0, ())
    image.replay(PartitionChangeRecord(topic_id=identifier("a"), partition_id=0, leader=1))
    found = image.partition(identifier("a"), 0)
    assert found is not None
    assert (found.partition_epoch, found.leader_epoch) == (2, 1)


@pytest.mark.parametrize(
    "contradiction",
    [
        [topic("a"), topic("a")],
        [partition("a")],
        [RemoveTopicRecord(topic_id=identifier("a"))],
        [PartitionChangeRecord(topic_id=identifier("a"), partition_id=0)],
        [topic("a"), PartitionChangeRecord(topic_id=identifier("a"), partition_id=3)],
        [records.UnfenceBrokerRecord(id=1, epoch=1)],
        [records.BrokerRegistrationChangeRecord(broker_id=1)],
        [records.UnregisterBrokerRecord(broker_id=1)],
        [ClearElrRecord(topic_name="a")],
        [EndTransactionRecord()],
        [BeginTransactionRecord(), BeginTransactionRecord()],
        [ProducerIdsRecord(next_producer_id=2000), ProducerIdsRecord(next_producer_id=1000)],
        [records.RemoveAccessControlEntryRecord(id=identifier("acl"))],
        [records.RemoveUserScramCredentialRecord(name="alice", mechanism=1)],
        [
            topic("a"),
            PartitionRecord(topic_id=identifier("a"), replicas=[1, 2], directories=[identifier("d")]),
        ],
    ],
)
def test_a_log_that_contradicts_itself_is_refused(contradiction: list[Message]) -> None:
    with pytest.raises(InvalidMetadata):
        replayed(*contradiction)


def test_a_delta_tells_what_was_before() -> None:
    image = replayed(topic("old"), partition("old"), topic("gone"), partition("gone"))
    before = image.partition("old", 0)
    delta = ImageDelta()
    assert not delta
    for record in (
        PartitionChangeRecord(topic_id=identifier("old"), partition_id=0, isr=[]),
        PartitionChangeRecord(topic_id=identifier("old"), partition_id=0, isr=[1]),
        topic("new"),
        partition("new"),
        topic("brief"),
        partition("brief"),
        RemoveTopicRecord(topic_id=identifier("brief")),
        RemoveTopicRecord(topic_id=identifier("gone")),
        ConfigRecord(resource_type=2, resource_name="new", name="x", value="1"),
        ClientQuotaRecord(key="k", value=1.0),
        FeatureLevelRecord(name="group.version", feature_level=1),
    ):
        image.replay(record, delta)
    assert delta
    assert delta.partitions_changed == {identifier("old"): {0: before}, identifier("new"): {0: None}}
    assert list(delta.topics_created) == [identifier("new")]
    assert [topic.name for topic in delta.topics_deleted.values()] == ["gone"]
    assert delta.configs_changed == {(2, "new")}
    assert (delta.features_changed, delta.client_quotas_changed, delta.acls_changed) == (True, True, False)


def test_every_kind_of_metadata_record_can_be_replayed_or_is_refused_by_name() -> None:
    with pytest.raises(InvalidMetadata, match="is not a record of the metadata log"):
        ClusterImage().replay(KRaftVersionRecord())
    for cls in RECORD_CLASSES.values():
        with contextlib.suppress(InvalidMetadata):
            ClusterImage().replay(cls())


class TestBytes:
    def test_a_value_is_frame_version_type_version_and_message(self) -> None:
        value = encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 30)
        assert value == b"\x01\x0c\x00\x11metadata.version\x00\x1e\x00"
        assert decode_record(value) == FeatureLevelRecord(name="metadata.version", feature_level=30)

    @pytest.mark.parametrize(
        "value",
        [
            b"",
            b"\x02\x0c\x00",
            b"\x01\x7f\x00",
            b"\x01\x0c\x09",
            b"\x01\x0c\x00\x05ab",
            b"\x01" + b"\xff" * 9,
        ],
    )
    def test_what_is_no_record_is_refused(self, value: bytes) -> None:
        with pytest.raises(MalformedMessage):
            decode_record(value)

    def test_the_version_of_a_record_follows_the_level_of_the_cluster(self) -> None:
        def version(record: Message, level: int) -> int:
            return encode_record(record, level)[2]

        assert [version(partition("a"), level) for level in (17, 22, 23, 30)] == [1, 1, 2, 2]
        assert [version(records.RegisterBrokerRecord(rack=None), level) for level in (7, 8, 17, 30)] == [
            1,
            2,
            3,
            4,
        ]
        change = records.BrokerRegistrationChangeRecord
        assert version(change(fenced=1), 30) == 0
        assert version(change(in_controlled_shutdown=1), 30) == 1
        assert version(change(log_dirs=[identifier("d")]), 30) == 2
        assert version(change(cordoned_log_dirs=[]), 30) == 3
