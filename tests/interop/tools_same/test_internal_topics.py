"""Kafka's formatters of the internal topics, by our console consumer and by Kafka's, on the same records."""

from __future__ import annotations

import json

import pytest

from ottla.client.admin import Admin, NewTopic
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.client.values import TopicPartition
from ottla.tools import console_consumer
from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.tools_same.same import Tool, ours, theirs

CONSUMER = Tool("org.apache.kafka.tools.consumer.ConsoleConsumer", console_consumer.main)
FORMATTERS = "org.apache.kafka.tools.consumer"
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
LINES = [
    (OFFSETS, "OffsetsMessageFormatter", "offset_commit"),
    (OFFSETS, "GroupMetadataMessageFormatter", "group_metadata"),
    (TRANSACTIONS, "TransactionLogMessageFormatter", "transactional"),
]
EVERYTHING = [
    f"print.{part}" for part in ("key", "timestamp", "offset", "partition", "headers", "epoch", "delivery")
]
OLD_NAMES = {
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": (
        OFFSETS,
        "[seen-simple,seen,0]::OffsetAndMetadata(offset=5",
    ),
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": (
        OFFSETS,
        "seen-classic::GroupMetadata(groupId=seen-classic",
    ),
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": (
        TRANSACTIONS,
        "seen::TransactionMetadata(transactionalId=seen",
    ),
}


@pytest.fixture(scope="module")
def filled(broker: peers.BrokerProcess) -> dict[str, int]:
    """Groups of both protocols, commits with and without a group's member, transactions; topic -> records."""
    servers = broker.bootstrap
    with Admin(servers) as admin:
        admin.create_topics([NewTopic("seen", 1, 1)]).all()
    for protocol in ("classic", "consumer"):
        with Consumer(servers, group_id=f"seen-{protocol}", group_protocol=protocol) as consumer:
            consumer.subscribe(["seen"])
            _join(consumer)
            consumer.commit({TopicPartition("seen", 0): 3})
    with Consumer(servers, group_id="seen-simple") as consumer:
        consumer.assign([("seen", 0)])
        consumer.commit({TopicPartition("seen", 0): 5})
    with Producer(servers, transactional_id="seen") as producer:
        for value in (b"kept", b"also kept"):
            with producer.transaction():
                producer.send("seen", value, partition=0)
    return {topic: _count(servers, topic) for topic in (OFFSETS, TRANSACTIONS)}


def _join(consumer: Consumer[bytes | None, bytes | None]) -> None:
    def has_partitions() -> bool:
        consumer.poll(1)
        return bool(consumer.assignment)

    peers.wait_until(has_partitions, 60, "partitions for a member of a group")


def _documents(text: str) -> list[dict[str, object]]:
    """JSON one after the other: these formatters put nothing between."""
    found, position = [], 0
    while position < len(text.rstrip()):
        document, position = json.JSONDecoder().raw_decode(text, position)
        found.append(document)
    return found


def _count(servers: str, topic: str) -> int:
    """How many records a consumer finds in it now."""
    partition = TopicPartition(topic, 0)
    with Consumer(servers, fetch_max_wait_ms=10) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        end, count = consumer.end_offsets([partition])[partition], 0
        while consumer.position(partition) < end:
            count += len(consumer.poll(60))
    return count


@pytest.mark.parametrize(("topic", "formatter", "kind"), LINES)
def test_both_show_the_same_of_internal_topics(
    tools: Tools, broker: peers.BrokerProcess, filled: dict[str, int], topic: str, formatter: str, kind: str
) -> None:
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0"]
    arguments += ["--from-beginning", "--max-messages", str(filled[topic])]
    arguments += ["--formatter", f"{FORMATTERS}.{formatter}"]
    their, our = theirs(tools, CONSUMER, arguments), ours(CONSUMER, arguments)
    assert (our.exit, our.out) == (their.exit, their.out)
    shown = _documents(our.out)
    assert shown, f"no {kind} in {filled[topic]} records of {topic}"
    assert all(set(one) == {"key", "value"} for one in shown)


@pytest.mark.parametrize("topic", [OFFSETS, TRANSACTIONS])
def test_both_show_the_same_of_internal_topics_with_everything_that_can_be_shown(
    tools: Tools, broker: peers.BrokerProcess, filled: dict[str, int], topic: str
) -> None:
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0"]
    arguments += ["--from-beginning", "--max-messages", str(filled[topic])]
    for name in EVERYTHING:
        arguments += ["--formatter-property", f"{name}=true"]
    their, our = theirs(tools, CONSUMER, arguments), ours(CONSUMER, arguments)
    assert (our.exit, our.out) == (their.exit, their.out)
    assert our.out.count("Offset:") == filled[topic]


@pytest.mark.parametrize("name", OLD_NAMES)
def test_old_names_show_the_old_text(broker: peers.BrokerProcess, filled: dict[str, int], name: str) -> None:
    """Kafka's tool has not known these names since 4.0."""
    topic, text = OLD_NAMES[name]
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0"]
    arguments += ["--from-beginning", "--max-messages", str(filled[topic]), "--formatter", name]
    shown = ours(CONSUMER, arguments)
    assert shown.exit == 0
    assert any(line.startswith(text) for line in shown.out.splitlines()), shown.out
