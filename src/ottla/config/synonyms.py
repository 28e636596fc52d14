"""Broker settings with the same meaning in other units, and their conversion.

`log.retention.ms`, `.minutes` and `.hours` are one setting with three names: the first that is set counts.
"""

from __future__ import annotations

from ottla.config.schema import LISTENER_PREFIX, base_name
from ottla.units import MILLISECONDS

_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_GROUPS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_RETENTION, _RETENTION),
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_JITTER, _JITTER),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}
_MILLISECONDS = {"hours": MILLISECONDS["h"], "minutes": MILLISECONDS["m"]}


def of(name: str) -> tuple[str, ...]:
    """All names of a broker setting, the strongest first; for a listener's setting, the setting and its
    base."""
    if name.startswith(LISTENER_PREFIX):
        return (name, base_name(name))
    return _GROUPS.get(name, (name,))


def grouped() -> frozenset[str]:
    """The settings that have synonyms."""
    return frozenset(_GROUPS)


def milliseconds_in(name: str) -> int:
    """The size of this setting's unit, in the unit of its strongest name."""
    return _MILLISECONDS.get(name.rpartition(".")[2], 1)
