"""Loads the configuration of a node, for the tools that take a file and for those that start nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ottla import properties
from ottla.config.broker import BrokerConfig

PORT = 9092


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationSource:
    """What the command line of a node says: a file, or the built-in settings with a directory and a port."""

    file: str | None = None
    data: str | None = None
    port: int | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)

    def load(
        self, *, environment: Mapping[str, str] | None = None, base_directory: str | None = None
    ) -> BrokerConfig:
        """The configuration, by default with this process's environment and working directory.

        Raises OSError for an unreadable file, and ConfigError.
        """
        from ottla.config.development import development_config

        given = os.environ if environment is None else environment
        base = os.getcwd() if base_directory is None else base_directory
        if self.file is None:
            return development_config(
                data_directory=self.data or "data",
                port=PORT if self.port is None else self.port,
                overrides=self.overrides,
                environment=given,
                base_directory=base,
            )
        data = {} if self.data is None else {"log.dirs": self.data}
        return BrokerConfig.load(
            properties.decode(read(os.path.join(base, self.file))),
            file=self.file,
            environment=given,
            overrides={**self.overrides, **data},
            base_directory=base,
            read=read,
        )

    def with_overrides(self, overrides: Mapping[str, str]) -> ConfigurationSource:
        """The same, with these settings on top, which include the directories."""
        data = {} if self.file is None or self.data is None else {"log.dirs": self.data}
        merged = {**self.overrides, **data, **overrides}
        return replace(self, data=None if data else self.data, overrides=merged)

    def words(self) -> list[str]:
        """The arguments of a command line that say this."""
        found = [] if self.file is None else [self.file]
        found += [] if self.data is None else ["--data", self.data]
        found += [] if self.port is None else ["--port", str(self.port)]
        return [*found, *(f"--override={name}={value}" for name, value in self.overrides.items())]


def load_configuration(
    path: str, overrides: Mapping[str, str] | None = None, *, base_directory: str | None = None
) -> BrokerConfig:
    """The configuration from the file, this process's environment and the overrides.

    Relative paths are resolved against `base_directory`, by default the working directory; an empty one
    leaves them relative. Raises OSError for an unreadable file, and ConfigError.
    """
    source = ConfigurationSource(file=path, overrides=overrides or {})
    return source.load(base_directory=base_directory)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def parse_overrides(entries: Sequence[str]) -> dict[str, str]:
    """Settings from `--override name=value` options; ValueError for a malformed one."""
    overrides = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--override {entry} is not in the form name=value.")
        overrides[name.strip()] = value
    return overrides
