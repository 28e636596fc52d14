"""Loads the configuration file of a node, for the tools that take one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ottla import properties
from ottla.config.broker import BrokerConfig


def load_configuration(
    path: str, overrides: Mapping[str, str] | None = None, *, base_directory: str | None = None
) -> BrokerConfig:
    """The configuration from the file, this process's environment and the overrides.

    Relative paths are resolved against `base_directory`, by default the working directory; an empty one
    leaves them relative. Raises OSError for an unreadable file, and ConfigError.
    """
    return BrokerConfig.load(
        properties.decode(read(path)),
        file=path,
        environment=os.environ,
        overrides=overrides,
        base_directory=os.getcwd() if base_directory is None else base_directory,
        read=read,
    )


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
