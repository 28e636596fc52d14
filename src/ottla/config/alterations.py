"""Changes of settings at run time: AlterConfigs, IncrementalAlterConfigs, and the configs of CreateTopics.

As in Kafka, two sides check a change. The broker that received the request (`check_request`,
`check_broker_change`) knows its own settings; the controller (`apply_changes`, `check`) knows the stored
ones. Both raise or return the error for the client, with Kafka's code and message.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.config import checks, consistency, groups
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Conflict
from ottla.config.resolution import broker_value
from ottla.config.schema import ResourceType, definitions
from ottla.config.values import ConfigType, InvalidValue, Value
from ottla.wire.errors import InvalidConfig, InvalidRequest, InvalidTopicException, KafkaError

VALUE_CHARACTERS_MAX = 32767


class Operation(IntEnum):
    """The operation on a setting, with the codes of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS = frozenset(map(int, Operation))


class Change(NamedTuple):
    """One change of one setting. `value` is None only for DELETE."""

    name: str
    operation: Operation
    value: str | None


# The broker that received the request ---------------------------------------------------------------


SETTINGS_PER_RESOURCE_MAX = 1_000
"""More than any resource has, since the names of loggers are settings, too."""


def check_request(
    resources: Sequence[tuple[int, str, Sequence[tuple[str, int, str | None]]]], *, incremental: bool
) -> Generator[None, None, dict[int, KafkaError]]:
    """Errors in the form of a request: {position of the resource: error}. In steps, since there may be many.

    Each resource is (type, name, [(setting, operation, value)]); AlterConfigs has no operations: pass SET.
    """
    faults: dict[int, KafkaError] = {}
    seen: dict[tuple[int, str], int] = {}
    for at, (kind, name, _) in enumerate(resources):
        first = seen.setdefault((kind, name), at)
        if first != at:
            faults[first] = faults[at] = InvalidRequest("Each resource must appear at most once.")
        yield
    for at, (kind, _, settings) in enumerate(resources):
        if at not in faults:
            fault = _form_fault(kind, settings, incremental)
            if fault is not None:
                faults[at] = InvalidRequest(fault)
        yield
    return faults


def _form_fault(kind: int, settings: Sequence[tuple[str, int, str | None]], incremental: bool) -> str | None:
    if len(settings) > SETTINGS_PER_RESOURCE_MAX:
        return f"{len(settings)} settings of one resource exceed the maximum of {SETTINGS_PER_RESOURCE_MAX}"
    if len({name for name, _, _ in settings}) != len(settings):
        return "Error due to duplicate config keys"
    nulls = [name for name, operation, value in settings if value is None and operation != Operation.DELETE]
    if nulls:
        return f"Null value not supported for : {', '.join(nulls)}"
    known = [ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP]
    if incremental:
        known.append(ResourceType.BROKER_LOGGER)
    if kind not in known:
        return f"Unknown resource type {kind}"
    for _, operation, _ in settings:
        if operation not in _OPERATIONS:
            return f"Unknown operations type {operation}"
    return None


def check_broker_change(config: BrokerConfig, name: str, changes: Iterable[Change]) -> None:
    """Check changes of broker settings; `name` is "" for all brokers, else the id of this one."""
    if name:
        try:
            number = int(name)
        except ValueError:
            raise InvalidRequest(f"Node id must be an integer, but it is: {name}") from None
        if number != config.node_id:
            raise InvalidRequest(f"Unexpected broker id, expected {config.node_id}, but received {name}")
    current = dict(config.dynamic_broker if name else config.dynamic_cluster)
    for change in changes:
        _apply_on_broker(current, change)
    _check_dynamic(config, current, per_broker=bool(name))


def check_broker_settings(config: BrokerConfig, name: str, settings: Mapping[str, str]) -> None:
    """The same for AlterConfigs, whose settings replace all earlier ones."""
    check_broker_change(config, name, ())
    _check_dynamic(config, dict(settings), per_broker=bool(name))


def _apply_on_broker(current: dict[str, str], change: Change) -> None:
    if change.operation is Operation.DELETE:
        current.pop(change.name, None)
        return
    if change.operation is Operation.SET:
        current[change.name] = change.value or ""
        return
    found = definitions(ResourceType.BROKER).get(change.name)
    if found is None:
        raise InvalidConfig(f"Unknown config name: {change.name}")
    if found.type is not ConfigType.LIST:
        verb = change.operation.name.lower()
        raise InvalidConfig(f"Config value {verb} is not allowed for config key: {change.name}")
    before = current.get(change.name, found.default)
    current[change.name] = _combined(change.operation, before, change.value or "")


def _check_dynamic(config: BrokerConfig, texts: Mapping[str, str], *, per_broker: bool) -> None:
    fault = checks.dynamic_fault(texts, per_broker=per_broker)
    if fault is not None:
        raise InvalidRequest(fault)
    try:
        for name, text in texts.items():
            fault = checks.dynamic_value_fault(name, text)
            if fault is not None:
                raise InvalidRequest(fault)
        changed = BrokerConfig(
            config.static,
            cluster=config.dynamic_cluster if per_broker else texts,
            broker=texts if per_broker else config.dynamic_broker,
        )
        consistency.check_whole(changed)
        consistency.check_transition(config, changed)
    except (InvalidValue, Conflict) as error:
        raise InvalidRequest(str(error)) from error


# The controller -----------------------------------------------------------------------------------------


def apply_changes(
    resource: ResourceType, current: Mapping[str, str], changes: Iterable[Change]
) -> dict[str, str | None]:
    """The new texts of the changed settings: {name: text, or None if removed}. Raises InvalidConfig."""
    after: dict[str, str | None] = {}
    for name, operation, value in changes:
        if operation is Operation.DELETE:
            after[name] = None
        elif operation is Operation.SET:
            after[name] = value
        else:
            before = current.get(name)
            after[name] = _combined(operation, _list_before(resource, name, operation, before), value or "")
        text = after[name]
        if text is not None and len(text) > VALUE_CHARACTERS_MAX:
            raise InvalidConfig(
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_CHARACTERS_MAX} bytes."
            )
    return after


def _list_before(resource: ResourceType, name: str, operation: Operation, before: str | None) -> str | None:
    """The list to append to or subtract from: the stored one, else the default."""
    splittable = resource in (ResourceType.BROKER, ResourceType.TOPIC)
    found = definitions(resource).get(name) if splittable else None
    if found is None or found.type is not ConfigType.LIST:
        raise InvalidConfig(f"Can't {operation.name} to key {name} because its type is not LIST.")
    return found.default if before is None else before


def _combined(operation: Operation, before: str | None, value: str) -> str:
    parts = [part for part in (before or "").split(",") if part]
    for part in value.split(","):
        if operation is Operation.APPEND and part not in parts:
            parts.append(part)
        elif operation is Operation.SUBTRACT and part in parts:
            parts.remove(part)
    return ",".join(parts)


def check(
    config: BrokerConfig,
    resource: ResourceType,
    name: str,
    proposed: Mapping[str, str | None],
    existing: Mapping[str, str] | None = None,
) -> None:
    """Check all settings that a resource would have after a change; `existing` are its current ones.

    Raises InvalidConfig, InvalidRequest or InvalidTopicException. It does not check whether a topic exists;
    each broker checks its own values (`check_broker_change`).
    """
    check_resource_name(resource, name)
    if resource is ResourceType.BROKER:
        return
    nulls = sorted(key for key, value in proposed.items() if value is None)
    if nulls:
        kind = resource.name.lower().replace("_", " ")
        raise InvalidConfig(f"Null value not supported for {kind} configs: {','.join(nulls)}")
    texts = {key: value for key, value in proposed.items() if value is not None}
    if resource is ResourceType.TOPIC:
        _check_topic(config, texts, existing or {})
    elif resource is ResourceType.GROUP:
        _check_group(config, texts)
    else:
        _check_client_metrics(texts)


def check_resource_name(resource: ResourceType, name: str) -> None:
    """Raise an error if the name is invalid for this type of resource."""
    if resource is ResourceType.TOPIC:
        if not name:
            raise InvalidRequest("Default topic resources are not allowed.")
        fault = topic_name_fault(name)
        if fault:
            raise InvalidTopicException(f"Topic name is invalid: {fault}")
    elif resource is ResourceType.BROKER:
        if name:
            if not re.fullmatch(r"[+-]?\d{1,10}", name, re.ASCII) or int(name) > 2**31 - 1:
                raise InvalidRequest("Unable to parse broker name as a base 10 number.")
            if int(name) < 0:
                raise InvalidRequest("Invalid negative broker ID.")
    elif resource is ResourceType.GROUP:
        if not name:
            raise InvalidRequest("Default group resources are not allowed.")
    elif resource is ResourceType.CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Subscription name can't be empty")
    else:
        raise InvalidRequest(f"Unknown resource type {resource.name}")


def topic_name_fault(name: str) -> str | None:
    """The reason why a topic name is invalid, or None."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > 249:
        return f"the length of '{name}' is longer than the max allowed length 249"
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def _parsed(resource: ResourceType, texts: Mapping[str, str]) -> dict[str, Value]:
    values = {}
    for name, text in texts.items():
        found = definitions(resource).get(name)
        if found is None:
            raise InvalidConfig(f"Unknown {resource.name.lower()} config name: {name}")
        try:
            values[name] = found.parse(text)
        except InvalidValue as error:
            raise InvalidConfig(str(error)) from error
    return values


def _check_topic(config: BrokerConfig, texts: Mapping[str, str], existing: Mapping[str, str]) -> None:
    own = _parsed(ResourceType.TOPIC, texts)

    def value(name: str) -> Value:
        return own[name] if name in own else broker_value(config, definitions(ResourceType.TOPIC)[name])

    shortest, longest = value("min.compaction.lag.ms"), value("max.compaction.lag.ms")
    assert isinstance(shortest, int)
    assert isinstance(longest, int)
    if shortest > longest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({shortest}) > "
            f"max.compaction.lag.ms ({longest})"
        )
    if value("remote.storage.enable"):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    was_remote = existing.get("remote.storage.enable", "false").strip().lower() == "true"
    if was_remote and not value("remote.log.delete.on.disable"):
        raise InvalidConfig(
            "It is invalid to disable remote storage without deleting remote data. "
            "Set remote.log.delete.on.disable=true to delete it."
        )


def _check_group(config: BrokerConfig, texts: Mapping[str, str]) -> None:
    own = _parsed(ResourceType.GROUP, texts)

    def value(name: str) -> int:
        found = own[name] if name in own else broker_value(config, definitions(ResourceType.GROUP)[name])
        assert isinstance(found, int)
        return found

    fault = groups.group_fault(value, config.int_of, own.__contains__)
    if fault is not None:
        raise InvalidConfig(fault)


_MATCH_PARAMETERS = frozenset(
    (
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    )
)


def _check_client_metrics(texts: Mapping[str, str]) -> None:
    for name in texts:
        if name not in definitions(ResourceType.CLIENT_METRICS):
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    values = _parsed(ResourceType.CLIENT_METRICS, texts)
    interval = values.get("interval.ms", 1000)
    assert isinstance(interval, int)
    if not 100 <= interval <= 3_600_000:
        raise InvalidRequest(
            f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        )
    patterns = values.get("match", ())
    for pattern in patterns if isinstance(patterns, tuple) else ():
        parts = pattern.split("=")
        if len(parts) != 2 or parts[0].strip() not in _MATCH_PARAMETERS or not _is_pattern(parts[1].strip()):
            raise InvalidConfig(f"Illegal client matching pattern: {pattern}")


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
