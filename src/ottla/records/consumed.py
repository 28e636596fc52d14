"""A record as a consumer gets it: a tuple, which is immutable and cheap to make by the million."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One record: where it came from, when, and what it says. Key and value are bytes or what they stand for.

    `timestamp_type` is "CreateTime" or "LogAppendTime". Header names may come more than once, in their order.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: str
    key: K
    value: V
    headers: Headers
    leader_epoch: int | None
