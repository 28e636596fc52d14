"""Settings of a live Kafka, described and altered by its admin client, against what we make of the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.config import (
    BrokerConfig,
    Change,
    Entry,
    Operation,
    ResourceType,
    apply_changes,
    check,
    check_broker_change,
    definitions,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_created_topic,
    describe_group,
    describe_topic,
)
from ottla.wire.errors import KafkaError, UnknownTopicOrPartition
from tests.interop import peers
from tests.interop.tools.oracle import ask

STATIC = {
    "log.retention.hours": "24",
    "log.retention.minutes": "600",
    "log.roll.hours": "2",
    "log.flush.scheduler.interval.ms": "5000",
    "compression.gzip.level": "7",
    "min.insync.replicas": "1",
    "some.unknown.key": "abc",
    "listener.name.plaintext.max.connections": "77",
    "ssl.keystore.password": "secret",
    "unstable.api.versions.enable": "false",
    "group.consumer.session.timeout.ms": "46000",
    # the defaults that are ours
    "max.connections": "2147483647",
    "max.connections.per.ip": "2147483647",
    "queued.max.request.bytes": "-1",
}

# (resource type, name, changes): SET unless another operation is named first.
ALTERATIONS: list[tuple[str, str, list[tuple[str, str, str]]]] = [
    ("TOPIC", "t", [("cleanup.policy", "APPEND", "compact")]),
    ("TOPIC", "t", [("cleanup.policy", "SUBTRACT", "delete")]),
    ("TOPIC", "t", [("cleanup.policy", "SUBTRACT", "compact")]),
    ("TOPIC", "t", [("cleanup.policy", "SET", "foo")]),
    ("TOPIC", "t", [("retention.ms", "APPEND", "1")]),
    ("TOPIC", "t", [("retention.ms", "SET", "-2")]),
    ("TOPIC", "t", [("retention.ms", "SET", "")]),
    ("TOPIC", "t", [("retention.ms", "SET", "7"), ("nope", "SET", "1")]),
    ("TOPIC", "t", [("nope", "SET", "1")]),
    ("TOPIC", "t", [("nope", "DELETE", "")]),
    ("TOPIC", "t", [("nope", "APPEND", "1")]),
    ("TOPIC", "t", [("min.compaction.lag.ms", "SET", "10"), ("max.compaction.lag.ms", "SET", "5")]),
    ("TOPIC", "t", [("remote.storage.enable", "SET", "true")]),
    ("TOPIC", "t", [("leader.replication.throttled.replicas", "APPEND", "0:1")]),
    ("TOPIC", "t", [("leader.replication.throttled.replicas", "APPEND", "0:1,1:1")]),
    ("TOPIC", "t", [("leader.replication.throttled.replicas", "SUBTRACT", "0:1")]),
    ("TOPIC", "t", [("leader.replication.throttled.replicas", "SET", "x")]),
    ("TOPIC", "t", [("segment.bytes", "SET", "1")]),
    ("TOPIC", "t", [("internal.segment.bytes", "SET", "1000")]),
    ("TOPIC", "t", [("message.timestamp.type", "SET", "now")]),
    ("TOPIC", "missing", [("retention.ms", "SET", "5")]),
    ("TOPIC", "", [("retention.ms", "SET", "5")]),
    ("TOPIC", "bad name", [("retention.ms", "SET", "5")]),
    ("BROKER", "1", [("log.retention.ms", "SET", "123456")]),
    ("BROKER", "", [("log.retention.ms", "SET", "99999")]),
    ("BROKER", "", [("num.io.threads", "SET", "0")]),
    ("BROKER", "", [("num.io.threads", "SET", "6")]),
    ("BROKER", "1", [("num.io.threads", "SET", "abc")]),
    ("BROKER", "", [("num.io.threads", "APPEND", "1")]),
    ("BROKER", "", [("listeners", "SET", "PLAINTEXT://:1")]),
    ("BROKER", "", [("node.id", "SET", "3")]),
    ("BROKER", "1", [("node.id", "SET", "3")]),
    ("BROKER", "1", [("ssl.keystore.password", "SET", "p")]),
    ("BROKER", "1", [("listener.name.plaintext.ssl.keystore.password", "SET", "p")]),
    ("BROKER", "", [("listener.name.plaintext.ssl.keystore.password", "SET", "p")]),
    ("BROKER", "", [("my.own.key", "SET", "v")]),
    ("BROKER", "", [("my.own.key", "APPEND", "v")]),
    ("BROKER", "", [("log.cleanup.policy", "APPEND", "compact")]),
    ("BROKER", "", [("leader.replication.throttled.rate", "SET", "1000")]),
    ("BROKER", "1", [("follower.replication.throttled.rate", "SET", "-1")]),
    ("BROKER", "1", [("follower.replication.throttled.rate", "SET", "7")]),
    ("BROKER", "", [("message.max.bytes", "SET", "2000000")]),
    ("BROKER", "1", [("log.retention.hours", "SET", "5")]),
    ("BROKER", "1", [("advertised.listeners", "SET", "PLAINTEXT://h:1")]),
    ("GROUP", "g", [("consumer.session.timeout.ms", "SET", "50000")]),
    ("GROUP", "g", [("consumer.session.timeout.ms", "SET", "1")]),
    ("GROUP", "g", [("consumer.heartbeat.interval.ms", "SET", "100000")]),
    ("GROUP", "g", [("consumer.assignment.interval.ms", "SET", "100000")]),
    ("GROUP", "g", [("share.record.lock.duration.ms", "SET", "14999")]),
    ("GROUP", "g", [("share.delivery.count.limit", "SET", "100")]),
    ("GROUP", "g", [("streams.num.standby.replicas", "SET", "3")]),
    ("GROUP", "g", [("share.auto.offset.reset", "SET", "x")]),
    ("GROUP", "g", [("share.auto.offset.reset", "SET", "earliest")]),
    ("GROUP", "g", [("consumer.session.timeout.ms", "APPEND", "1")]),
    ("GROUP", "g", [("nope", "SET", "1")]),
    ("GROUP", "", [("consumer.session.timeout.ms", "SET", "50000")]),
    (
        "CLIENT_METRICS",
        "m",
        [("interval.ms", "SET", "1000"), ("metrics", "SET", "a.b,c"), ("match", "SET", "client_id=a.*")],
    ),
    ("CLIENT_METRICS", "m", [("interval.ms", "SET", "10")]),
    ("CLIENT_METRICS", "m", [("interval.ms", "SET", "zz")]),
    ("CLIENT_METRICS", "m", [("x", "SET", "1")]),
    ("CLIENT_METRICS", "", [("interval.ms", "SET", "1000")]),
    ("CLIENT_METRICS", "m", [("match", "SET", "foo=bar")]),
    ("CLIENT_METRICS", "m", [("match", "SET", "client_id")]),
    ("CLIENT_METRICS", "m", [("match", "SET", "client_id=[")]),
    ("CLIENT_METRICS", "m", [("metrics", "APPEND", "d")]),
]
# Refused by both, but Kafka wraps the reason into the text of an exception in an exception.
SAME_CODE_ONLY: list[tuple[str, str, list[tuple[str, str, str]]]] = [
    ("BROKER", "1", [("num.io.threads", "SET", "100")]),
    ("BROKER", "1", [("log.cleaner.threads", "SET", "1000")]),
    ("BROKER", "1", [("log.retention.ms", "SET", "0")]),
    ("BROKER", "1", [("max.connections.per.ip", "SET", "0")]),
    ("BROKER", "1", [("max.connections.per.ip.overrides", "SET", "a b:1")]),
    ("BROKER", "1", [("cordoned.log.dirs", "SET", "/nope")]),
]
DESCRIBED = [
    ("BROKER", "1"),
    ("BROKER", ""),
    ("TOPIC", "t"),
    ("TOPIC", "plain"),
    ("GROUP", "g"),
    ("GROUP", "other"),
    ("CLIENT_METRICS", "m"),
    ("CLIENT_METRICS", "other"),
]
TOPIC_CONFIGS = {"retention.ms": "5", "cleanup.policy": "compact,delete"}

_SOURCES = {
    "TOPIC": "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER": "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER": "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER": "STATIC_BROKER_CONFIG",
    "DEFAULT": "DEFAULT_CONFIG",
    "GROUP": "DYNAMIC_GROUP_CONFIG",
    "CLIENT_METRICS": "DYNAMIC_CLIENT_METRICS_CONFIG",
}


class OurSide:
    """The part of a node that stores and describes settings, played by hand."""

    def __init__(self, text: str) -> None:
        self.loaded = BrokerConfig.load(text)
        # A new cluster writes this down once, since eligible leader replicas are on.
        self.stored: dict[tuple[str, str], dict[str, str]] = {("BROKER", ""): {"min.insync.replicas": "1"}}

    @property
    def config(self) -> BrokerConfig:
        cluster, broker = self.stored.get(("BROKER", ""), {}), self.stored.get(("BROKER", "1"), {})
        return self.loaded.with_dynamic(cluster=cluster, broker=broker)

    def alter(self, kind: str, name: str, changes: list[tuple[str, str, str]]) -> dict[str, Any]:
        resource = ResourceType[kind]
        wanted = [Change(setting, Operation[operation], value) for setting, operation, value in changes]
        current = self.stored.get((kind, name), {})
        try:
            if resource is ResourceType.BROKER:
                check_broker_change(self.config, name, wanted)
            after = current | apply_changes(resource, current, wanted)
            proposed = {setting: value for setting, value in after.items() if value is not None}
            check(self.config, resource, name, proposed, current)
            if kind == "TOPIC" and name not in ("t", "plain"):
                raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
        except KafkaError as error:
            return {"code": int(error.code), "message": error.message}
        self.stored[kind, name] = proposed
        return {"code": 0}

    def describe(self, kind: str, name: str) -> list[Entry]:
        overrides = self.stored.get((kind, name), {})
        if kind == "TOPIC":
            return describe_topic(self.config, overrides)
        if kind == "GROUP":
            return describe_group(self.config, overrides)
        if kind == "CLIENT_METRICS":
            return describe_client_metrics(self.config, overrides)
        return describe_broker(self.config) if name else describe_cluster(self.config)


def row(entry: Entry) -> list[Any]:
    synonyms = [[synonym.name, synonym.value, _SOURCES[synonym.source.name]] for synonym in entry.synonyms]
    for synonym in synonyms:
        found = definitions(ResourceType.BROKER).get(synonym[0] or "")
        if found is not None and synonym[1:] == [found.default, "DEFAULT_CONFIG"]:
            synonym[1] = found.kafka_default  # three of them are ours
    return [
        entry.name,
        entry.value,
        _SOURCES[entry.source.name],
        entry.type.name,
        entry.is_sensitive,
        entry.read_only,
        synonyms,
    ]


def steps() -> list[list[Any]]:
    created: list[list[Any]] = [["create", "t", TOPIC_CONFIGS], ["create", "plain", {}]]
    altered = [["alter", *alteration] for alteration in (*ALTERATIONS, *SAME_CODE_ONLY)]
    return created + altered + [["describe", *resource] for resource in DESCRIBED]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[Any]]:
    """The properties of a live Kafka, and its answers to all steps."""
    with peers.KafkaBroker(tmp_path_factory.mktemp("kafka"), properties=STATIC) as broker:
        answers = ask("ConfigAdmin", steps(), broker.bootstrap)
    return Path(broker.properties_file).read_text(), answers


def test_settings_are_altered_refused_and_described_as_by_kafka(kafka: tuple[str, list[Any]]) -> None:
    text, answers = kafka
    rest = iter(answers)
    ours = OurSide(text)
    for name, configs in (("t", TOPIC_CONFIGS), ("plain", {})):
        ours.stored["TOPIC", name] = dict(configs)
        created = [row(entry)[:3] for entry in describe_created_topic(ours.config, configs)]
        assert created == sorted(entry[:3] for entry in next(rest))
    for alteration in ALTERATIONS:
        assert ours.alter(*alteration) == next(rest), alteration
    for alteration in SAME_CODE_ONLY:
        assert ours.alter(*alteration)["code"] == next(rest)["code"], alteration
    documented = 0
    for resource in DESCRIBED:
        mine = {entry.name: row(entry) for entry in ours.describe(*resource)}
        theirs = {entry[0]: entry for entry in next(rest)}
        different = {
            name: (mine.get(name), theirs.get(name))
            for name in mine.keys() | theirs.keys()
            if mine.get(name) != theirs.get(name)
        }
        assert different == {}, resource
        documented += len(mine)
    assert documented > len(definitions(ResourceType.BROKER))


# Ports and paths are each node's own, and so are the three defaults that differ.
_OWN = {
    "advertised.listeners",
    "controller.quorum.bootstrap.servers",
    "listener.name.plaintext.max.connections",
    "listeners",
    "log.dirs",
    "max.connections",
    "max.connections.per.ip",
    "queued.max.request.bytes",
}


def test_a_live_node_of_ours_gives_the_same_answers(kafka: tuple[str, list[Any]], tmp_path: Path) -> None:
    with peers.OttlaBroker(tmp_path, properties=STATIC) as broker:
        answers = ask("ConfigAdmin", steps(), broker.bootstrap)
    for step, theirs, mine in zip(steps(), kafka[1], answers, strict=True):
        if step[0] != "alter":
            assert [row for row in sorted(mine) if row[0] not in _OWN] == [
                row for row in sorted(theirs) if row[0] not in _OWN
            ], step
        elif tuple(step[1:]) in SAME_CODE_ONLY:
            assert mine["code"] == theirs["code"], step
        else:
            assert mine == theirs, step
