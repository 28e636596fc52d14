"""Chooses the partition of a record: by its key, sticky without one, or by a callable of the user.

- `partition_for_key` hashes as Java's clients do (murmur2), so a key has the same partition in all clients.
- `Sticky` is the default for records without a key, one object per topic: it stays with a partition for about
  `batch.size` bytes, then switches. If queue sizes are known, partitions with shorter queues are more likely,
  and those of a slow broker are skipped (KIP-794).
- A custom partitioner is a callable `(topic, key, value, view) -> partition`, with key and value as bytes.

Rule: randomness comes only from the Random port, one draw per switch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ottla.client.core.metadata import TopicView
from ottla.client.errors import ConfigError
from ottla.ports import Buffer, Random
from ottla.records.key_hash import key_partition


def partition_for_key(key: Buffer, partition_count: int) -> int:
    """The partition of a key among so many."""
    return key_partition(key, 0, len(key), partition_count)


class Partitioner(Protocol):
    """A custom way to choose a partition. Several threads may call it."""

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, view: TopicView, /) -> int: ...


def available(view: TopicView) -> list[int]:
    """The partitions with a leader."""
    return [partition.index for partition in view.partitions if partition.leader >= 0]


class RoundRobin:
    """Partitions with a leader in turn; ignores keys."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, view: TopicView, /) -> int:
        number = self._next.get(topic, 0)
        self._next[topic] = (number + 1) & 0x7FFF_FFFF
        usable = available(view)
        return usable[number % len(usable)] if usable else number % len(view.partitions)


class UniformRandom:
    """A random partition with a leader, all equally likely; ignores keys."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, view: TopicView, /) -> int:
        usable = available(view) or range(len(view.partitions))
        return usable[self._random.below(len(usable))]


class Sticky:
    """The partition for records without a key, for one topic."""

    __slots__ = ("_batch_size", "_bytes", "_load", "_partition", "_random")

    def __init__(self, batch_size: int, random: Random) -> None:
        self._batch_size = max(1, batch_size)
        self._random = random
        self._partition = -1
        self._bytes = 0
        # Running sums of the weights and the partitions they belong to; None where all weigh the same. It is
        # replaced as a whole, since the thread that weighs is not the one that switches.
        self._load: tuple[Sequence[int], Sequence[int]] | None = None

    def current(self, view: TopicView) -> int:
        """The current partition."""
        if self._partition < 0:
            self._switch(view)
        return self._partition

    def appended(self, size_bytes: int, view: TopicView, *, batches_full: bool = True) -> None:
        """Count bytes appended to the current partition, and switch if it is time.

        A partition whose batch is not full (`batches_full` false) is kept for up to twice `batch.size`, so
        that batches are not sent half full.
        """
        self._bytes += size_bytes
        if self._bytes >= self._batch_size and (batches_full or self._bytes >= 2 * self._batch_size):
            self._switch(view)

    def weigh(self, queue_sizes: Sequence[int], partitions: Sequence[int], partition_count: int) -> None:
        """Prefer short queues: `queue_sizes` are those of `partitions`, out of `partition_count`.

        Skips partitions without a leader and those of slow brokers. Without sizes, or if all are equal, every
        partition is equally likely again.
        """
        same = not queue_sizes or (len(set(queue_sizes)) == 1 and len(queue_sizes) == partition_count)
        if same or partition_count < 2:
            self._load = None
            return
        longest = max(queue_sizes)
        total = 0
        frequencies = []
        for size in queue_sizes:
            total += longest + 1 - size
            frequencies.append(total)
        self._load = (frequencies, tuple(partitions))

    def _switch(self, view: TopicView) -> None:
        number = self._random.below(1 << 31)
        load = self._load
        if load is not None:
            frequencies, partitions = load
            chosen = partitions[bisect_right(frequencies, number % frequencies[-1])]
        else:
            usable = available(view)
            chosen = usable[number % len(usable)] if usable else number % len(view.partitions)
        self._partition = chosen
        self._bytes = 0


class BrokerDelays:
    """How long the records for each broker have waited, to skip slow brokers."""

    __slots__ = ("_drained_ms", "_ready_ms", "availability_timeout_ms")

    def __init__(self, availability_timeout_ms: int) -> None:
        self.availability_timeout_ms = availability_timeout_ms
        self._ready_ms: dict[int, int] = {}
        self._drained_ms: dict[int, int] = {}

    def had_records(self, broker: int, now_ms: int, *, taken: bool) -> None:
        """Records for a broker were ready, and were sent (`taken`) or not."""
        if self.availability_timeout_ms <= 0:
            return
        self._ready_ms[broker] = now_ms
        if taken:
            self._drained_ms[broker] = now_ms
        else:
            self._drained_ms.setdefault(broker, now_ms)

    def is_late(self, broker: int) -> bool:
        if self.availability_timeout_ms <= 0 or broker not in self._ready_ms:
            return False
        return self._ready_ms[broker] - self._drained_ms[broker] > self.availability_timeout_ms


_ROUND_ROBIN = ("round_robin", "roundrobin", "org.apache.kafka.clients.producer.RoundRobinPartitioner")
_GONE = ("DefaultPartitioner", "UniformStickyPartitioner")


def partitioner_of(setting: Any, random: Random) -> Partitioner | None:
    """The partitioner of `partitioner.class`; None means the default: by key, and sticky without one."""
    if setting is None:
        return None
    if isinstance(setting, str):
        if setting in _ROUND_ROBIN:
            return RoundRobin()
        if setting == "random":
            return UniformRandom(random)
        if setting.rpartition(".")[2] in _GONE:
            raise ConfigError(
                f"partitioner.class={setting} is now the default. Omit it, and set "
                "partitioner.ignore.keys=true if keys should not matter."
            )
        raise ConfigError(
            f"Unknown partitioner.class={setting}. Use round_robin, random, or a Python callable."
        )
    made: object = setting() if isinstance(setting, type) else setting
    if not callable(made):
        raise ConfigError(
            "partitioner.class must be a callable that takes topic, key, value and the topic's view."
        )
    called: Callable[..., int] = made
    return called
