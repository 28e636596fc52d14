"""Settings of topics, brokers, loggers, groups and client metrics: describe and change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from ottla.client.admin.codes import Code
from ottla.client.admin.engine import Engine, Place, Role
from ottla.client.admin.results import Results, check, failure
from ottla.client.errors import ConfigError
from ottla.wire.errors import ErrorCode, NotController, UnsupportedVersion
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse


class ResourceType(Code):
    """The type of the resource that a setting belongs to. The numbers are the protocol's."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(Code):
    """Where the value of a setting comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(Code):
    """The type of a value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class AlterOperation(IntEnum):
    """How to change a setting; APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """A resource with settings. An empty name of type BROKER means the default of all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"


def topic_resource(name: str) -> ConfigResource:
    """The settings of a topic."""
    return ConfigResource(ResourceType.TOPIC, name)


def broker_resource(node_id: int | None = None) -> ConfigResource:
    """The settings of a broker; None: the default for all brokers."""
    return ConfigResource(ResourceType.BROKER, "" if node_id is None else str(node_id))


def group_resource(name: str) -> ConfigResource:
    """The settings of a group."""
    return ConfigResource(ResourceType.GROUP, name)


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One source of a setting, and its value there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting. `value` is None if it is sensitive or not set."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    type: ConfigType = ConfigType.UNKNOWN
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """One change of a setting. DELETE takes no value: the setting returns to its default."""

    name: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET


Changes: TypeAlias = Collection[AlterConfig] | Mapping[str, str | None]
"""Changes of a resource: a list of them, or name -> value, where None means back to the default."""


async def describe_configs(
    engine: Engine,
    resources: Iterable[ConfigResource],
    *,
    names: Collection[str] | None = None,
    include_synonyms: bool = False,
    include_documentation: bool = False,
    timeout_ms: int | None = None,
) -> Results[ConfigResource, dict[str, ConfigEntry]]:
    """Describe the settings of each resource, by name. `names`: only these."""

    def build(of_node: list[ConfigResource], timeout_ms: int) -> DescribeConfigsRequest:
        return DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=one.type,
                    resource_name=one.name,
                    configuration_keys=None if names is None else list(names),
                )
                for one in of_node
            ],
            include_synonyms=include_synonyms,
            include_documentation=include_documentation,
        )

    places = {resource: _place_of(resource) for resource in resources}
    return await engine.items(
        "describe_configs", places, build, read_described, deadline=engine.deadline(timeout_ms)
    )


def read_described(
    resources: Collection[ConfigResource], answer: DescribeConfigsResponse
) -> dict[ConfigResource, dict[str, ConfigEntry] | Exception]:
    """Read the settings in a response; pure."""
    return {
        ConfigResource(ResourceType(told.resource_type), told.resource_name): (
            failure(told.error_code, told.error_message)
            if told.error_code
            else {one.name: _entry(one) for one in told.configs}
        )
        for told in answer.results
    }


def _entry(told: DescribeConfigsResponse.DescribeConfigsResourceResult) -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(one.name, one.value, ConfigSource(one.source)) for one in told.synonyms)
    return ConfigEntry(
        told.name,
        told.value,
        ConfigSource(told.config_source),
        told.read_only,
        told.is_sensitive,
        synonyms,
        ConfigType(told.config_type),
        told.documentation,
    )


async def incremental_alter_configs(
    engine: Engine,
    changes: Mapping[ConfigResource, Changes],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Results[ConfigResource, None]:
    """Change settings; the other settings of each resource stay as they are."""
    wanted = {resource: changes_of(of_resource) for resource, of_resource in changes.items()}

    def build(resources: list[ConfigResource], timeout_ms: int) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        IncrementalAlterConfigsRequest.AlterableConfig(
                            name=one.name, config_operation=one.operation, value=one.value
                        )
                        for one in wanted[resource]
                    ],
                )
                for resource in resources
            ],
            validate_only=validate_only,
        )

    places = {
        resource: Role.BROKER_OR_CONTROLLER
        if engine.asks_controllers and resource.type is not ResourceType.BROKER_LOGGER
        else _place_of(resource)
        for resource in changes
    }
    return await engine.items(
        "incremental_alter_configs", places, build, read_altered, deadline=engine.deadline(timeout_ms)
    )


def changes_of(changes: Changes) -> list[AlterConfig]:
    """Both ways of writing changes, as a list."""
    if isinstance(changes, Mapping):
        return [
            AlterConfig(name, value, AlterOperation.DELETE if value is None else AlterOperation.SET)
            for name, value in changes.items()
        ]
    return list(changes)


def read_altered(
    resources: Collection[ConfigResource], answer: IncrementalAlterConfigsResponse
) -> dict[ConfigResource, Exception | None]:
    """Read the outcomes of changes; pure."""
    if any(told.error_code == ErrorCode.NOT_CONTROLLER for told in answer.responses):
        raise NotController
    return {
        ConfigResource(ResourceType(told.resource_type), told.resource_name): (
            failure(told.error_code, told.error_message) if told.error_code else None
        )
        for told in answer.responses
    }


def _place_of(resource: ConfigResource) -> Place:
    """The node to ask: a broker's own settings and loggers are known only to that broker."""
    named = resource.type is ResourceType.BROKER and resource.name
    if not named and resource.type is not ResourceType.BROKER_LOGGER:
        return Role.BROKER_OR_CONTROLLER
    try:
        return int(resource.name)
    except ValueError:
        raise ConfigError(f"{resource.name!r} is not a broker id: it must be an integer.") from None


async def list_config_resources(
    engine: Engine, types: Collection[ResourceType] = (), *, timeout_ms: int | None = None
) -> list[ConfigResource]:
    """List the resources that have settings of their own; `types`: only of these types."""

    def read(answer: ListConfigResourcesResponse) -> list[ConfigResource]:
        check(answer.error_code)
        return [
            ConfigResource(ResourceType(one.resource_type), one.resource_name)
            for one in answer.config_resources
        ]

    deadline = engine.deadline(timeout_ms)
    name = "list_config_resources"
    try:
        return await engine.call(
            name,
            Role.BROKER,
            lambda timeout_ms: ListConfigResourcesRequest(resource_types=list(types)),
            read,
            deadline=deadline,
        )
    except UnsupportedVersion:
        if set(types) != {ResourceType.CLIENT_METRICS}:
            raise
    # Before types could be named, client metrics were all that was listed.
    return await engine.call(
        name, Role.BROKER, lambda timeout_ms: ListConfigResourcesRequest(), read, deadline=deadline
    )
