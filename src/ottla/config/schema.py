"""The definitions of all settings, read from definitions/*.tsv on the first look-up.

One line is one setting, with tab-separated columns:
- name; type: a name of ConfigType;
- default: its text, `""` for an empty one, `-` for null, `!` if a value is required;
- kafka: Kafka's default if ours differs, else empty;
- valid: the constraint beyond the type. `1..` and `1..9` are ranges, `-1 or 1..9` adds one number; `one of
  a b` and `one of, in any case, a b` are choices; `distinct` is a list without empty entries in which a
  repeated one counts once, `, not empty` one with an entry at least, `, of a b` one of these entries;
  `not empty` is a text; any other form is a name that values.py knows;
- importance: Kafka's HIGH, MEDIUM or LOW;
- scope: see Scope;
- synonyms: for a topic or group setting, the broker settings behind it, in order of precedence;
- doc: one or two plain sentences.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from enum import Enum, IntEnum
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from ottla.config.values import ConfigType, Value, parse, parse_type


class ResourceType(IntEnum):
    """The types of resources that have settings, with the codes of the config APIs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Scope(Enum):
    """When and for which brokers a setting can change."""

    READ_ONLY = "read-only"
    """Only in the file: a change needs a restart."""
    PER_BROKER = "per-broker"
    """At run time, for one broker."""
    CLUSTER_WIDE = "cluster-wide"
    """At run time, for one broker or for all of them."""
    DYNAMIC_ONLY = "dynamic-only"
    """Like cluster-wide, but ignored in the file."""
    INTERNAL = "internal"
    """Only in the file, and listed only if it is set."""
    DYNAMIC = "dynamic"
    """A setting of a topic, group or subscription, which is always dynamic."""

    @property
    def read_only(self) -> bool:
        return self is Scope.READ_ONLY or self is Scope.INTERNAL


class Definition(NamedTuple):
    """One setting."""

    name: str
    type: ConfigType
    default: str | None
    kafka_default: str | None
    valid: str
    importance: str
    scope: Scope
    synonyms: tuple[str, ...]
    doc: str
    required: bool

    @property
    def internal(self) -> bool:
        return self.scope is Scope.INTERNAL

    @property
    def default_value(self) -> Value:
        return None if self.default is None else parse_type(self.name, self.type, self.default)

    def parse(self, text: str) -> Value:
        """Parse a text; raises InvalidValue if the setting does not allow it."""
        return parse(self.name, self.type, self.valid, text)


def definitions(resource: ResourceType) -> Mapping[str, Definition]:
    """All settings of a kind of resource by name, sorted."""
    return _load(_FILES[resource])


def definition(resource: ResourceType, name: str) -> Definition | None:
    """The setting with that name. A broker setting may have the prefix of a listener."""
    table = definitions(resource)
    found = table.get(name)
    if found is None and resource is ResourceType.BROKER and name.startswith(LISTENER_PREFIX):
        return table.get(base_name(name))
    return found


LISTENER_PREFIX = "listener.name."

_MECHANISM_SETTINGS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def base_name(name: str) -> str:
    """The name without the prefix in `listener.name.<listener>.<name>`; any other name is unchanged.

    For settings of a SASL mechanism the prefix includes its name:
    `listener.name.<listener>.<mechanism>.<name>`.
    """
    if not name.startswith(LISTENER_PREFIX):
        return name
    base = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    for setting in _MECHANISM_SETTINGS:
        if base.endswith(setting):
            return setting
    return base


_FILES = {
    ResourceType.BROKER: "broker",
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLIENT_METRICS: "client_metrics",
}


@cache
def _load(file: str) -> Mapping[str, Definition]:
    content = pkgutil.get_data("ottla.config", f"definitions/{file}.tsv")
    assert content is not None, f"The file definitions/{file}.tsv is part of the package."
    rows = content.decode("utf-8").splitlines()[2:]
    return MappingProxyType({row.split("\t", 1)[0]: _definition(row) for row in rows})


_TYPES = {kind.name: kind for kind in ConfigType}
_SCOPES = {scope.value: scope for scope in Scope}
_DEFAULTS: dict[str, str | None] = {"-": None, "!": None, '""': ""}


def _definition(row: str) -> Definition:
    name, kind, default, kafka, valid, importance, scope, synonyms, doc = row.split("\t")
    return Definition(
        name=name,
        type=_TYPES[kind],
        default=_DEFAULTS.get(default, default),
        kafka_default=_DEFAULTS.get(kafka, kafka) if kafka else _DEFAULTS.get(default, default),
        valid=valid,
        importance=importance,
        scope=_SCOPES[scope],
        synonyms=tuple(synonyms.split()),
        doc=doc,
        required=default == "!",
    )
