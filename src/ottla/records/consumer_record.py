"""The record type of consumers: a tuple, which is immutable and cheap to create by the million."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Headers = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """One consumed record. Key and value are bytes, or deserialized.

    `timestamp_type` is "CreateTime" or "LogAppendTime". A header name may occur more than once; the order is
    kept.
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
