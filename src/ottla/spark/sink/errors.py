"""Errors of the sink. Each message says what to do, in one line."""

from __future__ import annotations


class SinkError(RuntimeError):
    """A batch was not written; read_committed consumers see none of its records."""


class Fenced(SinkError):
    """Another query has taken the transactional id."""


class TransactionTooShort(SinkError):
    """The batch took longer than the transaction timeout."""


class OtherQuery(SinkError):
    """The transactional id belongs to another query or another checkpoint."""


class MarkerMissing(SinkError):
    """The sink has no marker, although the query has completed batches."""


class RetryRefused(SinkError):
    """A task was started twice within one transaction."""


class WritersOverlap(SinkError):
    """Two tasks wrote to the same partition within one transaction."""


class TurnBroken(SinkError):
    """A task ended during its turn at a partition, so no other task can continue there."""
