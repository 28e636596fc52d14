"""Topics come and go by the rules of Kafka's controller."""

from __future__ import annotations

import pytest

from ottla.controller.create_partitions import create_partitions
from ottla.controller.topics import create_topics, delete_topics
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode, PolicyViolation, TopicDeletionDisabled
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.metadata_records import ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord

from .cluster import Cluster

Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


def topic(name: str = "t", partitions: int = -1, replicas: int = -1, **fields: object) -> Topic:
    return Topic(name=name, num_partitions=partitions, replication_factor=replicas, **fields)  # type: ignore[arg-type]


def created(cluster: Cluster, *topics: Topic, **fields: object) -> CreateTopicsResponse:
    return cluster.do(create_topics, CreateTopicsRequest(topics=list(topics), **fields))  # type: ignore[arg-type]


def refusal(cluster: Cluster, *topics: Topic) -> tuple[str, str | None]:
    before = len(cluster.log)
    result = created(cluster, *topics).topics[0]
    assert len(cluster.log) == before
    return ErrorCode(result.error_code).name, result.error_message


@pytest.fixture
def cluster() -> Cluster:
    return Cluster().start(1)


def test_a_topic_is_one_record_and_one_more_for_each_setting_and_partition(cluster: Cluster) -> None:
    before = len(cluster.log)
    configs = [Config(name="retention.ms", value="1000"), Config(name="min.insync.replicas", value="1")]
    result = created(cluster, topic("a.b", 2, 1, configs=configs)).topics[0]
    assert (result.error_code, result.error_message) == (0, None)
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    made = cluster.log[before:]
    assert [type(record) for record in made] == [
        TopicRecord, ConfigRecord, ConfigRecord, ClearElrRecord, PartitionRecord, PartitionRecord,
    ]  # fmt: skip
    partition = cluster.partition("a.b", 1)
    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == cluster.image.brokers[1].directories
    assert cluster.image.topic_config("a.b") == {"retention.ms": "1000", "min.insync.replicas": "1"}
    assert cluster.image.topics_by_name["a.b"].id == result.topic_id


def test_the_answer_tells_the_effective_settings_and_where_they_come_from(cluster: Cluster) -> None:
    result = created(cluster, topic(configs=[Config(name="retention.ms", value="1000")])).topics[0]
    assert result.configs is not None
    entries = {entry.name: entry for entry in result.configs}
    assert (entries["retention.ms"].value, entries["retention.ms"].config_source) == ("1000", 1)
    assert (entries["cleanup.policy"].value, entries["cleanup.policy"].config_source) == ("delete", 5)
    assert entries["min.insync.replicas"].config_source == 3  # eligible leader replicas put it into the log
    assert [entry.name for entry in result.configs] == sorted(entries)


def test_defaults_are_the_nodes(cluster: Cluster) -> None:
    created(cluster, topic("d"))
    assert len(cluster.image.topics_by_name["d"].partitions) == 1


def test_validate_only_answers_and_changes_nothing(cluster: Cluster) -> None:
    before = len(cluster.log)
    result = created(cluster, topic(), validate_only=True).topics[0]
    assert result.error_code == 0
    assert len(cluster.log) == before


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (
            topic("t", 0, 1),
            ("INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        ),
        (
            topic("t", 1, 0),
            (
                "INVALID_REPLICATION_FACTOR",
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ),
        ),
        (
            topic("t", 1, 2),
            (
                "INVALID_REPLICATION_FACTOR",
                "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be "
                "reached because only 1 broker(s) are registered or some brokers have all their log "
                "directories cordoned.",
            ),
        ),
        (topic(""), ("INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed")),
        (topic(".."), ("INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '..' is not allowed")),
        (
            topic("a b"),
            (
                "INVALID_TOPIC_EXCEPTION",
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
                "alphanumerics, '.', '_' and '-'",
            ),
        ),
        (topic("existing.one"), ("TOPIC_ALREADY_EXISTS", "Topic 'existing.one' already exists.")),
        (
            topic("existing_one"),
            ("INVALID_TOPIC_EXCEPTION", "Topic 'existing_one' collides with existing topic: existing.one"),
        ),
        (
            topic("__cluster_metadata"),
            ("INVALID_REQUEST", "Creation of internal topic __cluster_metadata is prohibited."),
        ),
        (
            topic("t", configs=[Config(name="retention.ms", value=None), Config(name="x", value=None)]),
            ("INVALID_CONFIG", "Null value not supported for topic configs: retention.ms,x"),
        ),
        (
            topic("t", configs=[Config(name="retention.ms", value="soon")]),
            (
                "INVALID_CONFIG",
                "Invalid value soon for configuration retention.ms: Not a number of type LONG",
            ),
        ),
        (
            topic("t", 1, -1, assignments=[Assignment(partition_index=0, broker_ids=[1])]),
            (
                "INVALID_REQUEST",
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            ),
        ),
        (
            topic("t", assignments=[Assignment(partition_index=1, broker_ids=[1])]),
            ("INVALID_REPLICA_ASSIGNMENT", "partitions should be a consecutive 0-based integer sequence"),
        ),
        (
            topic("t", assignments=[Assignment(partition_index=0, broker_ids=[7])]),
            (
                "INVALID_REPLICA_ASSIGNMENT",
                "The manual partition assignment includes broker 7, but no such broker is registered.",
            ),
        ),
        (
            topic("t", assignments=[Assignment(partition_index=0, broker_ids=[1, 1])]),
            (
                "INVALID_REPLICA_ASSIGNMENT",
                "The manual partition assignment includes the broker 1 more than once.",
            ),
        ),
    ],
)
def test_what_cannot_be_created_is_refused_in_kafkas_words(
    cluster: Cluster, asked: Topic, expected: tuple[str, str]
) -> None:
    created(cluster, topic("existing.one"))
    assert refusal(cluster, asked) == expected


def test_a_name_that_comes_twice_in_a_request_is_refused_once(cluster: Cluster) -> None:
    response = created(cluster, topic("twice"), topic("twice"), topic("once"))
    assert [(t.name, t.error_message) for t in response.topics] == [
        ("once", None),
        ("twice", "Duplicate topic name."),
    ]


def test_too_many_partitions_are_refused_as_a_whole(cluster: Cluster) -> None:
    with pytest.raises(PolicyViolation):
        created(cluster, topic("a", 9_999), topic("b", 2))


def test_topics_that_take_too_many_records_are_refused_as_a_whole(cluster: Cluster) -> None:
    topics = [topic(f"t{index}", 1, 1) for index in range(5_001)]
    with pytest.raises(PolicyViolation, match="excessively large batch"):
        created(cluster, *topics)
    with pytest.raises(PolicyViolation, match="excessively large batch"):
        created(cluster, *topics, validate_only=True)
    assert not cluster.image.topics
    response = created(cluster, *topics[1:], topic("t1" * 200))
    assert sum(one.error_code == 0 for one in response.topics) == 5_000


def test_a_topic_on_fenced_brokers_only_is_refused() -> None:
    cluster = Cluster()
    cluster.register(1)
    code, message = refusal(cluster, topic())
    assert code == "INVALID_REPLICATION_FACTOR"
    assert message is not None
    assert "All brokers are currently fenced" in message


def test_replicas_on_a_fenced_broker_are_not_in_sync() -> None:
    cluster = Cluster().start(1)
    cluster.register(2)
    cluster.create("t", [2, 1])
    partition = cluster.partition("t")
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 1), (1,), 1)


class TestDeleting:
    def delete(
        self, cluster: Cluster, *topics: tuple[str | None, bytes]
    ) -> list[tuple[str | None, str, str | None]]:
        states = [
            DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics
        ]
        response = cluster.do(delete_topics, DeleteTopicsRequest(topics=states), 6)
        return [(r.name, ErrorCode(r.error_code).name, r.error_message) for r in response.responses]

    def test_a_topic_goes_by_name_with_its_settings(self, cluster: Cluster) -> None:
        cluster.create("t", [1], configs={"retention.ms": "1"})
        assert self.delete(cluster, ("t", uuid.ZERO)) == [("t", "NONE", None)]
        assert cluster.image.topics == {}
        assert cluster.image.topics_by_name == {}
        assert cluster.image.topic_config("t") == {}

    def test_a_topic_goes_by_id(self, cluster: Cluster) -> None:
        cluster.create("t", [1])
        topic_id = cluster.image.topics_by_name["t"].id
        assert self.delete(cluster, (None, topic_id)) == [("t", "NONE", None)]

    def test_a_deleted_name_no_longer_collides(self, cluster: Cluster) -> None:
        cluster.create("a.b", [1])
        self.delete(cluster, ("a.b", uuid.ZERO))
        cluster.create("a_b", [1])

    def test_what_is_not_there_is_told_by_name_and_by_id(self, cluster: Cluster) -> None:
        assert self.delete(cluster, ("no", uuid.ZERO), (None, b"x" * 16)) == [
            (None, "UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
            ("no", "UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
        ]

    def test_a_request_must_be_clear(self, cluster: Cluster) -> None:
        cluster.create("t", [1])
        topic_id = cluster.image.topics_by_name["t"].id
        assert self.delete(cluster, (None, uuid.ZERO), ("t", topic_id)) == [
            (None, "INVALID_REQUEST", "Neither topic name nor id were specified."),
            ("t", "INVALID_REQUEST", "You may not specify both topic name and topic id."),
        ]
        assert self.delete(cluster, ("t", uuid.ZERO), ("t", uuid.ZERO)) == [
            ("t", "INVALID_REQUEST", "Duplicate topic name.")
        ]
        assert self.delete(cluster, ("t", uuid.ZERO), (None, topic_id)) == [
            ("t", "INVALID_REQUEST", "The provided topic name maps to an ID that was already supplied.")
        ]
        assert "t" in cluster.image.topics_by_name

    def test_deletion_can_be_switched_off(self, cluster: Cluster) -> None:
        settings = cluster.state.settings
        cluster.state.settings = type(settings)(
            node_id=1, cluster_id=settings.cluster_id, is_topic_deletion_enabled=False
        )
        with pytest.raises(TopicDeletionDisabled):
            self.delete(cluster, ("t", uuid.ZERO))


class TestMorePartitions:
    def more(
        self, cluster: Cluster, count: int, assignments: list[list[int]] | None = None, name: str = "t"
    ) -> tuple[str, str | None]:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if assignments is None
            else [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=a) for a in assignments],
        )
        result = cluster.do(create_partitions, CreatePartitionsRequest(topics=[wanted])).results[0]
        return ErrorCode(result.error_code).name, result.error_message

    def test_they_are_placed_after_those_that_are_there(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1, 2])
        assert self.more(cluster, 3) == ("NONE", None)
        assert sorted(cluster.image.topics_by_name["t"].partitions) == [0, 1, 2]
        assert set(cluster.partition("t", 2).replicas) == {1, 2}

    def test_they_can_be_assigned_by_hand(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1])
        assert self.more(cluster, 2, [[2]]) == ("NONE", None)
        assert cluster.partition("t", 1).replicas == (2,)

    def test_fewer_or_the_same_is_refused(self) -> None:
        cluster = Cluster().start(1)
        cluster.create("t", [1], [1])
        assert self.more(cluster, 2) == ("INVALID_PARTITIONS", "Topic already has 2 partition(s).")
        assert self.more(cluster, 1) == (
            "INVALID_PARTITIONS",
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        )

    def test_an_assignment_must_fit(self) -> None:
        cluster = Cluster().start(1, 2)
        cluster.create("t", [1])
        assert self.more(cluster, 3, [[1]])[1] == (
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
        )
        assert self.more(cluster, 2, [[1, 2]])[0] == "INVALID_REPLICA_ASSIGNMENT"

    def test_an_unknown_topic_is_refused(self) -> None:
        assert self.more(Cluster().start(1), 3, name="no") == ("UNKNOWN_TOPIC_OR_PARTITION", None)
