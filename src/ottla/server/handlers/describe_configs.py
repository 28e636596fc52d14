"""DescribeConfigs (32), versions 1 to 4.

Returns the settings of topics, of this broker or the cluster's defaults (resource BROKER "<id>" or ""), of
its loggers, of groups and of client metrics subscriptions: all of them, or the named ones, each with its
source. Sensitive settings have no value. If many resources are named more than once, each is returned once,
with all requested settings. v1 adds synonyms (the sources from the effective value down to the built-in
default); v3 types and, if requested, documentation.
"""

from __future__ import annotations

import logging
from typing import Protocol

from ottla import config as configs
from ottla.config import Entry, ResourceType, Source
from ottla.controller.topic_names import why_invalid
from ottla.server.handlers import log_levels
from ottla.server.net.dispatch import Api, RequestContext
from ottla.server.net.long_requests import REPEATS_MAX, Steps, distinct
from ottla.server.parts import HasConfig, HasImage, HasNodeId
from ottla.wire.errors import (
    ErrorCode,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    UnknownTopicOrPartition,
)
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

KEY = 32

_KNOWN = frozenset(ResourceType) - {ResourceType.UNKNOWN}

_Resource = DescribeConfigsRequest.DescribeConfigsResource
_Result = DescribeConfigsResponse.DescribeConfigsResult
_Setting = DescribeConfigsResponse.DescribeConfigsResourceResult
_Synonym = DescribeConfigsResponse.DescribeConfigsSynonym
_Names = dict[str, None] | None

logger = logging.getLogger("ottla.server.configs")


class Parts(HasNodeId, HasConfig, HasImage, Protocol):
    """The parts of a node that DescribeConfigs needs."""


def handle(
    parts: Parts, request: DescribeConfigsRequest, context: RequestContext
) -> Steps[DescribeConfigsResponse]:
    unknown = next((one for one in request.resources if one.resource_type not in _KNOWN), None)
    if unknown is not None:  # Kafka refuses the whole request
        error = InvalidRequest(f"Unknown resource type {unknown.resource_type}.")
        return DescribeConfigsResponse(results=[_failed(resource, error) for resource in request.resources])
    response = DescribeConfigsResponse()
    for resource, names in (yield from _merged(request.resources)):
        response.results.append((yield from _result(parts, request, resource, names)))
        yield
    return response


def _merged(resources: list[_Resource]) -> Steps[list[tuple[_Resource, _Names]]]:
    """The resources with their requested settings; each once, if many are named more than once."""
    every: list[tuple[_Resource, _Names]] = []
    found: dict[tuple[int, str], tuple[_Resource, _Names]] = {}
    for resource in resources:
        key = (resource.resource_type, _plain_name(resource))
        keys = resource.configuration_keys
        names: _Names = None if keys is None else (yield from distinct(keys))
        every.append((resource, names))
        known = found.get(key)
        if known is None:
            found[key] = resource, dict(names) if names else names
        elif known[1] and names:
            known[1].update(names)
        else:  # no name asks for all settings, as null does
            found[key] = known[0], None
        yield
    return every if len(every) - len(found) <= REPEATS_MAX else list(found.values())


def _plain_name(resource: _Resource) -> str:
    """The name that identifies duplicates: a broker id can be written in several ways."""
    name = resource.resource_name
    if resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        try:
            return str(int(name))
        except ValueError:
            return name
    return name


def _result(
    parts: Parts, request: DescribeConfigsRequest, resource: _Resource, names: _Names
) -> Steps[_Result]:
    try:
        entries = _entries(parts, resource, names)
    except KafkaError as error:
        logger.info("Failed to describe resource %r: %s", resource.resource_name, error)
        return _failed(resource, error)
    yield
    result = _Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
    for entry in entries:
        result.configs.append(_setting(entry, request))
        yield
    return result


def _failed(resource: _Resource, error: KafkaError) -> _Result:
    # Kafka says no more than the code where a topic is not there.
    message = "" if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.message
    return _Result(
        error_code=error.code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _setting(entry: Entry, request: DescribeConfigsRequest) -> _Setting:
    setting = _Setting(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        setting.synonyms = [
            _Synonym(name=one.name, value=one.value, source=one.source) for one in entry.synonyms
        ]
    return setting


def _entries(parts: Parts, resource: _Resource, names: _Names) -> list[Entry]:
    name = resource.resource_name
    kind = resource.resource_type
    overrides = parts.image.config(kind, name)
    if kind == ResourceType.TOPIC:
        reason = why_invalid(name)
        if reason is not None:
            raise InvalidTopicException(f"Topic name is invalid: {reason}")
        if name not in parts.image.topics_by_name:
            raise UnknownTopicOrPartition(f"Topic {name} does not exist.")
        return configs.describe_topic(parts.config, overrides, names)
    if kind == ResourceType.BROKER:
        if not name:
            return configs.describe_cluster(parts.config, names)
        _check_broker(parts.node_id, name, f"{parts.node_id} or empty string,")
        return configs.describe_broker(parts.config, names)
    if kind == ResourceType.BROKER_LOGGER:
        if not name:
            raise InvalidRequest("Broker id must not be empty")
        _check_broker(parts.node_id, name, f"{parts.node_id}")
        return _logger_entries(names)
    if kind == ResourceType.CLIENT_METRICS:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return configs.describe_client_metrics(parts.config, overrides, names)
    if not name:
        raise InvalidRequest("Group name must not be empty")
    return configs.describe_group(parts.config, overrides, names)


def _check_broker(node_id: int, name: str, expected: str) -> None:
    try:
        is_this = int(name) == node_id
    except ValueError:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}") from None
    if not is_this:
        raise InvalidRequest(f"Unexpected broker id, expected {expected} but received {name}")


def _logger_entries(names: _Names) -> list[Entry]:
    return [
        Entry(
            name=name,
            value=level,
            source=Source.DYNAMIC_BROKER_LOGGER,
            type=configs.ConfigType.UNKNOWN,
            is_sensitive=False,
            read_only=False,
            synonyms=(),
            documentation="",
        )
        for name, level in log_levels.levels().items()
        if not names or name in names
    ]


API = Api(KEY, handle)
