"""The wait before the next retry: doubles each time up to a maximum, with jitter.

The jitter of 20 % keeps many clients that lost the same broker from reconnecting at the same moment.
"""

from __future__ import annotations

from typing import Protocol

from ottla.ports import Random

JITTER = 0.2
_DOUBLINGS_MAX = 32


class RetrySettings(Protocol):
    """The settings that a backoff reads."""

    @property
    def retry_backoff_ms(self) -> int: ...

    @property
    def retry_backoff_max_ms(self) -> int: ...


class Backoff:
    """`delay_ms(0)` is the wait after the first failure."""

    __slots__ = ("_first_ms", "_max_ms", "_random")

    def __init__(self, settings: RetrySettings, random: Random) -> None:
        self._first_ms = settings.retry_backoff_ms
        self._max_ms = max(settings.retry_backoff_max_ms, settings.retry_backoff_ms)
        self._random = random

    @classmethod
    def between(cls, first_ms: int, max_ms: int, random: Random) -> Backoff:
        """A backoff with other bounds: for reconnects and connection set-up."""
        backoff = cls.__new__(cls)
        backoff._first_ms, backoff._max_ms, backoff._random = first_ms, max(max_ms, first_ms), random
        return backoff

    def delay_ms(self, attempt: int) -> float:
        """The wait after failure number `attempt`, counted from 0."""
        whole: float = min(self._first_ms * 2.0 ** min(max(attempt, 0), _DOUBLINGS_MAX), self._max_ms)
        return whole * (1 - JITTER + 2 * JITTER * self._random.fraction())
