"""Exceptions that nobody foresaw, and what they were contained to.

The rule: whatever a duty or a handler raises over one partition concerns that partition, and whatever it
raises over all of them concerns that one run of it. It is logged and counted here, and the node goes on. The
few reasons for which a node ends are in `server/fatal_errors.py`.
"""

from __future__ import annotations

import logging
from collections import Counter

logger = logging.getLogger("ottla.failures")

_KEPT_MAX = 1000
"""Of how many places the count is kept; the rest share one."""


class Failures:
    """How often what failed, by the name of a duty or an API and the partition that it failed over."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    @property
    def total(self) -> int:
        return self.counts.total()

    def note(self, what: str, subject: str, error: Exception) -> None:
        """Log and count. A failure that comes again and again is logged at its 1st, 2nd, 4th, 8th... time."""
        place = (what, subject)
        if place not in self.counts and len(self.counts) >= _KEPT_MAX:
            place = ("other", "")
        self.counts[place] += 1
        count = self.counts[place]
        if count & (count - 1) == 0:
            over = f" over {subject}" if subject else ""
            logger.error("%s failed%s, time %d, and goes on: %r", what, over, count, error, exc_info=error)
