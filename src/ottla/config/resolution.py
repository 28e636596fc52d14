"""The effective value for a topic or group: its own setting, else the broker's counterpart, else the default.

An override that this version cannot parse (stored by a newer one) is ignored; alterations.py checks new ones
before they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config import synonyms
from ottla.config.broker import BrokerConfig
from ottla.config.schema import Definition, ResourceType, definitions
from ottla.config.values import InvalidValue, Value, show


def topic_value(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Value:
    """The value of a topic setting; KeyError for an unknown one."""
    return resolved(config, overrides, definitions(ResourceType.TOPIC)[name])


def topic_texts(config: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, str]:
    """Every topic setting that has a value, as text."""
    texts = {}
    for name, found in definitions(ResourceType.TOPIC).items():
        text = show(resolved(config, overrides, found))
        if text is not None:
            texts[name] = text
    return texts


def resolved(config: BrokerConfig, overrides: Mapping[str, str], found: Definition) -> Value:
    text = overrides.get(found.name)
    if text is not None:
        try:
            return found.parse(text)
        except InvalidValue:
            pass  # see the module's docstring
    return broker_value(config, found)


def broker_value(config: BrokerConfig, found: Definition) -> Value:
    """The value that the broker's settings give a topic or group without its own."""
    for name in found.synonyms:
        value = config[name]
        if value is None:
            continue
        if found.name == "retention.ms" and isinstance(value, int):
            return max(-1, value * synonyms.milliseconds_in(name))
        return (
            value * synonyms.milliseconds_in(name)
            if isinstance(value, int) and _is_converted(name)
            else value
        )
    return found.default_value


def _is_converted(name: str) -> bool:
    return synonyms.milliseconds_in(name) != 1
