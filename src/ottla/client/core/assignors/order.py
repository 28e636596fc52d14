"""The orders in which Java's assignors meet members, topics and partitions.

Where several assignments are equally good, Kafka's choice depends on the order in which its hash maps hold
their keys. Following it keeps partitions where they are when the leadership of a group goes from a Java
client to one of ours, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ottla.client.values import TopicPartition
from ottla.coordinator.partitioning import text_hash

T = TypeVar("T")

_SMALLEST_TABLE = 16


def text_order(text: str) -> bytes:
    """A key that sorts texts as Java does: by units of UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")


def partition_hash(partition: TopicPartition) -> int:
    return (31 * (31 + partition.partition) + text_hash(partition.topic)) & 0xFFFF_FFFF


def in_hash_order(keys: Iterable[T], hashed: Callable[[T], int], table: int = _SMALLEST_TABLE) -> list[T]:
    """Distinct keys, given as they were put into a Java HashMap one by one, in the order that it holds them.

    `table` is the size that the table has had already: it never shrinks.
    """
    listed = list(keys)
    return _by_bucket(listed, hashed, table_size(len(listed), table))


def _by_bucket(keys: Iterable[T], hashed: Callable[[T], int], table: int) -> list[T]:
    def bucket(key: T) -> int:
        value = hashed(key) & 0xFFFF_FFFF
        return (value ^ (value >> 16)) & (table - 1)

    return sorted(keys, key=bucket)


def texts_in_hash_order(texts: Iterable[str]) -> list[str]:
    return in_hash_order(dict.fromkeys(texts), text_hash)


def texts_computed(calls: Sequence[str]) -> list[str]:
    """The same for a map that was filled by these calls of `computeIfAbsent`.

    That puts a new key first into its bucket, and lets the table grow with the next call.
    """
    before_last = len(set(calls[:-1]))
    return _by_bucket(reversed(list(dict.fromkeys(calls))), text_hash, table_size(before_last))


def table_size(count: int, table: int = _SMALLEST_TABLE) -> int:
    """The size of the table after `count` keys: it doubles when it is more than three quarters full."""
    while 4 * count > 3 * table:
        table *= 2
    return table
