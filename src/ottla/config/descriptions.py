"""Settings with their sources, for DescribeConfigs and the answer to CreateTopics.

The rules are Kafka's, even the odd ones: a setting whose strongest name is not set anywhere has no synonyms
and counts as default, even if a weaker name (hours) was given. Values of secrets and of unknown settings are
hidden.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import IntEnum
from itertools import dropwhile
from typing import NamedTuple

from ottla.config import synonyms
from ottla.config.broker import BrokerConfig
from ottla.config.resolution import resolved
from ottla.config.schema import Definition, ResourceType, Scope, definition, definitions
from ottla.config.values import ConfigType, show


class Source(IntEnum):
    """The source of a value, with the codes of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One of the layers that set a value, the strongest first."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """One setting in a DescribeConfigs response."""

    name: str
    value: str | None
    source: Source
    type: ConfigType
    is_sensitive: bool
    read_only: bool
    synonyms: tuple[Synonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Entry]:
    """The settings of a topic: all, or those in `names`."""
    entries = []
    for found in _listed(ResourceType.TOPIC, overrides, names):
        behind = _said_by_broker(config, found.synonyms[0]) if found.synonyms else ()
        entries.append(_own(config, found, overrides, Source.TOPIC, behind))
    return entries


def describe_group(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Entry]:
    """The settings of a group: all, or those in `names`."""
    entries = []
    for found in _listed(ResourceType.GROUP, overrides, names):
        if found.synonyms:
            behind = _said_by_broker(config, found.synonyms[0])
        else:
            behind = (Synonym(found.name, found.default, Source.DEFAULT),)
        entries.append(_own(config, found, overrides, Source.GROUP, behind))
    return entries


def describe_client_metrics(
    config: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Entry]:
    """The settings of a client metrics subscription: all, or those in `names`."""
    listed = _listed(ResourceType.CLIENT_METRICS, overrides, names)
    return [_own(config, found, overrides, Source.CLIENT_METRICS, ()) for found in listed]


def describe_created_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> list[Entry]:
    """The settings in a CreateTopics response: each with its true source."""
    layers = (
        (config.dynamic_broker, Source.DYNAMIC_BROKER),
        (config.dynamic_cluster, Source.DYNAMIC_DEFAULT_BROKER),
        ({name: setting.text for name, setting in config.static.items()}, Source.STATIC_BROKER),
    )
    entries = []
    for found in _listed(ResourceType.TOPIC, overrides, None):
        value, source = found.default, Source.DEFAULT
        given = (
            (texts[name], name, where) for texts, where in layers for name in found.synonyms if name in texts
        )
        if found.name in overrides:
            value, source = overrides[found.name], Source.TOPIC
        else:
            for text, name, where in given:
                factor = synonyms.milliseconds_in(name)
                value, source = (str(int(text) * factor) if factor != 1 else text), where
                break
        entries.append(Entry(found.name, value, source, found.type, False, False, (), found.doc))
    return entries


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> list[Entry]:
    """The settings of this node, known and unknown ones: all, or those in `names`."""
    given = config.texts()
    listed = {
        name: show(config[name])
        for name, found in definitions(ResourceType.BROKER).items()
        if not found.internal and found.scope is not Scope.DYNAMIC_ONLY
    }
    return [
        _broker_entry(name, value, _said_by_broker(config, name))
        for name, value in sorted((given | listed).items())
        if not names or name in names
    ]


def describe_cluster(config: BrokerConfig, names: Collection[str] | None = None) -> list[Entry]:
    """The dynamic settings for all brokers: all, or those in `names`."""
    entries = []
    for name, text in sorted(config.dynamic_cluster.items()):
        if not names or name in names:
            said = _said_by_broker(config, name)
            only = tuple(synonym for synonym in said if synonym.source is Source.DYNAMIC_DEFAULT_BROKER)
            entries.append(_broker_entry(name, text, only))
    return entries


def _listed(
    resource: ResourceType, overrides: Mapping[str, str], names: Collection[str] | None
) -> Iterable[Definition]:
    for found in definitions(resource).values():
        if (not names or found.name in names) and (not found.internal or found.name in overrides):
            yield found


def _own(
    config: BrokerConfig,
    found: Definition,
    overrides: Mapping[str, str],
    source: Source,
    behind: tuple[Synonym, ...],
) -> Entry:
    value = show(resolved(config, overrides, found))
    if found.name in overrides:
        behind = (Synonym(found.name, value, source), *behind)
    strongest = behind[0].source if behind else Source.DEFAULT
    return Entry(found.name, value, strongest, found.type, False, False, behind, found.doc)


def _broker_entry(name: str, value: str | None, said: tuple[Synonym, ...]) -> Entry:
    found = definition(ResourceType.BROKER, name)
    exact = definitions(ResourceType.BROKER).get(name)
    kind = found.type if found is not None else ConfigType.UNKNOWN
    sensitive = _is_sensitive(found)
    return Entry(
        name=name,
        value=None if sensitive else value,
        source=said[0].source if said else Source.DEFAULT,
        type=kind,
        is_sensitive=sensitive,
        read_only=exact is None or exact.scope.read_only,
        synonyms=said,
        documentation=found.doc if found is not None else None,
    )


def _is_sensitive(found: Definition | None) -> bool:
    return found is None or found.type is ConfigType.PASSWORD


def _said_by_broker(config: BrokerConfig, name: str) -> tuple[Synonym, ...]:
    """Every layer of a node's configuration that sets a value, the strongest first."""
    others = synonyms.of(name)
    hidden = _is_sensitive(definition(ResourceType.BROKER, name))
    said: list[Synonym] = []
    static = config.static
    for texts, source in (
        (config.dynamic_broker, Source.DYNAMIC_BROKER),
        (config.dynamic_cluster, Source.DYNAMIC_DEFAULT_BROKER),
    ):
        said += (
            Synonym(other, None if hidden else texts[other], source) for other in others if other in texts
        )
    said += (
        Synonym(other, None if hidden else static[other].text, Source.STATIC_BROKER)
        for other in others
        if other in static
    )
    for other in others:
        found = definitions(ResourceType.BROKER).get(other)
        if found is not None and found.default is not None and found.scope is not Scope.DYNAMIC_ONLY:
            said.append(Synonym(other, None if hidden else found.default, Source.DEFAULT))
    return tuple(dropwhile(lambda synonym: synonym.name != name, said))
