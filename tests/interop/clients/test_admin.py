"""Every admin client's operations and their error codes, the same table for all of them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.interop.clients.admins import ADMINS, Admin, ConfluentAdmin, JavaAdmin
from tests.interop.clients.conftest import CLIENTS
from tests.interop.clients.messages import BASE_TIME_MS, Message, plain_messages
from tests.interop.peers import BrokerProcess, wait_until

NewTopic = Callable[..., str]

# Kafka's error codes, by their names.
OK = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_REPLICA_ASSIGNMENT = 39
INVALID_CONFIG = 40
INVALID_REQUEST = 42

_numbers = itertools.count()


def fresh_name(stem: str = "admin") -> str:
    return f"{stem}-{os.getpid()}-{next(_numbers)}"


def admins(*operations: str) -> pytest.MarkDecorator:
    """Parametrise over the admin clients that know all of these operations."""
    able = [admin for admin in ADMINS if admin.supports >= set(operations)]
    return pytest.mark.parametrize("admin_class", able, ids=lambda admin: admin.name)


def topic_exists(broker: BrokerProcess, topic: str) -> bool:
    return ConfluentAdmin(broker.bootstrap).describe_topic(topic).code == OK


@admins("create_topic", "describe_topic", "delete_topic")
def test_a_topic_is_created_described_and_deleted(broker: BrokerProcess, admin_class: type[Admin]) -> None:
    admin = admin_class(broker.bootstrap)
    topic = fresh_name()
    assert admin.create_topic(topic, partitions=3, replication=1).code == OK
    described = admin.describe_topic(topic)
    assert described.value == [(0, 1, [1], [1]), (1, 1, [1], [1]), (2, 1, [1], [1])]
    assert admin.delete_topic(topic).code == OK
    wait_until(lambda: not topic_exists(broker, topic), 10, "the topic to be gone")
    assert admin.describe_topic(topic).code == UNKNOWN_TOPIC_OR_PARTITION


@admins("create_topic")
@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("", {}, INVALID_TOPIC),
        (".", {}, INVALID_TOPIC),
        ("..", {}, INVALID_TOPIC),
        ("white space", {}, INVALID_TOPIC),
        ("ümlaut", {}, INVALID_TOPIC),
        ("x" * 250, {}, INVALID_TOPIC),
        ("zero-partitions", {"partitions": 0}, INVALID_PARTITIONS),
        ("too-few-nodes", {"replication": 2}, INVALID_REPLICATION_FACTOR),
        ("no-replicas", {"replication": 0}, INVALID_REPLICATION_FACTOR),
        ("unknown-config", {"configs": {"no.such.config": "1"}}, INVALID_CONFIG),
        ("bad-number", {"configs": {"retention.ms": "soon"}}, INVALID_CONFIG),
        ("out-of-range", {"configs": {"min.insync.replicas": "0"}}, INVALID_CONFIG),
        ("bad-policy", {"configs": {"cleanup.policy": "burn"}}, INVALID_CONFIG),
        ("unknown-node", {"assignments": [[77]]}, INVALID_REPLICA_ASSIGNMENT),
        ("doubled-node", {"assignments": [[1, 1]]}, INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: (value[:20] or "empty") if isinstance(value, str) else "",
)
def test_a_wrong_topic_is_refused_with_kafkas_code(
    broker: BrokerProcess, admin_class: type[Admin], name: str, arguments: dict[str, Any], code: int
) -> None:
    admin = admin_class(broker.bootstrap)
    if "assignments" not in arguments:
        arguments = {"partitions": 1, "replication": 1, **arguments}
    if admin_class is ConfluentAdmin and (name == "" or 0 in arguments.values()):
        return  # librdkafka refuses these itself
    outcome = admin.create_topic(name, **arguments)
    assert outcome.code == code, outcome


@admins("create_topic")
def test_a_topic_that_exists_or_collides_is_refused(
    broker: BrokerProcess, admin_class: type[Admin], new_topic: NewTopic
) -> None:
    admin = admin_class(broker.bootstrap)
    topic = new_topic("a.b")
    assert admin.create_topic(topic, partitions=1, replication=1).code == TOPIC_ALREADY_EXISTS
    collision = admin.create_topic(topic.replace(".", "_"), partitions=1, replication=1)
    assert collision.code == INVALID_TOPIC


@admins("create_topic")
def test_validate_only_creates_nothing(broker: BrokerProcess, admin_class: type[Admin]) -> None:
    topic = fresh_name("validated")
    outcome = admin_class(broker.bootstrap).create_topic(
        topic, partitions=1, replication=1, validate_only=True
    )
    assert outcome.code == OK
    assert not topic_exists(broker, topic)


@admins("create_topic", "describe_topic")
def test_a_manual_assignment_decides_the_partitions(broker: BrokerProcess, admin_class: type[Admin]) -> None:
    admin = admin_class(broker.bootstrap)
    topic = fresh_name("assigned")
    assert admin.create_topic(topic, assignments=[[1], [1]]).code == OK
    assert len(admin.describe_topic(topic).value) == 2


@admins("delete_topic")
def test_deleting_an_unknown_topic_says_so(broker: BrokerProcess, admin_class: type[Admin]) -> None:
    assert admin_class(broker.bootstrap).delete_topic("never-there").code == UNKNOWN_TOPIC_OR_PARTITION


@admins("create_partitions", "describe_topic")
def test_partitions_are_added(broker: BrokerProcess, admin_class: type[Admin], new_topic: NewTopic) -> None:
    admin = admin_class(broker.bootstrap)
    topic = new_topic(partitions=2)
    assert admin.create_partitions(topic, 5, validate_only=True).code == OK
    assert len(admin.describe_topic(topic).value) == 2
    assert admin.create_partitions(topic, 5).code == OK
    wait_until(lambda: len(admin.describe_topic(topic).value) == 5, 10, "five partitions")


@admins("create_partitions")
@pytest.mark.parametrize(
    ("total", "assignments", "code"),
    [
        (2, None, INVALID_PARTITIONS),
        (1, None, INVALID_PARTITIONS),
        (3, [[1], [1]], INVALID_REPLICA_ASSIGNMENT),
        (3, [[77]], INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=["same", "fewer", "too-many-assignments", "unknown-node"],
)
def test_a_wrong_partition_count_is_refused(
    broker: BrokerProcess,
    admin_class: type[Admin],
    new_topic: NewTopic,
    total: int,
    assignments: Sequence[Sequence[int]] | None,
    code: int,
) -> None:
    topic = new_topic(partitions=2)
    outcome = admin_class(broker.bootstrap).create_partitions(topic, total, assignments=assignments)
    assert outcome.code == code, outcome


@admins("describe_configs")
def test_topic_configs_tell_value_and_source(
    broker: BrokerProcess, admin_class: type[Admin], new_topic: NewTopic
) -> None:
    topic = new_topic(retention_ms=123456)
    configs = admin_class(broker.bootstrap).describe_configs("topic", topic).value
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == (
        "123456",
        "DYNAMIC_TOPIC_CONFIG",
    )
    assert (configs["segment.bytes"].value, configs["segment.bytes"].source) == (
        "1073741824",
        "DEFAULT_CONFIG",
    )
    # message.max.bytes stands in the broker's properties, and the topic inherits it.
    assert configs["max.message.bytes"].source == "STATIC_BROKER_CONFIG"


@admins("describe_configs")
def test_broker_configs_tell_what_its_properties_say(broker: BrokerProcess, admin_class: type[Admin]) -> None:
    configs = admin_class(broker.bootstrap).describe_configs("broker", "1").value
    assert configs["log.dirs"].value == str(broker.data)
    assert configs["log.dirs"].source == "STATIC_BROKER_CONFIG"
    assert configs["node.id"].value == "1"
    assert configs["log.retention.hours"].value == "168"
    assert configs["log.retention.hours"].source == "DEFAULT_CONFIG"


@admins("alter_configs", "describe_configs")
def test_configs_change_one_by_one(
    broker: BrokerProcess, admin_class: type[Admin], new_topic: NewTopic
) -> None:
    admin = admin_class(broker.bootstrap)
    topic = new_topic(retention_ms=1000, cleanup_policy="delete")

    def value(name: str) -> str | None:
        found: str | None = admin.describe_configs("topic", topic).value[name].value
        return found

    assert admin.alter_configs("topic", topic, ("set", "segment.bytes", "1048576")).code == OK
    wait_until(lambda: value("segment.bytes") == "1048576", 10, "the new segment.bytes")
    assert value("retention.ms") == "1000"
    assert admin.alter_configs("topic", topic, ("delete", "retention.ms", None)).code == OK
    wait_until(lambda: value("retention.ms") == "604800000", 10, "the default retention.ms")
    assert admin.alter_configs("topic", topic, ("append", "cleanup.policy", "compact")).code == OK
    wait_until(lambda: value("cleanup.policy") == "delete,compact", 10, "both policies")
    assert admin.alter_configs("topic", topic, ("subtract", "cleanup.policy", "delete")).code == OK
    wait_until(lambda: value("cleanup.policy") == "compact", 10, "one policy")


@admins("alter_configs")
@pytest.mark.parametrize(
    ("kind", "name", "operation", "code"),
    [
        ("topic", None, ("set", "retention.ms", "never"), INVALID_CONFIG),
        ("topic", None, ("set", "no.such.config", "1"), INVALID_CONFIG),
        ("topic", None, ("append", "retention.ms", "1"), INVALID_CONFIG),
        ("topic", "never-there", ("set", "retention.ms", "1"), UNKNOWN_TOPIC_OR_PARTITION),
        ("broker", "1", ("set", "log.dirs", "/elsewhere"), INVALID_REQUEST),
        ("broker", "1", ("set", "num.io.threads", "0"), INVALID_REQUEST),
    ],
    ids=["bad-value", "unknown-name", "append-to-number", "unknown-topic", "read-only", "below-range"],
)
def test_a_wrong_config_change_is_refused(
    broker: BrokerProcess,
    admin_class: type[Admin],
    new_topic: NewTopic,
    kind: str,
    name: str | None,
    operation: tuple[str, str, str],
    code: int,
) -> None:
    outcome = admin_class(broker.bootstrap).alter_configs(kind, name or new_topic(), operation)
    assert outcome.code == code, outcome


@admins("alter_configs", "describe_configs")
def test_a_broker_config_is_changed_and_forgotten_at_run_time(
    broker: BrokerProcess, admin_class: type[Admin]
) -> None:
    admin = admin_class(broker.bootstrap)

    def config() -> tuple[str | None, str]:
        found = admin.describe_configs("broker", "1").value["log.cleaner.threads"]
        return found.value, found.source

    try:
        assert admin.alter_configs("broker", "1", ("set", "log.cleaner.threads", "2")).code == OK
        wait_until(lambda: config() == ("2", "DYNAMIC_BROKER_CONFIG"), 10, "the changed config")
    finally:
        assert admin.alter_configs("broker", "1", ("delete", "log.cleaner.threads", None)).code == OK
    wait_until(lambda: config() == ("1", "DEFAULT_CONFIG"), 10, "the default config")


@admins("list_offset")
def test_offsets_are_found_at_the_ends_and_by_time(
    broker: BrokerProcess, admin_class: type[Admin], new_topic: NewTopic
) -> None:
    admin = admin_class(broker.bootstrap)
    topic = new_topic()
    assert admin.list_offset(topic, 0, "earliest").value == 0
    assert admin.list_offset(topic, 0, "latest").value == 0
    times = [0, 20, 10, 30, 30, 25]
    messages = [Message(b"k", b"v", (), BASE_TIME_MS + time) for time in times]
    CLIENTS["java"].produce(broker.bootstrap, topic, messages)
    assert admin.list_offset(topic, 0, "earliest").value == 0
    assert admin.list_offset(topic, 0, "latest").value == 6
    assert admin.list_offset(topic, 0, BASE_TIME_MS).value == 0
    assert admin.list_offset(topic, 0, BASE_TIME_MS + 1).value == 1
    assert admin.list_offset(topic, 0, BASE_TIME_MS + 21).value == 3
    assert admin.list_offset(topic, 0, BASE_TIME_MS + 31).value == -1
    if admin_class.name != "aiokafka":
        assert admin.list_offset(topic, 0, "max-timestamp").value == 3


@admins("delete_records", "list_offset")
def test_records_are_deleted_from_the_front(
    broker: BrokerProcess, admin_class: type[Admin], new_topic: NewTopic
) -> None:
    admin = admin_class(broker.bootstrap)
    topic = new_topic()
    messages = plain_messages(100)
    CLIENTS["confluent"].produce(broker.bootstrap, topic, messages)
    assert admin.delete_records(topic, 0, 40).value == 40
    assert admin.list_offset(topic, 0, "earliest").value == 40
    stored = CLIENTS["java"].consume(broker.bootstrap, topic, 60, offset=40)
    assert [record.value for record in stored] == [message.value for message in messages[40:]]
    assert admin.delete_records(topic, 0, -1).value == 100
    assert admin.list_offset(topic, 0, "earliest").value == 100
    assert admin.delete_records(topic, 0, 101).code == OFFSET_OUT_OF_RANGE


@admins("describe_cluster")
def test_the_cluster_is_described(broker: BrokerProcess, admin_class: type[Admin]) -> None:
    cluster_id, controller_id, nodes = admin_class(broker.bootstrap).describe_cluster().value
    assert (cluster_id, controller_id, nodes) == (broker.cluster_id, 1, {1: broker.port})


@admins("log_dirs")
def test_log_directories_show_each_partition_and_its_size(
    broker: BrokerProcess, admin_class: type[Admin], new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    CLIENTS["confluent"].produce(broker.bootstrap, topic, plain_messages(10), partition=1)
    directories = admin_class(broker.bootstrap).log_dirs().value
    assert list(directories) == [str(broker.data)]
    sizes = directories[str(broker.data)]
    assert sizes[topic, 0] == 0
    assert sizes[topic, 1] == os.path.getsize(broker.data / f"{topic}-1" / f"{0:020}.log")


def test_active_producers_are_described(broker: BrokerProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    CLIENTS["java"].produce(broker.bootstrap, topic, plain_messages(25), idempotent=True)
    [producer] = JavaAdmin(broker.bootstrap).describe_producers(topic, 0).value
    producer_id, epoch, last_sequence, coordinator_epoch, transaction_start = producer
    assert producer_id >= 0
    assert (epoch, last_sequence, coordinator_epoch, transaction_start) == (0, 24, -1, -1)


def test_the_quorum_has_one_voter_that_leads(broker: BrokerProcess) -> None:
    assert JavaAdmin(broker.bootstrap).describe_quorum().value == (1, [1])


def test_finalized_features_are_within_the_supported_ones(broker: BrokerProcess) -> None:
    finalized, supported = JavaAdmin(broker.bootstrap).describe_features().value
    assert finalized["metadata.version"] == 30
    for name, level in finalized.items():
        lowest, highest = supported[name]
        assert lowest <= level <= highest, name
