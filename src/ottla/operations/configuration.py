"""Reading the configuration file of a node from this machine: what the tools that take one share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ottla import properties
from ottla.config.broker import BrokerConfig


def load_configuration(
    path: str, overrides: Mapping[str, str] | None = None, *, base_directory: str | None = None
) -> BrokerConfig:
    """The configuration that the file, this process's environment and the overrides make up.

    Relative paths in it start from `base_directory`, which is the working directory unless given; with an
    empty one they stay as they are. Raises OSError for a file that cannot be read, and ConfigError.
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
    """Settings of `--override name=value` options; ValueError for one that is not of that form."""
    overrides = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"--override {entry} is not of the form name=value.")
        overrides[name.strip()] = value
    return overrides
