"""Metadata: brokers, topics by name and id, errors of partitions, and topics that are not there."""

from __future__ import annotations

import pytest
from tests.unit.server.handlers.support import add_topic, ask, broker_of, image_of, register

from ottla.wire import uuid
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.metadata_records import FenceBrokerRecord, UnregisterBrokerRecord

Topic = MetadataRequest.MetadataRequestTopic
NO_CREATION = {"auto.create.topics.enable": "false"}
ALL_OPERATIONS = 3576
NOT_ASKED_FOR = -2147483648


def named(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[Topic(name=name) for name in names])


@pytest.mark.parametrize("version", range(14))
def test_a_topic_is_described_in_every_version(version: int) -> None:
    response = ask(broker_of(image_of(1, 2, orders=2)), named("orders"), version)
    assert [(one.node_id, one.host, one.port) for one in response.brokers] == [
        (1, "host1", 9092),
        (2, "host2", 9092),
    ]
    (topic,) = response.topics
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
    assert [(one.partition_index, one.leader_id, one.replica_nodes) for one in topic.partitions] == [
        (0, 1, [1]),
        (1, 1, [1]),
    ]
    if version >= 1:
        assert response.controller_id in (1, 2)
    if version >= 2:
        assert response.cluster_id == "cluster-of-tests"


def test_all_topics_come_for_null_and_in_version_0_for_an_empty_list() -> None:
    broker = broker_of(image_of(1, a=1, b=1))
    assert {one.name for one in ask(broker, MetadataRequest(topics=None)).topics} == {"a", "b"}
    assert {one.name for one in ask(broker, MetadataRequest(topics=[]), 0).topics} == {"a", "b"}
    assert ask(broker, MetadataRequest(topics=[]), 1).topics == []


def test_a_topic_that_is_named_twice_comes_once() -> None:
    assert len(ask(broker_of(image_of(1, a=1)), named("a", "a")).topics) == 1


def test_topics_are_found_by_id() -> None:
    image = image_of(1, a=1)
    topic_id = image.topics_by_name["a"].id
    response = ask(broker_of(image), MetadataRequest(topics=[Topic(name=None, topic_id=topic_id)]))
    assert [(one.name, one.topic_id, one.error_code) for one in response.topics] == [("a", topic_id, 0)]


def test_an_unknown_id_has_no_name_and_hides_topics_that_are_named_beside_it() -> None:
    request = MetadataRequest(
        topics=[Topic(name=None, topic_id=b"x" * 16), Topic(name="a")],
        include_topic_authorized_operations=True,
    )
    (topic,) = ask(broker_of(image_of(1, a=1)), request).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, b"x" * 16)
    assert topic.topic_authorized_operations == NOT_ASKED_FOR


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("topic", [Topic(name=None), Topic(name="a", topic_id=b"x" * 16)])
def test_ids_and_missing_names_are_refused_before_version_12(version: int, topic: Topic) -> None:
    response = ask(broker_of(image_of(1, a=1)), MetadataRequest(topics=[topic]), version)
    assert [one.error_code for one in response.topics] == [ErrorCode.INVALID_REQUEST]
    assert response.brokers == []


def test_a_topic_that_is_not_there_and_one_that_cannot_be_differ() -> None:
    broker = broker_of(image_of(1), NO_CREATION)
    codes = {one.name: one.error_code for one in ask(broker, named("missing", "not a name", "")).topics}
    assert codes == {
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "not a name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_internal_topics_are_marked() -> None:
    image = image_of(1)
    add_topic(image, "__consumer_offsets")
    assert ask(broker_of(image), named("__consumer_offsets")).topics[0].is_internal


def test_operations_come_only_where_they_are_asked_for() -> None:
    broker = broker_of(image_of(1, a=1))
    plain = ask(broker, named("a"), 8)
    assert plain.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    assert plain.cluster_authorized_operations == NOT_ASKED_FOR
    request = named("a")
    request.include_topic_authorized_operations = True
    assert ask(broker, request).topics[0].topic_authorized_operations == ALL_OPERATIONS
    request.include_cluster_authorized_operations = True
    assert ask(broker, request, 10).cluster_authorized_operations == 8096


def test_fenced_brokers_are_not_listed_and_their_replicas_are_offline() -> None:
    image = image_of(1, 2)
    add_topic(image, "a", replicas=[1, 2], isr=[1])
    image.replay(FenceBrokerRecord(id=2, epoch=20))
    response = ask(broker_of(image), named("a"))
    assert [one.node_id for one in response.brokers] == [1]
    (partition,) = response.topics[0].partitions
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1, 2], [1], [2])


def test_a_partition_without_a_leader_says_so() -> None:
    image = image_of(1)
    add_topic(image, "a", leader=-1, leader_epoch=4)
    (partition,) = ask(broker_of(image), named("a")).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.leader_epoch == 4


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)]
)
def test_a_leader_without_this_listener_cannot_be_reached(version: int, code: ErrorCode) -> None:
    image = image_of(1)
    register(image, 2, listener="OTHER")
    add_topic(image, "a", replicas=[2])
    (partition,) = ask(broker_of(image), named("a"), version).topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (code, -1)
    assert partition.offline_replicas == [2]


def test_version_0_leaves_replicas_on_brokers_that_are_gone_out() -> None:
    image = image_of(1, 2)
    add_topic(image, "a", replicas=[1, 2])
    image.replay(UnregisterBrokerRecord(broker_id=2, broker_epoch=20))
    (partition,) = ask(broker_of(image), named("a"), 0).topics[0].partitions
    assert (partition.error_code, partition.replica_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, [1])
    (partition,) = ask(broker_of(image), named("a"), 1).topics[0].partitions
    assert (partition.error_code, partition.replica_nodes) == (0, [1, 2])


def test_a_replica_in_a_directory_that_is_offline_is_offline() -> None:
    image = image_of(1)
    add_topic(image, "a", directories=[uuid.DIRECTORY_LOST])
    assert ask(broker_of(image), named("a")).topics[0].partitions[0].offline_replicas == [1]


def test_no_live_broker_means_no_controller() -> None:
    image = image_of(1)
    image.replay(FenceBrokerRecord(id=1, epoch=10))
    assert ask(broker_of(image), named()).controller_id == -1
