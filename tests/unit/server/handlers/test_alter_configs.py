"""AlterConfigs and IncrementalAlterConfigs on a running node: what is checked where, and what changes."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.unit.server.handlers.support import CONTROLLER_LISTENER, LISTENER, RunningNode

from ottla.config import Operation, ResourceType
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
SET, DELETE, APPEND = Operation.SET, Operation.DELETE, Operation.APPEND

Change = tuple[str, int, str | None]


def resource_of(
    kind: int, name: str, *changes: Change
) -> IncrementalAlterConfigsRequest.AlterConfigsResource:
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


def change(node: RunningNode, kind: int, name: str, *changes: Change, validate_only: bool = False) -> Any:
    request = IncrementalAlterConfigsRequest(
        resources=[resource_of(kind, name, *changes)], validate_only=validate_only
    )
    (result,) = node.ask(request).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def replace(node: RunningNode, kind: int, name: str, listener: str = LISTENER, **texts: str | None) -> Any:
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest.AlterableConfig(name=key.replace("_", "."), value=text)
            for key, text in texts.items()
        ],
    )
    (result,) = node.ask(AlterConfigsRequest(resources=[resource]), listener=listener).responses
    return result


def test_a_changed_setting_of_a_topic_reaches_its_log(node: RunningNode) -> None:
    node.create("a")
    result = change(node, TOPIC, "a", ("retention.ms", SET, "1234"), ("cleanup.policy", APPEND, "compact"))
    assert (result.error_code, result.error_message) == (0, None)
    partition = node.broker.partitions.get("a", 0)
    assert partition is not None
    assert partition.log is not None
    assert partition.log.config.retention_ms == 1234
    assert partition.log.config.cleanup_policy == {"delete", "compact"}
    assert change(node, TOPIC, "a", ("retention.ms", DELETE, None)).error_code == 0
    assert partition.log.config.retention_ms == 604_800_000


def test_a_changed_setting_of_the_broker_is_its_setting(node: RunningNode) -> None:
    assert change(node, BROKER, "1", ("log.retention.ms", SET, "3000")).error_code == 0
    assert node.broker.config.int_of("log.retention.ms") == 3000
    assert change(node, BROKER, "", ("log.retention.ms", SET, "2000")).error_code == 0
    assert node.broker.config.int_of("log.retention.ms") == 3000  # its own setting is the stronger one
    assert change(node, BROKER, "1", ("log.retention.ms", DELETE, None)).error_code == 0
    assert node.broker.config.int_of("log.retention.ms") == 2000


def test_a_check_changes_nothing(node: RunningNode) -> None:
    node.create("a")
    assert change(node, TOPIC, "a", ("retention.ms", SET, "1"), validate_only=True).error_code == 0
    assert node.broker.image.topic_config("a") == {}


@pytest.mark.parametrize(
    ("kind", "name", "asked", "code", "message"),
    [
        (TOPIC, "a", ("retention.ms", SET, "abc"), ErrorCode.INVALID_CONFIG, "Not a number of type LONG"),
        (TOPIC, "a", ("no.such", SET, "1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
        (TOPIC, "a", ("retention.ms", SET, None), ErrorCode.INVALID_REQUEST, "Null value not supported for"),
        (TOPIC, "a", ("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "its type is not LIST"),
        (TOPIC, "a", ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (TOPIC, "b", ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "does not exist"),
        (BROKER, "1", ("log.dirs", SET, "/x"), ErrorCode.INVALID_REQUEST, "Cannot update these configs"),
        (BROKER, "9", ("log.cleaner.threads", SET, "1"), ErrorCode.INVALID_REQUEST, "Unexpected broker id"),
        (
            BROKER,
            "",
            ("log.cleaner.threads", SET, "x"),
            ErrorCode.INVALID_REQUEST,
            "Not a number of type INT",
        ),
        (LOGGER, "1", ("ottla.no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG, "does not exist"),
        (3, "x", ("y", SET, "1"), ErrorCode.INVALID_REQUEST, "Unknown resource type 3"),
    ],
)
def test_what_is_wrong_is_refused_with_a_reason(
    node: RunningNode, kind: int, name: str, asked: Change, code: ErrorCode, message: str
) -> None:
    node.create("a")
    result = change(node, kind, name, asked)
    assert result.error_code == code
    assert message in result.error_message


def test_a_resource_that_is_refused_leaves_the_others_alone(node: RunningNode) -> None:
    node.create("a")
    resources = [
        resource_of(TOPIC, "a", ("retention.ms", SET, "55")),
        resource_of(TOPIC, "missing", ("retention.ms", SET, "55")),
        resource_of(BROKER, "1", ("log.dirs", SET, "/x")),
        resource_of(LOGGER, "1", ("ottla.no.such", SET, "INFO")),
    ]
    results = node.ask(IncrementalAlterConfigsRequest(resources=resources)).responses
    assert [one.resource_name for one in results] == ["a", "missing", "1", "1"]
    assert [one.error_code == 0 for one in results] == [True, False, False, False]
    assert node.broker.image.topic_config("a") == {"retention.ms": "55"}


def test_a_resource_that_comes_twice_is_refused_twice(node: RunningNode) -> None:
    node.create("a")
    resources = [resource_of(TOPIC, "a", ("retention.ms", SET, "1")), resource_of(TOPIC, "a")]
    results = node.ask(IncrementalAlterConfigsRequest(resources=resources)).responses
    assert [one.error_message for one in results] == ["Each resource must appear at most once."] * 2


def test_a_controller_answers_a_resource_that_comes_twice_once(node: RunningNode) -> None:
    node.create("a")
    resources = [resource_of(TOPIC, "a", ("retention.ms", SET, "1")), resource_of(TOPIC, "a")]
    request = IncrementalAlterConfigsRequest(resources=resources)
    (result,) = node.ask(request, listener=CONTROLLER_LISTENER).responses
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Duplicate resource.")


@pytest.mark.parametrize("listener", [LISTENER, CONTROLLER_LISTENER])
def test_the_level_of_a_logger_changes_at_once(node: RunningNode, listener: str) -> None:
    name = "ottla.test_alter_configs"
    logger = logging.getLogger(name)
    request = IncrementalAlterConfigsRequest(resources=[resource_of(LOGGER, "1", (name, SET, "FATAL"))])
    try:
        (result,) = node.ask(request, listener=listener).responses
        assert result.error_code == 0
        assert logger.level == logging.CRITICAL
    finally:
        logger.setLevel(logging.NOTSET)


def test_the_old_way_replaces_all_settings(node: RunningNode) -> None:
    node.create("a", retention_ms="1")
    assert replace(node, TOPIC, "a", segment_bytes="2000000").error_code == 0
    assert node.broker.image.topic_config("a") == {"segment.bytes": "2000000"}
    assert replace(node, TOPIC, "a", CONTROLLER_LISTENER, segment_bytes="3000000").error_code == 0
    assert node.broker.image.topic_config("a") == {"segment.bytes": "3000000"}


def test_the_old_way_refuses_nulls_loggers_and_fixed_settings(node: RunningNode) -> None:
    node.create("a")
    null = replace(node, TOPIC, "a", segment_bytes=None)
    assert (null.error_code, null.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Null value not supported for : segment.bytes",
    )
    assert replace(node, LOGGER, "1", root="INFO").error_message == "Unknown resource type 8"
    assert replace(node, BROKER, "1", log_dirs="/x").error_code == ErrorCode.INVALID_REQUEST
