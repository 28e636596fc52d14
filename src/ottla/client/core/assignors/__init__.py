"""Assigns partitions to the members of a classic group: Kafka's four assignors, and custom ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.client.core.assignors.interface import Assignor
from ottla.client.core.assignors.range_and_round_robin import Range, RoundRobin
from ottla.client.core.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.client.errors import ConfigError

_PACKAGE = "org.apache.kafka.clients.consumer."
_KNOWN: dict[str, type[Assignor]] = {
    "range": Range,
    "roundrobin": RoundRobin,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    f"{_PACKAGE}RangeAssignor": Range,
    f"{_PACKAGE}RoundRobinAssignor": RoundRobin,
    f"{_PACKAGE}StickyAssignor": StickyAssignor,
    f"{_PACKAGE}CooperativeStickyAssignor": CooperativeStickyAssignor,
}
_PARTS = ("name", "protocol", "subscription_user_data", "assign", "on_assignment")


def assignors_of(settings: Iterable[Any]) -> list[Assignor]:
    """The assignors of `partition.assignment.strategy`: new objects, the preferred one first."""
    assignors: dict[str, Assignor] = {}
    for setting in settings:
        assignor = _assignor(setting)
        if assignor.name in assignors:
            raise ConfigError(f"partition.assignment.strategy contains two assignors named {assignor.name}.")
        assignors[assignor.name] = assignor
    return list(assignors.values())


def _assignor(setting: Any) -> Assignor:
    if isinstance(setting, str):
        known = _KNOWN.get(setting)
        if known is None:
            raise ConfigError(
                f"Unknown assignor in partition.assignment.strategy: {setting}. Use range, roundrobin, "
                "sticky, cooperative-sticky, or an assignor as a Python object."
            )
        return known()
    made: Any = setting() if isinstance(setting, type) else setting
    missing = [part for part in _PARTS if not hasattr(made, part)]
    if missing:
        raise ConfigError(
            f"The assignor {type(made).__name__} in partition.assignment.strategy lacks {', '.join(missing)}."
        )
    assignor: Assignor = made
    return assignor


__all__ = ["Assignor", "CooperativeStickyAssignor", "Range", "RoundRobin", "StickyAssignor", "assignors_of"]
