"""Points in production code where simulations take rare paths deliberately.

`rarely("a session is forgotten")` is always False on a real machine. In a simulated world the seed decides
which points the world uses, and such a point then returns True from time to time. So an event that occurs
once in a million fetches occurs in every run, combined with all other faults.

Rules: a point costs a call, so it must not be on a path that runs per record or per small request; and the
path taken must also be possible without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Decide = Callable[[str], bool]

ON_PURPOSE = "this rare path was taken on purpose"
"""The reason given in an error that such a path causes."""

_decide: Decide | None = None


def rarely(point: str) -> bool:
    """Whether to take a rare path here."""
    return _decide is not None and _decide(point)


@contextmanager
def decided_by(decide: Decide) -> Iterator[None]:
    """For simulations: let `decide` answer, until the end of the block."""
    global _decide
    before, _decide = _decide, decide
    try:
        yield
    finally:
        _decide = before
