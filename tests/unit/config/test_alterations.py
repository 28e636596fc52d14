"""Dynamic changes: their results, and the errors with code and message."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.groups.shards import outcome_of

from ottla.config import (
    BrokerConfig,
    Change,
    Operation,
    ResourceType,
    apply_changes,
    check,
    check_broker_change,
    check_broker_settings,
    check_request,
    development_config,
)
from ottla.wire.errors import InvalidConfig, InvalidRequest, InvalidTopicException, KafkaError

SET, DELETE, APPEND, SUBTRACT = Operation.SET, Operation.DELETE, Operation.APPEND, Operation.SUBTRACT


@pytest.fixture(scope="module")
def config() -> BrokerConfig:
    return development_config(overrides={"num.io.threads": "8"})


def topic_change(current: dict[str, str], name: str, operation: Operation, value: str | None) -> str | None:
    return apply_changes(ResourceType.TOPIC, current, [Change(name, operation, value)])[name]


def test_lists_support_append_and_subtract() -> None:
    current = {"cleanup.policy": "compact"}
    assert topic_change(current, "cleanup.policy", APPEND, "delete") == "compact,delete"
    assert topic_change(current, "cleanup.policy", APPEND, "compact") == "compact"
    assert topic_change(current, "cleanup.policy", SUBTRACT, "compact,delete") == ""
    assert topic_change({}, "cleanup.policy", APPEND, "compact") == "delete,compact", "to the default"
    assert topic_change({}, "leader.replication.throttled.replicas", APPEND, "0:1,1:1") == "0:1,1:1"


def test_set_and_delete_take_any_name() -> None:
    assert topic_change({}, "retention.ms", SET, "5") == "5"
    assert topic_change({"retention.ms": "5"}, "retention.ms", DELETE, None) is None
    assert topic_change({}, "nope", DELETE, "") is None


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (ResourceType.TOPIC, "retention.ms"),
        (ResourceType.TOPIC, "nope"),
        (ResourceType.GROUP, "consumer.session.timeout.ms"),
        (ResourceType.CLIENT_METRICS, "metrics"),
    ],
)
def test_only_topic_and_broker_lists_support_append(resource: ResourceType, name: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        apply_changes(resource, {}, [Change(name, APPEND, "1")])
    assert caught.value.message == f"Can't APPEND to key {name} because its type is not LIST."


def test_values_have_a_size_limit() -> None:
    current = {"leader.replication.throttled.replicas": "0:1" + ",1:1" * 8000}
    with pytest.raises(InvalidConfig, match="exceeds the maximum value size of 32767 bytes"):
        topic_change(
            current, "leader.replication.throttled.replicas", APPEND, ",".join(f"0:{n}" for n in range(999))
        )


@pytest.mark.parametrize(
    ("resource", "name", "proposed", "error", "sentence"),
    [
        (ResourceType.TOPIC, "", {}, InvalidRequest, "Default topic resources are not allowed."),
        (
            ResourceType.TOPIC,
            "bad name",
            {},
            InvalidTopicException,
            "Topic name is invalid: 'bad name' contains one or more characters other than ASCII"
            " alphanumerics, '.', '_' and '-'",
        ),
        (
            ResourceType.TOPIC,
            "..",
            {},
            InvalidTopicException,
            "Topic name is invalid: '.' or '..' is not allowed",
        ),
        (ResourceType.TOPIC, "t", {"nope": "1"}, InvalidConfig, "Unknown topic config name: nope"),
        (
            ResourceType.TOPIC,
            "t",
            {"retention.ms": "-2"},
            InvalidConfig,
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            ResourceType.TOPIC,
            "t",
            {"retention.ms": None, "flush.ms": None},
            InvalidConfig,
            "Null value not supported for topic configs: flush.ms,retention.ms",
        ),
        (
            ResourceType.TOPIC,
            "t",
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            InvalidConfig,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            ResourceType.TOPIC,
            "t",
            {"remote.storage.enable": "true"},
            InvalidConfig,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with"
            " remote log storage.",
        ),
        (ResourceType.BROKER, "x", {}, InvalidRequest, "Unable to parse broker name as a base 10 number."),
        (ResourceType.BROKER, "-1", {}, InvalidRequest, "Invalid negative broker ID."),
        (ResourceType.BROKER_LOGGER, "1", {}, InvalidRequest, "Unknown resource type BROKER_LOGGER"),
        (ResourceType.GROUP, "", {}, InvalidRequest, "Default group resources are not allowed."),
        (ResourceType.GROUP, "g", {"nope": "1"}, InvalidConfig, "Unknown group config name: nope"),
        (
            ResourceType.GROUP,
            "g",
            {"consumer.session.timeout.ms": "1"},
            InvalidConfig,
            "consumer.session.timeout.ms must be greater than or equal to"
            " group.consumer.min.session.timeout.ms",
        ),
        (
            ResourceType.GROUP,
            "g",
            {"consumer.heartbeat.interval.ms": "100000"},
            InvalidConfig,
            "consumer.heartbeat.interval.ms must be less than or equal to"
            " group.consumer.max.heartbeat.interval.ms",
        ),
        (
            ResourceType.GROUP,
            "g",
            {"streams.num.standby.replicas": "3"},
            InvalidConfig,
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            ResourceType.GROUP,
            "g",
            {"share.delivery.count.limit": "100"},
            InvalidConfig,
            "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit",
        ),
        (ResourceType.CLIENT_METRICS, "", {}, InvalidRequest, "Subscription name can't be empty"),
        (
            ResourceType.CLIENT_METRICS,
            "m",
            {"x": "1"},
            InvalidRequest,
            "Unknown client metrics configuration: x",
        ),
        (
            ResourceType.CLIENT_METRICS,
            "m",
            {"interval.ms": "10"},
            InvalidRequest,
            "Invalid value 10 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            ResourceType.CLIENT_METRICS,
            "m",
            {"match": "foo=bar"},
            InvalidConfig,
            "Illegal client matching pattern: foo=bar",
        ),
        (
            ResourceType.CLIENT_METRICS,
            "m",
            {"match": "client_id=["},
            InvalidConfig,
            "Illegal client matching pattern: client_id=[",
        ),
    ],
)
def test_the_controller_refuses_invalid_settings(
    config: BrokerConfig,
    resource: ResourceType,
    name: str,
    proposed: dict[str, str | None],
    error: type[KafkaError],
    sentence: str,
) -> None:
    with pytest.raises(error) as caught:
        check(config, resource, name, proposed)
    assert caught.value.message == sentence


def test_the_controller_accepts_valid_settings(config: BrokerConfig) -> None:
    check(
        config,
        ResourceType.TOPIC,
        "t",
        {"retention.ms": "5", "cleanup.policy": "", "internal.segment.bytes": "9"},
    )
    check(config, ResourceType.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    check(config, ResourceType.BROKER, "", {"anything": "goes"})
    check(
        config,
        ResourceType.CLIENT_METRICS,
        "m",
        {"match": "client_id=a.*", "interval.ms": "100", "metrics": "*"},
    )


def test_disabling_remote_storage_needs_a_decision_about_its_data(config: BrokerConfig) -> None:
    existing = {"remote.storage.enable": "true"}
    with pytest.raises(InvalidConfig, match="without deleting remote data"):
        check(config, ResourceType.TOPIC, "t", {}, existing)
    check(config, ResourceType.TOPIC, "t", {"remote.log.delete.on.disable": "true"}, existing)


def test_malformed_requests_are_reported_per_resource() -> None:
    topic, logger = ResourceType.TOPIC.value, ResourceType.BROKER_LOGGER.value
    resources: list[tuple[int, str, list[tuple[str, int, str | None]]]] = [
        (topic, "twice", [("retention.ms", 0, "1")]),
        (topic, "fine", [("retention.ms", 0, "1"), ("flush.ms", 1, None)]),
        (topic, "twice", []),
        (topic, "same-key", [("retention.ms", 0, "1"), ("retention.ms", 1, None)]),
        (topic, "nulls", [("retention.ms", 0, None)]),
        (99, "x", []),
        (topic, "operation", [("retention.ms", 9, "1")]),
        (logger, "1", [("root", 0, "INFO")]),
    ]
    faults = outcome_of(check_request(resources, incremental=True))
    assert {at: fault.message for at, fault in faults.items()} == {
        0: "Each resource must appear at most once.",
        2: "Each resource must appear at most once.",
        3: "Error due to duplicate config keys",
        4: "Null value not supported for : retention.ms",
        5: "Unknown resource type 99",
        6: "Unknown operations type 9",
    }
    assert all(isinstance(fault, InvalidRequest) for fault in faults.values())
    assert 7 in outcome_of(check_request(resources, incremental=False))


@pytest.mark.parametrize(
    ("name", "change", "error", "sentence"),
    [
        (
            "2",
            Change("num.io.threads", SET, "3"),
            InvalidRequest,
            "Unexpected broker id, expected 1, but received 2",
        ),
        ("x", Change("num.io.threads", SET, "3"), InvalidRequest, "Node id must be an integer, but it is: x"),
        (
            "",
            Change("node.id", SET, "3"),
            InvalidRequest,
            "Cannot update these configs dynamically: [node.id]",
        ),
        (
            "",
            Change("listeners", SET, "PLAINTEXT://:1"),
            InvalidRequest,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            "",
            Change("listener.name.plaintext.ssl.keystore.password", SET, "p"),
            InvalidRequest,
            "Cannot update these configs at default cluster level, broker id must be specified:"
            " [listener.name.plaintext.ssl.keystore.password]",
        ),
        (
            "1",
            Change("ssl.keystore.password", SET, "p"),
            InvalidRequest,
            "These security configs can be dynamically updated only per-listener using the listener prefix:"
            " [ssl.keystore.password]",
        ),
        (
            "1",
            Change("num.io.threads", SET, "0"),
            InvalidRequest,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        (
            "1",
            Change("num.io.threads", SET, "100"),
            InvalidRequest,
            "Dynamic thread count update validation failed for num.io.threads=100, value should not be"
            " greater than double the current value 8",
        ),
        (
            "1",
            Change("follower.replication.throttled.rate", SET, "-1"),
            InvalidRequest,
            "Invalid value -1 for configuration follower.replication.throttled.rate:"
            " Value must be at least 0",
        ),
        (
            "1",
            Change("log.retention.ms", SET, "0"),
            InvalidRequest,
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        ("", Change("my.own", APPEND, "v"), InvalidConfig, "Unknown config name: my.own"),
        (
            "",
            Change("num.io.threads", APPEND, "1"),
            InvalidConfig,
            "Config value append is not allowed for config key: num.io.threads",
        ),
        (
            "1",
            Change("listeners", SET, "PLAINTEXT://localhost:1,CONTROLLER://localhost:0"),
            InvalidRequest,
            "Advertised listeners cannot be altered when using a Raft-based metadata quorum.",
        ),
    ],
)
def test_the_broker_refuses_invalid_changes(
    config: BrokerConfig, name: str, change: Change, error: type[KafkaError], sentence: str
) -> None:
    with pytest.raises(error) as caught:
        check_broker_change(config, name, [change])
    assert caught.value.message == sentence


def test_the_broker_accepts_valid_changes(config: BrokerConfig) -> None:
    check_broker_change(
        config, "", [Change("my.own", SET, "v"), Change("log.cleanup.policy", APPEND, "compact")]
    )
    check_broker_change(config, "1", [Change("listener.name.plaintext.ssl.keystore.password", SET, "p")])
    check_broker_change(config, "1", [Change("num.io.threads", SET, "16"), Change("nope", DELETE, None)])
    check_broker_settings(config, "", {"message.max.bytes": "7"})
    with pytest.raises(InvalidRequest):
        check_broker_settings(config, "7", {"message.max.bytes": "7"})
    with pytest.raises(InvalidRequest):
        check_broker_settings(config, "", {"node.id": "7"})
