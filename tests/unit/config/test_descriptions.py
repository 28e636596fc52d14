"""Settings with their sources, in DescribeConfigs and CreateTopics."""

from __future__ import annotations

from ottla.config import (
    BrokerConfig,
    ConfigType,
    Entry,
    ResourceType,
    Source,
    Synonym,
    definitions,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_created_topic,
    describe_group,
    describe_topic,
    development_config,
    topic_texts,
    topic_value,
)


def config_with(
    *,
    static: dict[str, str] | None = None,
    cluster: dict[str, str] | None = None,
    broker: dict[str, str] | None = None,
) -> BrokerConfig:
    loaded = development_config(overrides=static or {})
    return loaded.with_dynamic(cluster=cluster or {}, broker=broker or {})


def only(entries: list[Entry]) -> Entry:
    assert len(entries) == 1
    return entries[0]


def test_a_topic_without_overrides_has_the_defaults() -> None:
    config = config_with()
    assert topic_value(config, {}, "retention.ms") == 604_800_000
    assert topic_value(config, {}, "internal.segment.bytes") is None
    texts = topic_texts(config, {})
    assert texts["cleanup.policy"] == "delete"
    assert "internal.segment.bytes" not in texts
    for name, found in definitions(ResourceType.TOPIC).items():
        assert topic_value(config, {}, name) == found.default_value


def test_other_units_become_milliseconds_and_the_strongest_name_counts() -> None:
    config = config_with(static={"log.retention.hours": "2", "log.roll.hours": "3"})
    assert topic_value(config, {}, "retention.ms") == 7_200_000
    assert topic_value(config, {}, "segment.ms") == 10_800_000
    minutes = config_with(static={"log.retention.hours": "2", "log.retention.minutes": "1"})
    assert topic_value(minutes, {}, "retention.ms") == 60_000
    dynamic = config_with(static={"log.retention.minutes": "1"}, cluster={"log.retention.ms": "9"})
    assert topic_value(dynamic, {}, "retention.ms") == 9
    assert topic_value(dynamic, {"retention.ms": "8"}, "retention.ms") == 8


def test_unlimited_retention_is_minus_one_whatever_the_unit() -> None:
    assert topic_value(config_with(static={"log.retention.hours": "-1"}), {}, "retention.ms") == -1


def test_an_unreadable_override_is_ignored() -> None:
    config = config_with(static={"compression.type": "lz4"})
    assert topic_value(config, {"compression.type": "brotli"}, "compression.type") == "lz4"


def test_synonyms_of_a_topic_setting_are_listed_strongest_first() -> None:
    config = config_with(
        static={"log.retention.hours": "24", "log.retention.minutes": "600"},
        cluster={"log.retention.ms": "99999"},
        broker={"log.retention.ms": "123456"},
    )
    entry = only(describe_topic(config, {"retention.ms": "5"}, ["retention.ms"]))
    assert entry.value == "5"
    assert entry.source is Source.TOPIC
    assert entry.type is ConfigType.LONG
    assert not entry.is_default
    assert entry.documentation == definitions(ResourceType.TOPIC)["retention.ms"].doc
    assert entry.synonyms == (
        Synonym("retention.ms", "5", Source.TOPIC),
        Synonym("log.retention.ms", "123456", Source.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "99999", Source.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.minutes", "600", Source.STATIC_BROKER),
        Synonym("log.retention.hours", "24", Source.STATIC_BROKER),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    )


def test_a_weaker_name_alone_counts_as_default_without_synonyms() -> None:
    entry = only(describe_topic(config_with(static={"log.roll.hours": "2"}), {}, ["segment.ms"]))
    assert (entry.value, entry.source, entry.synonyms) == ("7200000", Source.DEFAULT, ())


def test_a_topic_lists_internal_settings_only_if_set() -> None:
    config = config_with()
    names = [entry.name for entry in describe_topic(config, {})]
    assert len(names) == 33
    assert "internal.segment.bytes" not in names
    with_internal = describe_topic(config, {"internal.segment.bytes": "7"})
    assert len(with_internal) == 34


def test_the_create_response_has_the_true_source_of_each_setting() -> None:
    config = config_with(static={"log.roll.hours": "2"}, cluster={"message.max.bytes": "7"})
    entries = {entry.name: entry for entry in describe_created_topic(config, {"retention.ms": "5"})}
    assert (entries["segment.ms"].value, entries["segment.ms"].source) == ("7200000", Source.STATIC_BROKER)
    assert (entries["retention.ms"].value, entries["retention.ms"].source) == ("5", Source.TOPIC)
    assert entries["max.message.bytes"].source is Source.DYNAMIC_DEFAULT_BROKER
    assert entries["preallocate"].is_default
    assert len(entries) == 33


def test_a_broker_lists_defined_and_custom_settings() -> None:
    config = config_with(
        static={"some.key": "x", "ssl.key.password": "p"}, cluster={"leader.replication.throttled.rate": "7"}
    )
    entries = {entry.name: entry for entry in describe_broker(config)}
    assert entries["some.key"] == Entry(
        "some.key",
        None,
        Source.STATIC_BROKER,
        ConfigType.UNKNOWN,
        True,
        True,
        (Synonym("some.key", None, Source.STATIC_BROKER),),
        None,
    )
    assert entries["ssl.key.password"].value is None
    assert entries["ssl.key.password"].is_sensitive
    assert entries["leader.replication.throttled.rate"].value == "7"
    assert not entries["leader.replication.throttled.rate"].read_only
    assert "follower.replication.throttled.rate" not in entries
    assert "log.initial.task.delay.ms" not in entries, "internal and not set"
    assert "ottla.auto.format" in entries, "internal but set"
    assert entries["node.id"].read_only
    assert not entries["message.max.bytes"].read_only
    assert entries["broker.id"].source is Source.STATIC_BROKER


def test_a_broker_setting_shows_its_dynamic_value() -> None:
    config = config_with(static={"log.retention.hours": "24"}, broker={"log.retention.ms": "5"})
    hours = only(describe_broker(config, ["log.retention.hours"]))
    assert hours.value == "168"
    assert hours.synonyms[0] == Synonym("log.retention.hours", "24", Source.STATIC_BROKER)


def test_a_setting_of_a_listener_names_the_one_behind_it() -> None:
    config = config_with(static={"listener.name.plaintext.max.connections": "77"})
    entry = only(describe_broker(config, ["listener.name.plaintext.max.connections"]))
    assert (entry.value, entry.type, entry.read_only) == ("77", ConfigType.INT, True)
    assert [synonym.name for synonym in entry.synonyms] == [
        "listener.name.plaintext.max.connections",
        "max.connections",
    ]


def test_the_cluster_lists_only_settings_for_all_brokers() -> None:
    config = config_with(cluster={"message.max.bytes": "7", "my.own": "v"}, broker={"num.io.threads": "9"})
    entries = describe_cluster(config)
    assert [(entry.name, entry.value, entry.source) for entry in entries] == [
        ("message.max.bytes", "7", Source.DYNAMIC_DEFAULT_BROKER),
        ("my.own", None, Source.DYNAMIC_DEFAULT_BROKER),
    ]
    assert entries[0].synonyms == (Synonym("message.max.bytes", "7", Source.DYNAMIC_DEFAULT_BROKER),)


def test_a_group_setting_defaults_to_the_brokers() -> None:
    config = config_with(static={"group.consumer.session.timeout.ms": "50000"})
    entry = only(describe_group(config, {}, ["consumer.session.timeout.ms"]))
    assert (entry.value, entry.source) == ("50000", Source.STATIC_BROKER)
    entry = only(
        describe_group(config, {"consumer.session.timeout.ms": "60000"}, ["consumer.session.timeout.ms"])
    )
    assert entry.value == "60000"
    entry = only(describe_group(config, {"share.auto.offset.reset": "earliest"}, ["share.auto.offset.reset"]))
    assert entry.synonyms == (
        Synonym("share.auto.offset.reset", "earliest", Source.GROUP),
        Synonym("share.auto.offset.reset", "latest", Source.DEFAULT),
    )


def test_a_subscription_to_client_metrics_lists_its_three_settings() -> None:
    entries = describe_client_metrics(config_with(), {"interval.ms": "1000"})
    assert [(entry.name, entry.value, entry.source) for entry in entries] == [
        ("interval.ms", "1000", Source.CLIENT_METRICS),
        ("match", "", Source.DEFAULT),
        ("metrics", "", Source.DEFAULT),
    ]
