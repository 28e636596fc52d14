"""Contains and counts unexpected exceptions.

Rule: an exception that a duty or a handler raises for one partition affects only that partition, and any
other exception affects only that one run. It is logged and counted here, and the node continues.
`server/fatal_errors.py` has the few reasons for which a node stops.
"""

from __future__ import annotations

import logging
from collections import Counter

logger = logging.getLogger("ottla.failures")

_KEPT_MAX = 1000
"""The number of counters; all further places share one."""


class Failures:
    """Counts failures by the name of a duty or an API and the affected partition."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    @property
    def total(self) -> int:
        return self.counts.total()

    def note(self, what: str, subject: str, error: Exception) -> None:
        """Log and count a failure. A repeated one is logged at its 1st, 2nd, 4th, 8th... occurrence."""
        place = (what, subject)
        if place not in self.counts and len(self.counts) >= _KEPT_MAX:
            place = ("other", "")
        self.counts[place] += 1
        count = self.counts[place]
        if count & (count - 1) == 0:
            over = f" over {subject}" if subject else ""
            logger.error("%s failed%s (failure %d); continuing: %r", what, over, count, error, exc_info=error)
