"""Settings of topics, brokers, groups and client metrics in the metadata log.

The rules of each setting (its type, its range) are passed in with the state; this module contains the rules
that need the cluster's state: the resource must exist, and while eligible leader replicas are enabled, every
broker must use the same min.insync.replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.controller.image import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.controller.image_delta import ConfigResource
from ottla.controller.records import CORDONED_DIRECTORIES_LEVEL
from ottla.controller.result import RECORDS_PER_REQUEST_MAX, Result
from ottla.controller.state import ControllerState
from ottla.wire.errors import (
    BrokerIdNotRegistered,
    InvalidConfig,
    InvalidRequest,
    KafkaError,
    PolicyViolation,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.wire.message import Message
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata_records import ClearElrRecord, ConfigRecord

if TYPE_CHECKING:
    from ottla.wire.messages.create_topics import CreateTopicsRequest

MIN_INSYNC_REPLICAS = "min.insync.replicas"
CORDONED_LOG_DIRS = "cordoned.log.dirs"
VALUE_LENGTH_MAX = 32767
RESOURCE_TYPES = frozenset((TOPIC_RESOURCE, BROKER_RESOURCE, 16, 32))  # and CLIENT_METRICS, GROUP

Changes = Mapping[str, str | None]
"""New values of settings by name; None removes a setting."""
_T = TypeVar("_T")
_Asked = tuple[ConfigResource, Callable[[ConfigResource, Mapping[str, str]], Changes]]
"""A resource, and a function from its present settings to the changes."""


def topic_config_records(state: ControllerState, topic: CreateTopicsRequest.CreatableTopic) -> list[Message]:
    """The records of the settings that a new topic is created with."""
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    changes: Changes = {config.name: config.value for config in topic.configs}
    if not changes:
        return []
    records = _records(state, TOPIC_RESOURCE, topic.name, changes, is_new=True)
    return records + _clear_elr(state, records)


def incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest, *, is_forwarded: bool = True
) -> Result[IncrementalAlterConfigsResponse]:
    """Change single settings of resources. `is_forwarded`: a broker has already checked and forwarded it."""
    asked: list[_Asked] = []
    for resource in request.resources:
        changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
        asked.append(((resource.resource_type, resource.resource_name), partial(_edited, state, changes)))
    errors, records = _alter(state, asked, is_forwarded=is_forwarded)
    responses = _answers(IncrementalAlterConfigsResponse.AlterConfigsResourceResponse, errors)
    return Result(
        IncrementalAlterConfigsResponse(responses=responses), () if request.validate_only else records
    )


def alter_configs(
    state: ControllerState, request: AlterConfigsRequest, *, is_forwarded: bool = True
) -> Result[AlterConfigsResponse]:
    """Replace all settings of resources: settings that are not named are removed."""
    asked: list[_Asked] = []
    for resource in request.resources:
        texts = {config.name: config.value for config in resource.configs}
        asked.append(((resource.resource_type, resource.resource_name), partial(_replaced, texts)))
    errors, records = _alter(state, asked, is_forwarded=is_forwarded)
    response = AlterConfigsResponse(
        responses=_answers(AlterConfigsResponse.AlterConfigsResourceResponse, errors)
    )
    return Result(response, () if request.validate_only else records)


def _answers(kind: Callable[..., _T], errors: Mapping[ConfigResource, KafkaError | None]) -> list[_T]:
    return [
        kind(
            error_code=0 if error is None else error.code,
            error_message=None if error is None else error.message,
            resource_type=resource_type,
            resource_name=resource_name,
        )
        for (resource_type, resource_name), error in errors.items()
    ]


def _edited(
    state: ControllerState,
    changes: Sequence[tuple[str, int, str | None]],
    resource: ConfigResource,
    current: Mapping[str, str],
) -> Changes:
    return state.rules.changed(resource[0], current, changes)


def _replaced(texts: Changes, resource: ConfigResource, current: Mapping[str, str]) -> Changes:
    return {**texts, **dict.fromkeys(name for name in current if name not in texts)}


def _alter(
    state: ControllerState, asked: Sequence[_Asked], *, is_forwarded: bool
) -> tuple[dict[ConfigResource, KafkaError | None], list[Message]]:
    """The errors of resources, and the records of those without one."""
    errors: dict[ConfigResource, KafkaError | None] = {}
    made: dict[ConfigResource, list[Message]] = {}
    for resource, changes_of in asked:
        made.pop(resource, None)
        try:
            if resource in errors:
                raise InvalidRequest("Duplicate resource.")
            errors[resource] = None
            if resource[0] not in RESOURCE_TYPES:
                raise UnsupportedVersion(f"Unknown resource type {resource[0]}.")
            changes = changes_of(resource, state.image.config(*resource))
            records = _records(state, *resource, changes, is_forwarded=is_forwarded)
            if sum(map(len, made.values())) + len(records) > RECORDS_PER_REQUEST_MAX:
                raise PolicyViolation("Excessively large number of settings per request.")
            made[resource] = records
        except KafkaError as error:
            errors[resource] = error.with_traceback(None)  # which would make it garbage in a cycle
    records = [record for some in made.values() for record in some]
    return errors, records + _clear_elr(state, records)


def _records(
    state: ControllerState,
    resource_type: int,
    name: str,
    changes: Changes,
    *,
    is_new: bool = False,
    is_forwarded: bool = True,
) -> list[Message]:
    """The ConfigRecords of a resource's changes, if all of them are valid."""
    current = state.image.config(resource_type, name)
    records: list[Message] = []
    proposed = dict(current)
    for key, text in changes.items():
        if text == current.get(key) and resource_type != BROKER_RESOURCE:
            continue
        _check_change(state, resource_type, name, key, text, current, is_forwarded=is_forwarded)
        if text is None:
            proposed.pop(key, None)
        else:
            proposed[key] = text
        records.append(ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=text))
    state.rules.check(resource_type, name, proposed, current)
    if not is_new:
        _check_exists(state, resource_type, name)
    return records


def _check_change(
    state: ControllerState,
    resource_type: int,
    name: str,
    key: str,
    text: str | None,
    current: Mapping[str, str],
    *,
    is_forwarded: bool,
) -> None:
    if resource_type == BROKER_RESOURCE and key == MIN_INSYNC_REPLICAS and state.image.is_elr_enabled:
        if name:
            raise InvalidConfig(f"Broker-level {key} cannot be altered while ELR is enabled.")
        if text is None:
            raise InvalidConfig(f"Cluster-level {key} cannot be removed while ELR is enabled.")
    if resource_type == BROKER_RESOURCE and key == CORDONED_LOG_DIRS:
        if state.image.metadata_version < CORDONED_DIRECTORIES_LEVEL:
            raise InvalidConfig(
                f"The {key} configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
            )
        if not is_forwarded and text is not None and not _paths(text) <= _paths(current.get(key, "")):
            raise InvalidConfig(
                f"When updating {key} via controllers,  the new value must be a subset of the current "
                "configuration value."
            )
    if text is not None and len(text) > VALUE_LENGTH_MAX:
        raise InvalidConfig(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_LENGTH_MAX} bytes."
        )


def _paths(text: str) -> set[str]:
    return {path.strip() for path in text.split(",") if path.strip()}


def _check_exists(state: ControllerState, resource_type: int, name: str) -> None:
    """Reject settings of a topic or a node that does not exist; "" means all brokers."""
    image = state.image
    if resource_type == TOPIC_RESOURCE and name not in image.topics_by_name:
        raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
    if resource_type == BROKER_RESOURCE and name:
        try:
            node_id = int(name)
        except ValueError:
            raise InvalidRequest(f"Invalid broker name {name}") from None
        is_known = node_id in image.brokers or node_id in image.controllers
        if not is_known and node_id not in state.settings.quorum_ids:
            raise BrokerIdNotRegistered(f"No node with id {node_id} found.")


def _clear_elr(state: ControllerState, records: Sequence[Message]) -> list[Message]:
    """A new min.insync.replicas invalidates the eligible leader replicas."""
    if not state.image.is_elr_enabled:
        return []
    return [
        ClearElrRecord(topic_name=record.resource_name if record.resource_type == TOPIC_RESOURCE else "")
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]


def elr_safety_records(state: ControllerState) -> list[Message]:
    """The records that the log needs before eligible leader replicas are enabled."""
    records: list[Message] = []
    if MIN_INSYNC_REPLICAS not in state.image.config(BROKER_RESOURCE, ""):
        records.append(
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name=MIN_INSYNC_REPLICAS,
                value=str(state.settings.min_insync_replicas),
            )
        )
    for (resource_type, name), texts in state.image.configs.items():
        if resource_type == BROKER_RESOURCE and name and MIN_INSYNC_REPLICAS in texts:
            records.append(
                ConfigRecord(
                    resource_type=resource_type, resource_name=name, name=MIN_INSYNC_REPLICAS, value=None
                )
            )
    return records
