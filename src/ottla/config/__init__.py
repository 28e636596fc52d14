"""Configuration: the definitions of all settings, a node's settings, and how they are described and changed.

Everything here is pure. The definitions are data (definitions/*.tsv), read on the first look-up. The names
below are imported lazily: clients and tools need only some small modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.config.alterations import (
        Change,
        Operation,
        apply_changes,
        check,
        check_broker_change,
        check_broker_settings,
        check_request,
        check_resource_name,
        topic_name_fault,
    )
    from ottla.config.broker import BrokerConfig, ConfigError, Setting
    from ottla.config.descriptions import (
        Entry,
        Source,
        Synonym,
        describe_broker,
        describe_client_metrics,
        describe_cluster,
        describe_created_topic,
        describe_group,
        describe_topic,
    )
    from ottla.config.development import development_config
    from ottla.config.listeners import Conflict, Endpoint
    from ottla.config.resolution import topic_texts, topic_value
    from ottla.config.schema import Definition, ResourceType, Scope, definition, definitions
    from ottla.config.values import ConfigType, InvalidValue, Value, show

__all__ = [
    "BrokerConfig",
    "Change",
    "ConfigError",
    "ConfigType",
    "Conflict",
    "Definition",
    "Endpoint",
    "Entry",
    "InvalidValue",
    "Operation",
    "ResourceType",
    "Scope",
    "Setting",
    "Source",
    "Synonym",
    "Value",
    "apply_changes",
    "check",
    "check_broker_change",
    "check_broker_settings",
    "check_request",
    "check_resource_name",
    "definition",
    "definitions",
    "describe_broker",
    "describe_client_metrics",
    "describe_cluster",
    "describe_created_topic",
    "describe_group",
    "describe_topic",
    "development_config",
    "show",
    "topic_name_fault",
    "topic_texts",
    "topic_value",
]

_HOMES = {
    "Change": "alterations",
    "Operation": "alterations",
    "apply_changes": "alterations",
    "check": "alterations",
    "check_broker_change": "alterations",
    "check_broker_settings": "alterations",
    "check_request": "alterations",
    "check_resource_name": "alterations",
    "topic_name_fault": "alterations",
    "BrokerConfig": "broker",
    "ConfigError": "broker",
    "Setting": "broker",
    "Entry": "descriptions",
    "Source": "descriptions",
    "Synonym": "descriptions",
    "describe_broker": "descriptions",
    "describe_client_metrics": "descriptions",
    "describe_cluster": "descriptions",
    "describe_created_topic": "descriptions",
    "describe_group": "descriptions",
    "describe_topic": "descriptions",
    "development_config": "development",
    "Conflict": "listeners",
    "Endpoint": "listeners",
    "topic_texts": "resolution",
    "topic_value": "resolution",
    "Definition": "schema",
    "ResourceType": "schema",
    "Scope": "schema",
    "definition": "schema",
    "definitions": "schema",
    "ConfigType": "values",
    "InvalidValue": "values",
    "Value": "values",
    "show": "values",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
