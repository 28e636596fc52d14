"""The loggers of this node in Kafka's format: the resource BROKER_LOGGER of the config APIs.

Levels have Kafka's names. They apply to the running process and do not survive a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.config import Operation
from ottla.wire.errors import InvalidConfig, InvalidRequest

ROOT = "root"

TRACE = 5
_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}

logger = logging.getLogger("ottla.server.loggers")

LevelChange = tuple[str, int, str | None]
"""(logger's name, operation, level)."""


def levels() -> dict[str, str]:
    """Every logger of Ottla, and the root, with its effective level."""
    names = sorted(name for name in logging.root.manager.loggerDict if name.split(".")[0] == "ottla")
    found = {name: _name_of(logging.getLogger(name).getEffectiveLevel()) for name in names}
    found[ROOT] = _name_of(logging.root.getEffectiveLevel())
    return found


def alter(node_id: int, resource_name: str, changes: Iterable[LevelChange], *, validate_only: bool) -> None:
    """Change levels: all of the changes, or none if one is rejected."""
    try:
        asked_id = int(resource_name)
    except ValueError:
        raise InvalidRequest(f"Node id must be an integer, but it is: {resource_name}") from None
    if asked_id != node_id:
        raise InvalidRequest(f"Unexpected node id. Expected {node_id}, but received {asked_id}")
    changes = list(changes)
    for change in changes:
        _check(change)
    if validate_only:
        return
    for name, operation, level in changes:
        target = logging.root if name == ROOT else logging.getLogger(name)
        target.setLevel(
            _LEVELS[level] if operation == Operation.SET and level is not None else logging.NOTSET
        )
        logger.warning("Set log level of %s to %s", name, _name_of(target.getEffectiveLevel()))


def _check(change: LevelChange) -> None:
    name, operation, level = change
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        raise InvalidRequest(
            f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
        )
    if operation not in (Operation.SET, Operation.DELETE):
        raise InvalidRequest(
            f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
        )
    if name not in levels():
        raise InvalidConfig(f"Logger {name} does not exist!")
    if operation == Operation.SET and level not in _LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}"
        )
    if operation == Operation.DELETE and name == ROOT:
        raise InvalidRequest(f"Removing the log level of the {ROOT} logger is not allowed")


def _name_of(level: int) -> str:
    """The name of the highest of Kafka's levels at or below a level of Python's."""
    for name, number in reversed(_LEVELS.items()):
        if level >= number:
            return name
    return "TRACE"
