"""Whole configurations against Kafka's: the same ones are refused, and of the others the same is derived."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.config import BrokerConfig, ConfigError, topic_texts
from tests.interop.tools.oracle import ask

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "log.dirs": "/data/a,/data/b",
}
BROKER = {
    "process.roles": "broker",
    "node.id": "2",
    "listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}
CONTROLLER = {
    "process.roles": "controller",
    "node.id": "1",
    "listeners": "CONTROLLER://0.0.0.0:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}
ROLES = (COMBINED, BROKER, CONTROLLER)

LISTENERS = [
    "PLAINTEXT://:9092",
    "PLAINTEXT://:9092,CONTROLLER://:9093",
    "PLAINTEXT://:9092,CONTROLLER://:9092",
    "PLAINTEXT://127.0.0.1:9092,CONTROLLER://[::1]:9092",
    "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.2:9092",
    "PLAINTEXT://:0,CONTROLLER://:0",
    "plaintext://:9092,controller://:9093",
    "PLAINTEXT://:9092,PLAINTEXT://:9093",
    "INSIDE://:9092,CONTROLLER://:9093",
    "SSL://:9092,CONTROLLER://:9093",
    "PLAINTEXT://h:9092,SSL://h:9094,CONTROLLER://:9093",
    "PLAINTEXT:9092",
    "PLAINTEXT://h",
    "PLAINTEXT://h:99x",
    "CONTROLLER://:9093",
    "",
]
CHANGES: dict[str, list[str]] = {
    "listeners": LISTENERS,
    "advertised.listeners": [
        "PLAINTEXT://h:9092",
        "PLAINTEXT://0.0.0.0:9092",
        "PLAINTEXT://h:1,CONTROLLER://c:2",
        "CONTROLLER://c:2",
        "SSL://h:1",
        "NOPE://h:1",
        "PLAINTEXT://:9092",
        "PLAINTEXT://h:1,PLAINTEXT://h:2",
        "PLAINTEXT://h:1,SSL://h:1",
        "",
    ],
    "controller.listener.names": [
        "CONTROLLER",
        "PLAINTEXT",
        "CONTROLLER,PLAINTEXT",
        "OTHER",
        "controller",
        "SSL",
        "",
    ],
    "listener.security.protocol.map": [
        "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "PLAINTEXT:PLAINTEXT",
        "PLAINTEXT:PLAINTEXT,CONTROLLER:nope",
        "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "PLAINTEXT",
        "",
    ],
    "inter.broker.listener.name": ["PLAINTEXT", "plaintext", "SSL", "CONTROLLER", "NOPE"],
    "security.inter.broker.protocol": ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "plaintext"],
    "early.start.listeners": ["PLAINTEXT", "CONTROLLER", "NOPE", "", "PLAINTEXT,CONTROLLER"],
    "controller.quorum.voters": ["1@a:1", "2@a:1", "1@a:1,2@b:2", "1@0.0.0.0:0", ""],
    "controller.quorum.bootstrap.servers": ["a:1", "", "a:1,b:2"],
    "controller.quorum.auto.join.enable": ["true"],
    "process.roles": [
        "broker",
        "controller",
        "broker,controller",
        "controller,broker",
        "broker,broker",
        "x",
        "",
    ],
    "broker.id": ["1", "2", "-1"],
    "log.dirs": ["/a", "/a,/b", "/a,/a", ""],
    "log.dir": ["/a", "/a,/b"],
    "metadata.log.dir": ["/m", "/data/b"],
    "cordoned.log.dirs": ["/data/a", "/nope", "*", "*,/data/a", ""],
    "log.retention.hours": ["1", "0", "-1", "-7"],
    "log.retention.minutes": ["1", "0", "-1"],
    "log.retention.ms": ["1", "0", "-1", "-2"],
    "log.roll.hours": ["1", "2"],
    "log.roll.ms": ["1", "0"],
    "log.roll.jitter.hours": ["1"],
    "log.roll.jitter.ms": ["0", "-1"],
    "log.flush.interval.ms": ["5"],
    "log.flush.scheduler.interval.ms": ["7"],
    "log.cleaner.threads": ["1", "127", "128", "200"],
    "log.cleaner.dedupe.buffer.size": ["1048576", "1048577"],
    "replica.fetch.wait.max.ms": ["30000", "30001"],
    "replica.lag.time.max.ms": ["499", "500"],
    "replica.socket.timeout.ms": ["499", "500"],
    "queued.max.request.bytes": ["-1", "0", "1", "104857600", "104857599"],
    "socket.request.max.bytes": ["1", "2000000000"],
    "max.connections.per.ip": ["0", "1"],
    "max.connections.per.ip.overrides": [
        "h:1",
        "127.0.0.1:200,h:1",
        "a b:1",
        "h",
        "h:x",
        ":1",
        "[::1]:5",
        "::1:5",
    ],
    "connections.max.idle.ms": ["-1", "100", "101"],
    "connection.failed.authentication.delay.ms": ["600000", "599999"],
    "group.consumer.heartbeat.interval.ms": ["1", "5000", "15000", "15001"],
    "group.consumer.session.timeout.ms": ["44999", "45000", "60000", "60001"],
    "group.consumer.min.session.timeout.ms": ["1", "60001"],
    "group.consumer.assignment.interval.ms": ["0", "15000", "15001"],
    "group.share.delivery.count.limit": ["2", "10"],
    "group.share.max.delivery.count.limit": ["5", "9"],
    "group.share.record.lock.duration.ms": ["15000", "14999", "60001"],
    "group.share.max.share.sessions": ["199", "200"],
    "group.share.assignors": ["simple", "simple,simple2"],
    "group.streams.num.standby.replicas": ["2", "3"],
    "group.streams.heartbeat.interval.ms": ["4999", "5000"],
    "group.coordinator.rebalance.protocols": ["classic", "consumer", "classic,consumer"],
    "sasl.mechanism.inter.broker.protocol": ["PLAIN"],
}
TOGETHER = [
    {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
    {
        "listeners": "A://:1,CONTROLLER://:2",
        "listener.security.protocol.map": "A:PLAINTEXT,CONTROLLER:PLAINTEXT",
    },
    {
        "listeners": "A://:1,CONTROLLER://:2",
        "listener.security.protocol.map": "A:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "A",
        "early.start.listeners": "A",
    },
    {
        "listeners": "PLAINTEXT://:1,CONTROLLER://:2,C2://:3",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,C2:SSL",
        "controller.listener.names": "C2,CONTROLLER",
    },
    {"log.retention.ms": "-1", "log.retention.hours": "5", "log.retention.minutes": "7"},
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "h:1"},
    {"listeners": "SASL_PLAINTEXT://:1,CONTROLLER://:2", "security.inter.broker.protocol": "SASL_PLAINTEXT"},
    {
        "listeners": "SASL_PLAINTEXT://:1,CONTROLLER://:2",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN,GSSAPI",
    },
    {"metadata.log.dir": "/m", "log.dir": "/x"},
]
MISSING = [
    {name: ""} for name in ("node.id", "process.roles", "controller.listener.names", "listeners", "log.dirs")
]


def cases() -> Iterator[dict[str, str]]:
    for base in ROLES:
        yield base
        for name, values in CHANGES.items():
            for value in values:
                yield base | {name: value}
        for changes in TOGETHER:
            yield base | changes
        for missing in MISSING:
            yield {name: value for name, value in base.items() if name not in missing}


# Kafka takes these and fails later, or never notices; we refuse them.
_DIFFERENT = [
    ("process.roles", "broker", "controller.quorum.voters", "1@0.0.0.0:0"),
    ("node.id", None, "max.connections.per.ip.overrides", ":1"),
]


def is_different(properties: dict[str, str]) -> bool:
    return any(
        properties.get(name) == value and (where is None or properties.get(key) == where)
        for key, where, name, value in _DIFFERENT
    )


def ours(properties: dict[str, str]) -> dict[str, Any]:
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    try:
        config = BrokerConfig.load(text)
    except ConfigError as error:
        return {"error": str(error)}
    texts = topic_texts(config, {})
    return {
        "node": config.node_id,
        "listeners": [list(endpoint) for endpoint in config.listeners],
        "advertised": [list(endpoint) for endpoint in config.advertised_listeners],
        "controllers": [list(endpoint) for endpoint in config.advertised_controller_listeners],
        "inter_broker": config.inter_broker_listener_name,
        "early": sorted(config.early_start_listeners),
        "directories": list(config.log_directories),
        "metadata": config.metadata_log_directory,
        "log": {name: text for name, text in texts.items() if name not in _NOT_FROM_BROKER},
    }


_NOT_FROM_BROKER = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
)


def test_the_same_configurations_are_refused_and_the_same_is_derived_from_the_others() -> None:
    asked = list(cases())
    answers = ask("ConfigOracle", {"nodes": asked})["nodes"]
    different = []
    for properties, theirs in zip(asked, answers, strict=True):
        mine = ours(properties)
        same = ("error" in mine) == ("error" in theirs) if "error" in mine else mine == theirs
        if not same and not is_different(properties) and "does not support yet" not in mine.get("error", ""):
            different.append((properties, mine, theirs))
    assert different == []
    refused = sum("error" in answer for answer in answers)
    assert len(asked) > 400
    assert 100 < refused < len(asked) - 100, "the cases should try both"
