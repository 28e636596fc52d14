"""The error that a handler returns for one partition, whatever exception was raised; see `ottla.failures`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.errors import KafkaError, UnknownServerError

if TYPE_CHECKING:
    from ottla.failures import Failures


def error_of(failures: Failures, raised: Exception, api: str, topic: str, index: int) -> KafkaError:
    """The error to return. An unexpected exception is logged and counted.

    Its traceback is dropped: it refers to the frame that holds the error, and this cycle would keep the whole
    request alive until the next garbage collection.
    """
    if isinstance(raised, KafkaError):
        return raised.with_traceback(None)
    failures.note(api, f"{topic}-{index}", raised)
    return UnknownServerError(f"Unexpected error in {api} for {topic}-{index}.")
