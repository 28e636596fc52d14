"""Forms of the Ottla node other than the usual one: nothing compiled, or from another source tree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.interop.peers import OttlaBroker


class PlainOttla(OttlaBroker):
    """A node whose compiled modules all run as plain Python."""

    kind = "ottla-plain"

    def environment(self) -> dict[str, str]:
        return super().environment() | {"OTTLA_KERNEL": "python"}


class OttlaFrom(OttlaBroker):
    """A node from the `src` directory of another checkout, such as an older commit, compiled there."""

    def __init__(self, directory: Path, source: Path, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, properties=properties)
        self._source = source.resolve()

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PYTHONPATH": str(self._source)}
