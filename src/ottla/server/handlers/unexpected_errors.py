"""What a handler answers for one partition, whatever was raised over it; see `ottla.failures`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.errors import KafkaError, UnknownServerError

if TYPE_CHECKING:
    from ottla.server.broker import Broker


def error_of(broker: Broker, raised: Exception, api: str, topic: str, index: int) -> KafkaError:
    """The error to answer. One that nobody foresaw is logged and counted.

    Its traceback is dropped: it leads to the frame that keeps the error, and this cycle would keep the whole
    request until the garbage collector finds it.
    """
    if isinstance(raised, KafkaError):
        return raised.with_traceback(None)
    broker.failures.note(api, f"{topic}-{index}", raised)
    return UnknownServerError(f"Unexpected error in {api} for {topic}-{index}.")
