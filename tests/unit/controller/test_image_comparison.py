"""A snapshot in place of records: the delta says what the records would have said."""

from __future__ import annotations

from ottla.controller.image import ClusterImage
from ottla.controller.image_comparison import difference
from ottla.controller.image_delta import ImageDelta
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

OLD, KEPT, NEW = (bytes([number]) * 16 for number in (1, 2, 3))


def topic(name: str, topic_id: bytes, partitions: int) -> list[Message]:
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
    for index in range(partitions):
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                directories=[b"d" * 16],
            )
        )
    return records


BEFORE: list[Message] = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    RegisterBrokerRecord(broker_id=1, incarnation_id=b"i" * 16, broker_epoch=3, fenced=True),
    *topic("old", OLD, 2),
    *topic("kept", KEPT, 2),
    ConfigRecord(resource_type=2, resource_name="kept", name="retention.ms", value="1"),
]
CHANGES: list[Message] = [
    RemoveTopicRecord(topic_id=OLD),
    *topic("new", NEW, 1),
    PartitionChangeRecord(topic_id=KEPT, partition_id=1, leader=-1),
    PartitionRecord(partition_id=2, topic_id=KEPT, replicas=[1], isr=[1], leader=1, directories=[b"d" * 16]),
    ConfigRecord(resource_type=2, resource_name="kept", name="retention.ms", value=None),
    BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=-1),
    ProducerIdsRecord(broker_id=1, broker_epoch=3, next_producer_id=1000),
]


def replayed(*records: Message) -> ClusterImage:
    image = ClusterImage()
    for record in records:
        image.offset += 1
        image.replay(record)
    return image


def test_the_difference_of_two_states_is_what_replay_between_them_would_tell() -> None:
    before, after = replayed(*BEFORE), replayed(*BEFORE, *CHANGES)
    image, told = replayed(*BEFORE), ImageDelta()
    for record in CHANGES:
        image.replay(record, told)
    found = difference(before, after)
    assert found.topics_created.keys() == told.topics_created.keys() == {NEW}
    assert found.topics_deleted.keys() == told.topics_deleted.keys() == {OLD}
    assert found.partitions_changed == told.partitions_changed
    assert found.partitions_changed[KEPT][2] is None
    assert found.configs_changed == told.configs_changed == {(2, "kept")}
    assert found.brokers_changed == told.brokers_changed == {1}
    assert found.producer_ids_changed
    assert told.producer_ids_changed
    assert not found.features_changed
    assert (found.first_offset, found.last_offset) == (before.offset + 1, after.offset)


def test_equal_states_differ_in_nothing() -> None:
    assert not difference(replayed(*BEFORE), replayed(*BEFORE))


def test_from_nothing_everything_is_new() -> None:
    found = difference(ClusterImage(), replayed(*BEFORE))
    assert found.topics_created.keys() == {OLD, KEPT}
    assert found.partitions_changed == {OLD: {0: None, 1: None}, KEPT: {0: None, 1: None}}
    assert found.features_changed
