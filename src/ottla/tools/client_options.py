"""Settings of producers and consumers on a command line: a file, `name=value` words, and further options.

`name=value` words override the file, and the tool's own settings override both. Unknown names are ignored
with a warning, as in Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla import properties
from ottla.operations.failure import Failure
from ottla.tools.arguments import Options

if TYPE_CHECKING:
    from ottla.client.config import ConsumerSettings, ProducerSettings

_ORIGIN = "the command line"


def key_values(words: Iterable[str]) -> dict[str, str]:
    """Parse `name=value` words; a name alone has an empty value."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def read_properties(path: str | None) -> dict[str, str]:
    """The settings in a properties file; none without a file."""
    if path is None:
        return {}
    with open(path, "rb") as file:
        text = properties.decode(file.read())
    try:
        return properties.as_dict(text)
    except properties.PropertiesError as error:
        raise Failure(f"{path}, {error}.") from error


def either(
    options: Options,
    newer: str,
    older: str,
    warning: str,
    refusal: str = "Options --{newer} and --{older} cannot be specified together.",
) -> str:
    """Return the used one of two names of an option, with a warning for the older one; both are an error."""
    if not options.has(older):
        return newer
    if options.has(newer):
        raise options.parser.error(refusal.format(older=older, newer=newer))
    print(warning.format(older=older, newer=newer))
    return older


def producer_settings(given: Mapping[str, str], overrides: Mapping[str, object]) -> ProducerSettings:
    from ottla.client.config import ProducerSettings

    texts = {"key.serializer": None, "value.serializer": None, **overrides}
    return ProducerSettings.from_properties(properties.format(given), texts, origin=_ORIGIN)


def consumer_settings(given: Mapping[str, str], overrides: Mapping[str, object]) -> ConsumerSettings:
    from ottla.client.config import ConsumerSettings

    texts = {"key.deserializer": None, "value.deserializer": None, **overrides}
    return ConsumerSettings.from_properties(properties.format(given), texts, origin=_ORIGIN)
