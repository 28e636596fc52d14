"""Helpers of the handlers of transactions."""

from __future__ import annotations

from ottla.wire.errors import ErrorCode, KafkaError

ADDING_VERSION = 2
"""The `transaction.version` of clients whose broker adds partitions for them."""


def fenced_code(error: KafkaError, version: int, knows_fenced_from: int) -> ErrorCode:
    """The error code for a client: older ones know only INVALID_PRODUCER_EPOCH for a fenced producer."""
    if error.code == ErrorCode.PRODUCER_FENCED and version < knows_fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
