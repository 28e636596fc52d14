"""Our kafka-topics and kafka-get-offsets say what Kafka's say, on Kafka and on Ottla."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from ottla.client.admin import Admin, NewTopic, topic_resource
from ottla.client.values import TopicPartition
from ottla.tools import get_offsets, topics
from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.library.support import eventually
from tests.interop.tools_same.same import Tool, check_same

TOPICS = Tool("org.apache.kafka.tools.TopicCommand", topics.main)
OFFSETS = Tool("org.apache.kafka.tools.GetOffsetShell", get_offsets.main, only_looks=True)

# In their order: later ones see what earlier ones did.
CHANGES = [
    "--create --topic made-% --partitions 3 --replication-factor 1",
    "--create --topic made-% --partitions 3 --replication-factor 1",
    "--create --topic made-% --if-not-exists",
    "--create --topic default-%",
    "--create --topic dotted.%_topic --config retention.ms=5000 --config cleanup.policy=compact",
    "--create --topic=assigned-% --replica-assignment 1,1,1",
    "--create --topic many-% --replication-factor 3",
    "--create --topic none-% --partitions 0",
    "--create --topic none-% --replication-factor 0",
    "--create --topic none-% --replication-factor 40000",
    "--create --topic none-% --config no.such.setting=1",
    "--create --topic none-% --config retention.ms=soon",
    "--create --topic none-% --config retention.ms",
    "--create --topic none-% --replica-assignment 1:1",
    "--create --topic none-% --replica-assignment 1:2,1",
    "--create --topic none/% --partitions 1",
    "--create --topic none-% --partitions few",
    "--create --topic none-% --partitions 1 --replica-assignment 1",
    "--create",
    "--alter --topic made-% --partitions 5",
    "--alter --topic made-% --partitions 2",
    "--alter --topic made-% --partitions 5",
    "--alter --topic made-%",
    "--alter --topic missing-% --partitions 5",
    "--alter --topic missing-% --partitions 5 --if-exists",
    "--alter --topic made-% --config a=b",
    "--alter --topic assigned-% --partitions 4 --replica-assignment 1,1,1,1",
    "--describe --topic made-%",
    "--describe --topic dotted.%_topic",
    "--list --topic .*-%",
    "--list --topic made-%,default-%",
    "--delete --topic default-%",
    "--delete --topic missing-%",
    "--delete --topic missing-% --if-exists",
    "--delete",
]
LOOKS = [
    "--list",
    "--list --exclude-internal",
    "--list --topic ab.*",
    "--list --topic ^$",
    "--list --topic ([",
    "--describe",
    "--describe --exclude-internal",
    "--describe --topic abc.*,second",
    "--describe --topic missing",
    "--describe --topic missing --if-exists",
    "--describe --if-exists",
    "--describe --topic-id AAAAAAAAAAAAAAAAAAAABQ",
    "--describe --topic-id AAAAAAAAAAAAAAAAAAAABQ --if-exists",
    "--describe --topics-with-overrides",
    "--describe --under-replicated-partitions",
    "--describe --unavailable-partitions",
    "--describe --under-min-isr-partitions",
    "--describe --at-min-isr-partitions --topic abc",
    "--describe --under-min-isr-partitions --topics-with-overrides",
    "--describe --partition-size-limit-per-response 1 --topic abc",
    "--describe --list",
    "--list --if-exists",
    "--list --partitions 1",
    "--describe --replication-factor 1",
    "--describe --config a=b",
    "--nonsense",
    "",
]
USAGE = [["--list"], ["--describe", "--bootstrap-server"], [], ["--help"]]
TIMES = [
    "--topic abc",
    "--topic abc --time -1",
    "--topic abc --time earliest",
    "--topic abc --time -3",
    "--topic abc --time 2000",
    "--topic abc --time 999999999999999",
    "--topic abc --time -4",
    "--topic abc --time latest-tiered",
    "--topic abc --time soon",
    "--topic=ab.* --partitions 0,2",
    "--topic abc --partitions zero",
    "--topic-partitions abc:1,second",
    "--topic-partitions abc:0-2,:1",
    "--topic-partitions abc:1-",
    "--topic-partitions abc:-1",
    "--topic-partitions abc:x",
    "--topic-partitions abc --topic abc",
    "--topic missing",
    "--exclude-internal-topics",
    "",
    "--nonsense",
]


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker with topics, records and a committed offset."""
    with peers.running(request.param, properties={"log.retention.check.interval.ms": "3600000"}) as broker:
        with Admin(broker.bootstrap, default_api_timeout_ms=120_000) as admin:
            admin.create_topics(
                [
                    NewTopic("abc", 3, 1),
                    NewTopic("abcd", 1, 1, configs={"retention.ms": "-1", "max.message.bytes": "2000"}),
                    NewTopic("second", 2, 1),
                    *(NewTopic(f"number-{index}", 1, 1) for index in range(13)),
                ]
            ).all()
            admin.incremental_alter_configs({topic_resource("second"): {"cleanup.policy": "compact"}}).all()
            _write(broker.bootstrap)
            key = TopicPartition("abc", 0)
            admin.alter_consumer_group_offsets("readers", {key: 1}).all()
            eventually(
                lambda: (
                    admin.describe_configs([topic_resource("second")])
                    .result(topic_resource("second"))["cleanup.policy"]
                    .value
                    == "compact"
                ),
                "the changed setting",
            )
        yield broker.bootstrap


def _write(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(2):
        for timestamp in (1000, 3000, 2000):
            producer.produce("abc", b"value", partition=partition, timestamp=timestamp)
    assert producer.flush(120) == 0


def test_topics_are_shown_alike(servers: str, tools: Tools) -> None:
    check_same(tools, TOPICS, [["--bootstrap-server", servers, *line.split()] for line in LOOKS])


def test_topics_are_changed_alike(servers: str, tools: Tools) -> None:
    check_same(tools, TOPICS, [["--bootstrap-server", servers, *line.split()] for line in CHANGES])


def test_offsets_are_shown_alike(servers: str, tools: Tools) -> None:
    check_same(tools, OFFSETS, [[f"--bootstrap-server={servers}", *line.split()] for line in TIMES])


def test_bad_command_lines_end_alike(tools: Tools) -> None:
    check_same(tools, TOPICS, USAGE)
    check_same(tools, OFFSETS, USAGE)
