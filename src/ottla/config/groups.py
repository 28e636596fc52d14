"""The broker's limits for group settings: `group.<kind>.min.…` and `group.<kind>.max.…`.

The same table checks the broker's own values at startup and a group's values when they are altered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Bounds(NamedTuple):
    """A group setting and the broker settings that limit it. `lowest` is None if there is no lower limit."""

    group: str
    broker: str
    lowest: str | None
    highest: str
    only_if_set: bool
    """Kafka checks it only if the group sets it."""


def _bounds(kind: str, setting: str, highest: str | None = None) -> Bounds:
    lowest = None if highest else f"group.{kind}.min.{setting}"
    return Bounds(
        group=f"{kind}.{setting}",
        broker=f"group.{kind}.{setting}",
        lowest=lowest,
        highest=highest or f"group.{kind}.max.{setting}",
        only_if_set=setting == "assignment.interval.ms",
    )


KINDS = ("consumer", "share", "streams")
BOUNDS = (
    *(
        _bounds(kind, setting)
        for kind in KINDS
        for setting in ("heartbeat.interval.ms", "session.timeout.ms")
    ),
    _bounds("share", "record.lock.duration.ms"),
    _bounds("share", "delivery.count.limit"),
    _bounds("share", "partition.max.record.locks"),
    _bounds("streams", "num.standby.replicas", "group.streams.max.standby.replicas"),
    *(_bounds(kind, "assignment.interval.ms") for kind in KINDS),
)


def broker_fault(value: Callable[[str], int]) -> tuple[str, str, str] | None:
    """The first error in a broker's own values: (message, setting to blame, the other one), or None."""
    for bounds in BOUNDS:
        pairs = [(bounds.highest, bounds.broker)]
        if bounds.lowest is not None:
            pairs = [(bounds.highest, bounds.lowest), (bounds.broker, bounds.lowest), *pairs]
        for larger, smaller in pairs:
            if value(larger) < value(smaller):
                return f"{larger} must be greater than or equal to {smaller}", larger, smaller
    for kind in KINDS:
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if value(heartbeat) >= value(session):
            return f"{heartbeat} must be less than {session}", heartbeat, session
    return None


def group_fault(
    value: Callable[[str], int], broker: Callable[[str], int], is_set: Callable[[str], bool]
) -> str | None:
    """The first error in a group's values within the limits of a broker, or None."""
    for bounds in BOUNDS:
        if bounds.only_if_set and not is_set(bounds.group):
            continue
        if bounds.lowest is not None and value(bounds.group) < broker(bounds.lowest):
            return f"{bounds.group} must be greater than or equal to {bounds.lowest}"
        if value(bounds.group) > broker(bounds.highest):
            return f"{bounds.group} must be less than or equal to {bounds.highest}"
    for kind in KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if value(session) <= value(heartbeat):
            return f"{session} must be greater than {heartbeat}"
    return None
