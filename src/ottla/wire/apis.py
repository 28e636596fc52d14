"""The APIs by key: names, versions, listeners and message classes, which are imported on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Final

from ottla.wire.message import Message
from ottla.wire.messages.table import APIS as _APIS

PRODUCE: Final = 0
API_VERSIONS: Final = 18


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """One API."""

    key: int
    name: str
    module: str
    versions: range
    flexible_from: int | None
    latest_unstable: bool
    listeners: frozenset[str]

    @property
    def stable_versions(self) -> range:
        """The versions that a broker offers unless it enables unstable ones."""
        return self.versions[:-1] if self.latest_unstable else self.versions

    def served_versions(self, *, unstable: bool) -> range:
        """The versions that a broker serves; with `unstable` also one that is still in development."""
        return self.versions if unstable else self.stable_versions

    def advertised_versions(self, *, unstable: bool = False) -> range:
        """The versions in ApiVersions. Produce is advertised from 0 and refused below 3, as in Kafka: without
        Produce v0, librdkafka assumes that the broker knows none of its message formats."""
        versions = self.served_versions(unstable=unstable)
        return range(versions.stop) if self.key == PRODUCE else versions

    def request_class(self) -> type[Message]:
        return _message_class(self.module, self.name + "Request")

    def response_class(self) -> type[Message]:
        return _message_class(self.module, self.name + "Response")


@cache
def _message_class(module: str, name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"ottla.wire.messages.{module}"), name)
    return found


API_BY_KEY: Final = MappingProxyType(
    {
        key: ApiEntry(
            key, name, module, range(first, last + 1), flexible_from, unstable, frozenset(listeners)
        )
        for key, name, module, first, last, flexible_from, unstable, listeners in _APIS
    }
)

API_BY_NAME: Final = MappingProxyType({entry.name: entry for entry in API_BY_KEY.values()})


def request_header_version(key: int, version: int) -> int:
    """2 for a flexible version of a request, else 1."""
    flexible_from = API_BY_KEY[key].flexible_from
    return 2 if flexible_from is not None and version >= flexible_from else 1


def response_header_version(key: int, version: int) -> int:
    """1 for a flexible version of a response, else 0. ApiVersions stays at 0, since a client must read the
    response before it knows the broker's versions."""
    if key == API_VERSIONS:
        return 0
    return request_header_version(key, version) - 1
