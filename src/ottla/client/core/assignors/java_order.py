"""The orders in which Java's assignors iterate over members, topics and partitions.

If several assignments are equally good, Kafka's choice depends on the iteration order of its hash maps. The
same order here keeps partitions in place when the leadership of a group moves between a Java client and one
of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ottla.client.values import TopicPartition
from ottla.coordinator.partitioning import text_hash

T = TypeVar("T")

_SMALLEST_TABLE = 16


def text_order(text: str) -> bytes:
    """A sort key that orders strings as Java does: by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def partition_hash(partition: TopicPartition) -> int:
    return (31 * (31 + partition.partition) + text_hash(partition.topic)) & 0xFFFF_FFFF


def in_hash_order(keys: Iterable[T], hashed: Callable[[T], int], table: int = _SMALLEST_TABLE) -> list[T]:
    """Distinct keys, given in insertion order, in the iteration order of a Java HashMap.

    `table` is the size that the table has already reached: it never shrinks.
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
    """The same for a map filled by `computeIfAbsent`, which inserts a new key at the front of its bucket and
    grows the table on the next call.
    """
    before_last = len(set(calls[:-1]))
    return _by_bucket(reversed(list(dict.fromkeys(calls))), text_hash, table_size(before_last))


def table_size(count: int, table: int = _SMALLEST_TABLE) -> int:
    """The size of the table after `count` keys: it doubles when it is more than three quarters full."""
    while 4 * count > 3 * table:
        table *= 2
    return table
