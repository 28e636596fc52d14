"""What the handlers of transactions share."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode, KafkaError

ADDING_VERSION = 2
"""The `transaction.version` of clients that leave adding partitions to the brokers."""


def fenced_code(error: KafkaError, version: int, knows_fenced_from: int) -> ErrorCode:
    """The error's code. Older clients know a fenced producer as INVALID_PRODUCER_EPOCH only."""
    if error.code == ErrorCode.PRODUCER_FENCED and version < knows_fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
