"""The offsets of one partition's groups: the committed ones, and the pending ones of open transactions.

Rule: of all commits for a partition the last one in the log counts, transactional or not, and a transactional
one takes effect with its marker. So when a commit takes effect, older ones of open transactions lose their
value: they still make the partition unstable, but never take effect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern

from ottla.coordinator.groups.offsets.records import (
    KEY_TYPE,
    PARTITION_BYTES,
    is_sound,
    key_prefix,
    read_key,
    read_value,
)
from ottla.wire.errors import MalformedMessage
from ottla.wire.uuid import ZERO

Partitions = dict[int, bytes]
"""Partition -> the value of its commit record."""

Pair = tuple[bytes | None, bytes | None]
"""The key and the value of a record."""

_Place = tuple[str, str, int]
"""Group id, topic, partition."""


_NONE: Partitions = {}


class _Pending:
    """A commit of an open transaction. Without a value: a later one has taken effect already."""

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: bytes) -> None:
        self.number = number
        self.value: bytes | None = value


class OffsetStore:
    """See the module. It has no entries for groups or topics without offsets."""

    def __init__(self) -> None:
        self.committed: dict[str, dict[str, Partitions]] = {}
        self._pending: dict[int, dict[_Place, _Pending]] = {}
        self._open: dict[str, dict[tuple[str, int], set[int]]] = {}
        """Group id -> topic and partition -> the producers with a pending commit for it."""
        self._pending_count = 0
        self._known_prefixes: dict[bytes, Partitions] = {}

    # Queries

    def get(self, group_id: str, topic: str, partition: int) -> bytes | None:
        return self.committed.get(group_id, {}).get(topic, {}).get(partition)

    def count_of(self, group_id: str) -> int:
        """The number of committed offsets of a group."""
        return sum(map(len, self.committed.get(group_id, {}).values()))

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has a commit for the partition."""
        return (topic, partition) in self._open.get(group_id, ())

    def pending_of(self, group_id: str) -> Iterable[tuple[str, int]]:
        """The topics and partitions of a group for which open transactions have commits."""
        return self._open.get(group_id, ())

    def places_of_topic(self, topic: str, topic_id: bytes) -> Iterator[tuple[str, int]]:
        """(group id, partition) of the offsets of a topic, and of old ones without a topic id."""
        for group_id, topics in list(self.committed.items()):
            for partition, value in list(topics.get(topic, _NONE).items()):
                if _is_of_topic(value, topic_id):
                    yield group_id, partition
        for group_id, places in list(self._open.items()):
            for (name, partition), producers in list(places.items()):
                if name == topic and self.get(group_id, topic, partition) is None:
                    place = (group_id, topic, partition)
                    values = [self._pending[producer_id][place].value for producer_id in producers]
                    if any(value is None or _is_of_topic(value, topic_id) for value in values):
                        yield group_id, partition

    # Changes

    def put(self, group_id: str, topic: str, partition: int, value: bytes) -> None:
        """A commit that takes effect at once."""
        try:
            self.committed[group_id][topic][partition] = value
        except KeyError:
            self._partitions(group_id, topic)[partition] = value
        if self._open:
            self._overtake(group_id, topic, partition, self._pending_count)

    def put_pending(self, producer_id: int, group_id: str, topic: str, partition: int, value: bytes) -> None:
        """A commit that takes effect once the producer's transaction is committed."""
        self._pending_count += 1
        place = (group_id, topic, partition)
        self._pending.setdefault(producer_id, {})[place] = _Pending(self._pending_count, value)
        self._open.setdefault(group_id, {}).setdefault((topic, partition), set()).add(producer_id)

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Delete an offset, and the pending offsets of open transactions for the partition."""
        topics = self.committed.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is not None and partitions is not None:
            partitions.pop(partition, None)
            if not partitions:
                del topics[topic]
                if self._known_prefixes:
                    self._known_prefixes.pop(key_prefix(group_id, topic), None)
                if not topics:
                    del self.committed[group_id]
        for producer_id in self._open.get(group_id, {}).get((topic, partition), ()):
            del self._pending[producer_id][group_id, topic, partition]
        self._close(group_id, topic, partition)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """The pending offsets of a producer take effect, or are dropped."""
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        for (group_id, topic, partition), commit in pending.items():
            producers = self._open[group_id][topic, partition]
            producers.discard(producer_id)
            if not producers:
                self._close(group_id, topic, partition)
            if is_commit and commit.value is not None:
                self._partitions(group_id, topic)[partition] = commit.value
                self._overtake(group_id, topic, partition, commit.number)

    def _partitions(self, group_id: str, topic: str) -> Partitions:
        topics = self.committed.get(group_id)
        if topics is None:
            topics = self.committed[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[intern(topic)] = {}  # many groups subscribe to the same topics
        return partitions

    def _overtake(self, group_id: str, topic: str, partition: int, number: int) -> None:
        for producer_id in self._open.get(group_id, {}).get((topic, partition), ()):
            commit = self._pending[producer_id][group_id, topic, partition]
            if commit.number <= number:
                commit.value = None

    def _close(self, group_id: str, topic: str, partition: int) -> None:
        places = self._open.get(group_id)
        if places is not None:
            places.pop((topic, partition), None)
            if not places:
                del self._open[group_id]

    # Loading

    def load(self, records: Iterable[Pair]) -> list[Pair]:
        """Load encoded commits outside transactions. Returns records of other types, and unreadable commits.

        All keys of a group's topic have the same bytes before the partition, so a known prefix needs no
        decoding. Call `end_load` afterwards.
        """
        others: list[Pair] = []
        known = self._known_prefixes
        is_any_open = bool(self._open)
        for record in records:
            key, value = record
            if key is None:
                others.append(record)
                continue
            partitions = known.get(key[:-PARTITION_BYTES])
            if partitions is None or value is None or is_any_open or not is_sound(value):
                if key[:2] != KEY_TYPE or not self._load_one(key, value):
                    others.append(record)
            else:
                partitions[int.from_bytes(key[-PARTITION_BYTES:], "big", signed=True)] = value
        return others

    def _load_one(self, key: bytes, value: bytes | None) -> bool:
        """Load a commit. False: it cannot be read."""
        try:
            group_id, topic, partition = read_key(key)
            if value is None:
                self.remove(group_id, topic, partition)
                return True
            if not is_sound(value):
                read_value(value)
        except MalformedMessage:
            return False
        self.put(group_id, topic, partition, value)
        self._known_prefixes[key[:-PARTITION_BYTES]] = self.committed[group_id][topic]
        return True

    def end_load(self) -> None:
        """The load is complete: drop its caches."""
        self._known_prefixes = {}


def _is_of_topic(value: bytes, topic_id: bytes) -> bool:
    return read_value(value).topic_id in (ZERO, topic_id)
