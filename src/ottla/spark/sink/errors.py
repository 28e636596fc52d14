"""What can go wrong in the sink, each with its cure in one line."""

from __future__ import annotations


class SinkError(RuntimeError):
    """A batch was not written; nothing of it is to be seen by those who read committed records."""


class Fenced(SinkError):
    """Another query took the transactional id over."""


class TransactionTooShort(SinkError):
    """The batch took longer than its transaction may last."""


class OtherQuery(SinkError):
    """The transactional id belongs to another query, or to another state of this one."""


class MarkerMissing(SinkError):
    """The sink has no memory of the batches that the query has done."""


class RetryRefused(SinkError):
    """A task was started a second time within one transaction."""


class WritersOverlap(SinkError):
    """Two tasks wrote to one partition within one transaction."""


class TurnBroken(SinkError):
    """A task ended while it had the turn at a partition, so others cannot go on there."""
