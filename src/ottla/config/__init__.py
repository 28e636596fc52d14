"""Configuration: what settings exist, what a node's settings are, and how they are described and changed.

Everything here is pure. The definitions are data (definitions/*.tsv), read on the first look-up.
"""

from ottla.config.alter import (
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
from ottla.config.describe import (
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
from ottla.config.resolve import group_value, topic_texts, topic_value
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
    "group_value",
    "show",
    "topic_name_fault",
    "topic_texts",
    "topic_value",
]
