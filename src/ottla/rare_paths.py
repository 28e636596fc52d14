"""Rare paths, which simulations take on purpose.

`rarely("a session is forgotten")` is False on a real machine, always. In a simulated world a seed decides:
each point is one that this world takes or one that it does not, and there it says yes now and then. So what
happens once in a million fetches happens in every run, next to everything else that goes wrong.

Rules: a point costs a call, so it stands on no path that each record or each small request takes; and what
follows from it is something that could happen without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Decide = Callable[[str], bool]

ON_PURPOSE = "this rare path was taken on purpose"
"""Said where one ends in an error that is reported."""

_decide: Decide | None = None


def rarely(point: str) -> bool:
    """Whether to take a rare path here."""
    return _decide is not None and _decide(point)


@contextmanager
def decided_by(decide: Decide) -> Iterator[None]:
    """For simulations: let `decide` say it, until the end of the block."""
    global _decide
    before, _decide = _decide, decide
    try:
        yield
    finally:
        _decide = before
