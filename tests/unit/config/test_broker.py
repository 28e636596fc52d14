"""A node's configuration: sources and precedence, errors that name the place, and derived values."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ottla.config import BrokerConfig, ConfigError, Endpoint, development_config

COMBINED = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://broker.example:9092
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=localhost:9093
log.dirs=/data/a,/data/b
"""
BROKER = """\
process.roles=broker
node.id=2
listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
"""
CONTROLLER = """\
process.roles=controller
node.id=1
listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:9093
"""


def test_a_combined_node_has_listeners_for_both_roles() -> None:
    config = BrokerConfig.load(COMBINED)
    assert config.node_id == 1
    assert config.is_broker
    assert config.is_controller
    assert config.data_listeners == (Endpoint("PLAINTEXT", "PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Endpoint("PLAINTEXT", "PLAINTEXT", "broker.example", 9092),)
    assert config.controller_listeners == (Endpoint("CONTROLLER", "PLAINTEXT", "", 9093),)
    assert config.early_start_listeners == {"CONTROLLER"}
    assert config.inter_broker_listener_name == "PLAINTEXT"
    assert config.quorum_bootstrap_servers == (("localhost", 9093),)
    assert config.log_directories == ("/data/a", "/data/b")
    assert config.metadata_log_directory == "/data/a"
    assert config.warnings == ()


def test_separate_brokers_and_controllers_are_valid() -> None:
    broker = BrokerConfig.load(BROKER)
    assert (broker.is_broker, broker.is_controller) == (True, False)
    assert broker.quorum_voters == {1: ("localhost", 9093)}
    assert broker.advertised_controller_listeners == ()
    controller = BrokerConfig.load(CONTROLLER)
    assert (controller.is_broker, controller.is_controller) == (False, True)
    assert controller.advertised_listeners == ()


def test_values_have_types_and_null_defaults_are_none() -> None:
    config = BrokerConfig.load(COMBINED + "log.cleaner.min.cleanable.ratio=0.25\n")
    assert config["num.partitions"] == 1
    assert config["log.retention.ms"] is None
    assert config["auto.create.topics.enable"] is True
    assert config.float_of("log.cleaner.min.cleanable.ratio") == 0.25
    assert config.list_of("log.cleanup.policy") == ("delete",)
    with pytest.raises(KeyError):
        config["no.such.setting"]


def test_the_environment_wins_over_the_file_and_options_win_over_both() -> None:
    config = BrokerConfig.load(
        COMBINED + "num.partitions=2\nmessage.max.bytes=2000\nnum.io.threads=2\n",
        environment={"KAFKA_NUM_PARTITIONS": "3", "KAFKA_MESSAGE_MAX_BYTES": "3000", "KAFKA_OPTS": "-Xmx1g"},
        overrides={"num.partitions": "4"},
    )
    assert config["num.partitions"] == 4
    assert config["message.max.bytes"] == 3000
    assert config["num.io.threads"] == 2
    assert config.static["message.max.bytes"].origin == "environment variable KAFKA_MESSAGE_MAX_BYTES"
    assert config.warnings == ()


def test_a_configuration_can_come_from_the_environment_alone() -> None:
    config = BrokerConfig.load(
        environment={
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
        }
    )
    assert config.node_id == 1
    assert config.cluster_id == "5L6g3nShT-eMCtK--X86sw"


def test_listeners_follow_advertised_ones_from_the_environment() -> None:
    config = BrokerConfig.load(
        BROKER.replace("listeners=PLAINTEXT://localhost:9092\n", ""),
        environment={"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker.example:19092"},
    )
    assert config.listeners == (Endpoint("PLAINTEXT", "PLAINTEXT", "0.0.0.0", 19092),)


def test_the_last_line_of_a_repeated_key_counts_and_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"^my\.properties, line 9: num\.partitions=0 is not allowed"):
        BrokerConfig.load(COMBINED + "num.partitions=5\nnum.partitions=0\n", file="my.properties")


def test_all_invalid_values_are_reported_together_with_their_places() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(
            COMBINED + "num.io.threads=0\nlog.message.timestamp.type=now\n",
            environment={"KAFKA_COMPRESSION_TYPE": "brotli"},
            overrides={"delete.topic.enable": "maybe"},
        )
    assert str(caught.value).splitlines() == [
        "server.properties, line 8: num.io.threads=0 is not allowed. Value must be at least 1.",
        "server.properties, line 9: log.message.timestamp.type=now is not allowed. "
        "String must be one of: CreateTime, LogAppendTime.",
        "environment variable KAFKA_COMPRESSION_TYPE: compression.type=brotli is not allowed. "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer.",
        "option delete.topic.enable=maybe: delete.topic.enable=maybe is not allowed. "
        "Expected value to be either true or false.",
    ]


def test_a_missing_setting_is_named_with_an_example() -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load("node.id=1\n")
    assert 'Missing required configuration "process.roles"' in str(caught.value)
    assert "process.roles=broker,controller" in str(caught.value)


def test_an_unknown_key_warns_with_the_nearest_name() -> None:
    config = BrokerConfig.load(
        COMBINED + "num.partitons=3\nzookeeper.connect=z:2181\nrsm.config.bucket=b\nx=1\n"
    )
    assert config.warnings == (
        "server.properties, line 8: num.partitons is not a known setting and is ignored. Did you mean "
        "num.partitions?",
        "server.properties, line 9: zookeeper.connect was removed and is ignored: "
        "ZooKeeper is no longer used.",
        "server.properties, line 11: x is not a known setting and is ignored.",
    )
    assert config["num.partitions"] == 1


def test_a_malformed_file_names_the_line() -> None:
    with pytest.raises(ConfigError, match=r"server\.properties, line 8"):
        BrokerConfig.load(COMBINED + "broker.rack=\\u12\n")


def test_an_invalid_secret_is_hidden() -> None:
    config = BrokerConfig.load(COMBINED + "ssl.keystore.password=hunter2\n")
    assert config["ssl.keystore.password"] == "hunter2"


@pytest.mark.parametrize(
    ("base", "changes", "expected"),
    [
        (COMBINED, {"controller.quorum.voters": "1@0.0.0.0:9093"}, "(0.0.0.0) is not routeable"),
        (COMBINED, {"broker.id": "2"}, "You must set `node.id` to the same value as `broker.id`."),
        (
            COMBINED,
            {"controller.listener.names": "OTHER"},
            "No security protocol defined for listener CONTROLLER",
        ),
        (
            COMBINED,
            {"controller.quorum.bootstrap.servers": ""},
            "either controller.quorum.bootstrap.servers must",
        ),
        (
            COMBINED,
            {"controller.quorum.voters": "7@h:1"},
            "the node id 1 must be included in the set of voters",
        ),
        (COMBINED, {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092"}, "must have a different port"),
        (COMBINED, {"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "must have a different name"),
        (COMBINED, {"listeners": "nonsense"}, "Unable to parse nonsense to a broker endpoint"),
        (
            COMBINED,
            {"listeners": "FOO://:1,CONTROLLER://:2"},
            "No security protocol defined for listener FOO",
        ),
        (COMBINED, {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address 0.0.0.0"),
        (
            COMBINED,
            {"advertised.listeners": "CONTROLLER://h:1"},
            "There must be at least one broker advertised",
        ),
        (
            COMBINED,
            {"inter.broker.listener.name": "SSL"},
            "inter.broker.listener.name must be a listener name",
        ),
        (
            COMBINED,
            {"inter.broker.listener.name": "NOPE"},
            "NOPE defined in inter.broker.listener.name not found",
        ),
        (
            COMBINED,
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
        (COMBINED, {"listener.security.protocol.map": "A:B"}, "Invalid security protocol `B`"),
        (COMBINED, {"listener.security.protocol.map": "A"}, "not in the form key:value"),
        (COMBINED, {"early.start.listeners": "NOPE"}, "early.start.listeners contains listener NOPE"),
        (COMBINED, {"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1)"),
        (COMBINED, {"log.retention.hours": "0"}, "log.retention.ms must be unlimited (-1)"),
        (COMBINED, {"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        (COMBINED, {"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
        (COMBINED, {"log.cleaner.threads": "500"}, "log.cleaner.dedupe.buffer.size must be at least 1MB"),
        (COMBINED, {"log.cleaner.threads": "0"}, "log.cleaner.threads must be at least 1"),
        (COMBINED, {"replica.socket.timeout.ms": "1"}, "replica.socket.timeout.ms should always be at least"),
        (COMBINED, {"replica.lag.time.max.ms": "1"}, "replica.fetch.wait.max.ms should always be less than"),
        (COMBINED, {"queued.max.request.bytes": "1"}, "queued.max.request.bytes must be larger or equal"),
        (COMBINED, {"max.connections.per.ip": "0"}, "max.connections.per.ip can be set to zero only if"),
        (COMBINED, {"max.connections.per.ip.overrides": "a b:1"}, "contains invalid addresses : a b"),
        (COMBINED, {"max.connections.per.ip.overrides": "h:x"}, "is not a number"),
        (
            COMBINED,
            {"connections.max.idle.ms": "10"},
            "should always be less than connections.max.idle.ms=10",
        ),
        (COMBINED, {"cordoned.log.dirs": "/nope"}, "Missing entries : /nope"),
        (COMBINED, {"cordoned.log.dirs": "*,/data/a"}, "it must not contain other values"),
        (COMBINED, {"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol"),
        (
            COMBINED,
            {"group.consumer.heartbeat.interval.ms": "1"},
            "group.consumer.heartbeat.interval.ms must be greater than or equal to",
        ),
        (COMBINED, {"group.share.max.share.sessions": "1"}, "group.share.max.share.sessions must be greater"),
        (COMBINED, {"group.share.assignors": "simple,other"}, "exactly one assignor"),
        (
            BROKER,
            {"controller.quorum.voters": "2@h:1"},
            "the node id 2 must not be included in the set of voters",
        ),
        (
            BROKER,
            {"controller.listener.names": "PLAINTEXT"},
            "controller.listener.names must not contain a value",
        ),
        (
            BROKER,
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
            "Controller listener with name CONTROLLER",
        ),
        (
            BROKER,
            {"controller.quorum.auto.join.enable": "true"},
            "controller.quorum.auto.join.enable is only",
        ),
        (
            CONTROLLER,
            {"listeners": "CONTROLLER://:1,PLAINTEXT://:2"},
            "must only contain KRaft controller listeners",
        ),
        (CONTROLLER, {"inter.broker.listener.name": "CONTROLLER"}, "must not contain an explicitly set"),
    ],
)
def test_conflicting_settings_are_refused_with_a_place(
    base: str, changes: Mapping[str, str], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(base, overrides=changes)
    assert expected in str(caught.value)
    assert str(caught.value).startswith(("option ", "server.properties, line "))


@pytest.mark.parametrize(
    "line",
    [
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "create.topic.policy.class.name=com.example.Policy",
        "principal.builder.class=com.example.Builder",
        "listener.name.plaintext.plain.sasl.server.callback.handler.class=com.example.Handler",
        "remote.log.storage.system.enable=true",
    ],
)
def test_unsupported_security_plugins_are_refused(line: str) -> None:
    with pytest.raises(ConfigError, match=r"^server\.properties, line 8"):
        BrokerConfig.load(COMBINED + line)


def test_a_reporter_class_is_ignored_with_a_warning() -> None:
    config = BrokerConfig.load(COMBINED + "metric.reporters=com.example.Reporter\n")
    assert len(config.warnings) == 1
    assert "metric.reporters" in config.warnings[0]


def test_controller_listeners_need_a_protocol_once_tls_is_in_use() -> None:
    text = COMBINED.replace("PLAINTEXT://", "SSL://") + "security.inter.broker.protocol=SSL\n"
    with pytest.raises(ConfigError, match="No security protocol defined for listener CONTROLLER"):
        BrokerConfig.load(text)
    mapped = text + "listener.security.protocol.map=SSL:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
    assert BrokerConfig.load(mapped).data_listeners == (Endpoint("SSL", "PLAINTEXT", "", 9092),)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_secure_listener_is_never_served_in_plain_text(protocol: str) -> None:
    protocols = f"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}\n"
    with pytest.raises(ConfigError, match=f"line 3: Listener CONTROLLER uses {protocol}, which"):
        BrokerConfig.load(COMBINED + protocols)


def test_an_ipv4_and_an_ipv6_listener_may_share_a_port() -> None:
    text = COMBINED.replace("CONTROLLER://:9093", "CONTROLLER://[::1]:9092").replace(
        "PLAINTEXT://:9092", "PLAINTEXT://127.0.0.1:9092"
    )
    assert [e.host for e in BrokerConfig.load(text).listeners] == ["127.0.0.1", "::1"]


def test_an_unadvertised_controller_listener_uses_its_voter_address() -> None:
    text = CONTROLLER.replace("localhost:9093\ncontroller.listener", "0.0.0.0:9093\ncontroller.listener")
    assert BrokerConfig.load(text).advertised_controller_listeners[0].host == "localhost"
    without = text.replace("controller.quorum.voters=1@", "controller.quorum.bootstrap.servers=")
    assert BrokerConfig.load(without).advertised_controller_listeners[0].host == ""


def test_relative_directories_start_from_the_base_directory() -> None:
    config = BrokerConfig.load(COMBINED, overrides={"log.dirs": "./a,b,/c"}, base_directory="/base")
    assert config.log_directories == ("/base/a", "/base/b", "/c")
    metadata = BrokerConfig.load(COMBINED, overrides={"metadata.log.dir": "m"}, base_directory="/base/")
    assert metadata.all_directories == ("/data/a", "/data/b", "/base/m")


def test_settings_of_a_listener_fall_back_to_those_of_the_node() -> None:
    config = BrokerConfig.load(COMBINED + "listener.name.plaintext.max.connections=7\n")
    assert config.listener_value("PLAINTEXT", "max.connections") == 7
    assert config.listener_value("CONTROLLER", "max.connections") == 10_000
    assert config.warnings == ()


def test_the_request_memory_limit_always_fits_one_request() -> None:
    assert BrokerConfig.load(COMBINED).queued_request_bytes == 268_435_456
    larger = BrokerConfig.load(COMBINED, overrides={"socket.request.max.bytes": "1000000000"})
    assert larger.queued_request_bytes == 1_000_000_000
    assert (
        BrokerConfig.load(COMBINED, overrides={"queued.max.request.bytes": "-1"}).queued_request_bytes is None
    )


def test_references_are_resolved_by_named_providers() -> None:
    providers = (
        "config.providers=env,file\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.env.param.allowlist.pattern=SECRET.*\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    files = {"/run/secrets": b"pass=word\n"}
    config = BrokerConfig.load(
        COMBINED
        + providers
        + "broker.rack=r-${env:SECRET_RACK}\nssl.key.password=${file:/run/secrets:pass}\n",
        environment={"SECRET_RACK": "7"},
        read=files.__getitem__,
    )
    assert config.rack == "r-7"
    assert config["ssl.key.password"] == "word"
    assert BrokerConfig.load(COMBINED + "broker.rack=${env:X}\n").rack == "${env:X}"
    for reference in (
        "${env:HOME}",
        "${env:SECRET_MISSING}",
        "${file:/nope:pass}",
        "${file:/run/secrets:nope}",
    ):
        with pytest.raises(ConfigError, match=r"line 12: broker\.rack"):
            BrokerConfig.load(
                COMBINED + providers + f"broker.rack={reference}\n",
                environment={"HOME": "/root"},
                read=files.__getitem__,
            )


# Run time -----------------------------------------------------------------------------------------------


def test_dynamic_settings_override_static_and_per_broker_override_cluster() -> None:
    config = BrokerConfig.load(COMBINED + "message.max.bytes=10\n")
    changed = config.with_dynamic(
        cluster={"message.max.bytes": "20", "log.retention.ms": "5"}, broker={"message.max.bytes": "30"}
    )
    assert changed["message.max.bytes"] == 30
    assert changed["log.retention.ms"] == 5
    assert config["message.max.bytes"] == 10
    assert changed.with_dynamic(cluster={}, broker={})["message.max.bytes"] == 10


def test_a_dynamic_setting_overrides_its_synonyms() -> None:
    config = BrokerConfig.load(COMBINED + "log.retention.hours=24\nlog.retention.minutes=600\n")
    changed = config.with_dynamic(cluster={"log.retention.ms": "5"}, broker={})
    assert changed["log.retention.hours"] == 168
    assert changed["log.retention.minutes"] is None


def test_inapplicable_dynamic_settings_are_skipped_with_a_warning() -> None:
    config = BrokerConfig.load(COMBINED)
    changed = config.with_dynamic(
        cluster={
            "node.id": "9",
            "listeners": "PLAINTEXT://:1",
            "message.max.bytes": "x",
            "num.io.threads": "9",
        },
        broker={"ssl.keystore.password": "p", "log.cleaner.threads": "500", "message.max.bytes": "77"},
    )
    assert changed["node.id"] == 1
    assert changed["num.io.threads"] == 9
    assert changed["message.max.bytes"] == 1048588, "the layer of this broker does not fit together"
    assert len(changed.warnings) == 5


def test_custom_dynamic_settings_are_kept() -> None:
    changed = BrokerConfig.load(COMBINED).with_dynamic(cluster={"my.own": "1"}, broker={})
    assert changed.texts()["my.own"] == "1"
    assert changed.warnings == ()


# No configuration at all --------------------------------------------------------------------------------


def test_without_configuration_a_local_node_starts() -> None:
    config = development_config(base_directory="/here")
    assert config.node_id == 1
    assert config.roles == {"broker", "controller"}
    assert [(e.host, e.port) for e in config.listeners] == [("localhost", 9092), ("localhost", 0)]
    assert config.log_directories == ("/here/data",)
    assert config.auto_format
    assert config.int_of("group.initial.rebalance.delay.ms") == 0
    assert config["offsets.topic.replication.factor"] == 1
    assert config["transaction.state.log.min.isr"] == 1
    assert config.warnings == ()


def test_a_development_node_takes_overrides_and_keeps_its_controller() -> None:
    config = development_config(
        port=0,
        data_directory="/d",
        overrides={"listeners": "PLAINTEXT://0.0.0.0:1", "advertised.listeners": "PLAINTEXT://h:1"},
        environment={"KAFKA_NUM_PARTITIONS": "3", "CLUSTER_ID": "abc"},
    )
    assert [e.name for e in config.listeners] == ["PLAINTEXT", "CONTROLLER"]
    assert config["num.partitions"] == 3
    assert config.cluster_id == "abc"


def test_variables_with_process_roles_are_a_complete_configuration() -> None:
    with pytest.raises(ConfigError, match=r"node\.id"):
        development_config(environment={"KAFKA_PROCESS_ROLES": "broker"})
