"""A finding of `ottla doctor`. Rule: a finding that is not ok names its cause and an actionable remedy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

_NAMED_MAX = 5


class State(StrEnum):
    """The severity."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    state: State
    cause: str
    cure: str = ""


def ok(check: str, cause: str) -> Finding:
    return Finding(check, State.OK, cause)


def warning(check: str, cause: str, cure: str) -> Finding:
    return Finding(check, State.WARNING, cause, cure)


def problem(check: str, cause: str, cure: str) -> Finding:
    return Finding(check, State.PROBLEM, cause, cure)


def listed(names: Iterable[object]) -> str:
    """The first few names, and the number of the others."""
    every = [str(name) for name in names]
    shown = ", ".join(every[:_NAMED_MAX])
    return shown if len(every) <= _NAMED_MAX else f"{shown} and {len(every) - _NAMED_MAX} more"


def several(count: int, one: str, many: str | None = None) -> str:
    """1 partition, 2 partitions."""
    return f"{count} {one if count == 1 else many or one + 's'}"
