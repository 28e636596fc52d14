"""DescribeConfigs: settings of every kind of resource, with their sources."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.server.handlers.support import ask, config_of, image_of

from ottla.config import ResourceType, Source
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.metadata_records import ConfigRecord

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
METRICS, GROUP = ResourceType.CLIENT_METRICS, ResourceType.GROUP


@pytest.fixture
def parts() -> SimpleNamespace:
    image = image_of(1, orders=1)
    image.replay(ConfigRecord(resource_type=TOPIC, resource_name="orders", name="retention.ms", value="777"))
    image.replay(ConfigRecord(resource_type=BROKER, resource_name="", name="log.cleaner.threads", value="2"))
    config = config_of({"log.retention.ms": "5000", "ssl.keystore.password": "secret"})
    config = config.with_dynamic(cluster=image.config(BROKER, ""), broker={})
    return SimpleNamespace(node_id=1, config=config, image=image)


def describe(
    parts: SimpleNamespace, kind: int, name: str, *keys: str, version: int | None = None, **flags: Any
) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    (result,) = ask(parts, DescribeConfigsRequest(resources=[resource], **flags), version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def test_a_topic_has_its_own_settings_and_inherits_the_others(parts: SimpleNamespace) -> None:
    found = {one.name: one for one in describe(parts, TOPIC, "orders").configs}
    assert len(found) == 33
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("777", Source.TOPIC)
    assert (found["segment.bytes"].value, found["segment.bytes"].config_source) == (
        "1073741824",
        Source.DEFAULT,
    )


def test_only_the_settings_that_are_named_come_and_unknown_ones_do_not(parts: SimpleNamespace) -> None:
    result = describe(parts, TOPIC, "orders", "retention.ms", "no.such.setting")
    assert [one.name for one in result.configs] == ["retention.ms"]


def test_an_empty_list_of_names_stands_for_all(parts: SimpleNamespace) -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name="orders", configuration_keys=[]
    )
    assert len(ask(parts, DescribeConfigsRequest(resources=[resource])).results[0].configs) == 33


def test_synonyms_and_documentation_come_where_asked_for(parts: SimpleNamespace) -> None:
    (plain,) = describe(parts, TOPIC, "orders", "retention.ms").configs
    assert (plain.synonyms, plain.documentation) == ([], None)
    (full,) = describe(
        parts, TOPIC, "orders", "retention.ms", include_synonyms=True, include_documentation=True
    ).configs
    assert [(one.name, one.value, one.source) for one in full.synonyms] == [
        ("retention.ms", "777", Source.TOPIC),
        ("log.retention.ms", "5000", Source.STATIC_BROKER),
        ("log.retention.hours", "168", Source.DEFAULT),
    ]
    assert full.documentation


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_settings_are_described_in_every_version(parts: SimpleNamespace, version: int) -> None:
    (one,) = describe(parts, TOPIC, "orders", "retention.ms", version=version).configs
    assert (one.value, one.config_source, one.read_only, one.is_sensitive) == (
        "777",
        Source.TOPIC,
        False,
        False,
    )


def test_the_settings_of_this_broker_hide_secrets(parts: SimpleNamespace) -> None:
    found = {one.name: one for one in describe(parts, BROKER, "1").configs}
    assert (found["ssl.keystore.password"].value, found["ssl.keystore.password"].is_sensitive) == (None, True)
    assert found["node.id"].read_only
    assert found["log.cleaner.threads"].config_source == Source.DYNAMIC_DEFAULT_BROKER


def test_the_defaults_of_the_cluster_are_what_was_set_at_run_time(parts: SimpleNamespace) -> None:
    assert [(one.name, one.value) for one in describe(parts, BROKER, "").configs] == [
        ("log.cleaner.threads", "2")
    ]


def test_loggers_have_levels(parts: SimpleNamespace) -> None:
    logging.getLogger("ottla.test_describe_configs").setLevel(logging.WARNING)
    found = {one.name: one for one in describe(parts, LOGGER, "1").configs}
    assert "root" in found
    mine = found["ottla.test_describe_configs"]
    assert (mine.value, mine.config_source) == ("WARN", Source.DYNAMIC_BROKER_LOGGER)
    assert [one.name for one in describe(parts, LOGGER, "1", "root").configs] == ["root"]


def test_groups_and_metrics_subscriptions_have_defaults(parts: SimpleNamespace) -> None:
    assert "consumer.session.timeout.ms" in {one.name for one in describe(parts, GROUP, "any").configs}
    assert {one.name for one in describe(parts, METRICS, "any").configs} == {
        "interval.ms",
        "match",
        "metrics",
    }


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (TOPIC, "not a name", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (
            BROKER,
            "9",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 9",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (LOGGER, "9", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 9"),
        (METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
    ],
)
def test_a_resource_that_is_not_there_is_refused(
    parts: SimpleNamespace, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    result = describe(parts, kind, name)
    assert result.error_code == code
    assert result.error_message.startswith(message)
    assert result.configs == []


def test_an_unknown_kind_of_resource_spoils_the_whole_request(parts: SimpleNamespace) -> None:
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name="orders")
        for kind in (TOPIC, 3)
    ]
    results = ask(parts, DescribeConfigsRequest(resources=resources)).results
    assert [one.error_code for one in results] == [ErrorCode.INVALID_REQUEST] * 2
