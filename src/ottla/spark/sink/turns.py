"""Turns at target partitions: on one machine, all tasks may write to a partition, one after the other.

The tasks of a batch share a producer id and epoch, so they also share each partition's sequence numbers. A
file per partition stores the next number. A task locks the file while it writes, and unlocks it when the
brokers have acknowledged all its sends. Rules: the file is marked while a task writes, and stays marked if
the task fails midway, so that no task writes after a possible gap; the brokers' acknowledgments alone end a
turn, whatever its task waits for, so tasks that wait for each other's partitions cannot deadlock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.records.batch import increment_sequence
from ottla.spark.sink.errors import TurnBroken

if TYPE_CHECKING:
    from ottla.client.producer.arrow import TableDelivery
    from ottla.client.producer.producer import Producer
    from ottla.spark.sink.row_builder import BuiltBatch

_NUMBER = struct.Struct("<q")
_TAKEN = -1
SEQUENCES = 1 << 31
"""The number of sequence numbers; after the last, 0 follows."""
_SENDS_MAX = 8
"""The most sends after the first ones of a turn, while other tasks wait."""
_WAITING_BYTES_MAX = 16 << 20
"""The most bytes that a task keeps for partitions where others have the turn, before it blocks."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The files of one transaction's turns, in a directory on the machine that runs all tasks."""

    directory: str

    def take(self, topic: str, partition: int) -> Turn:
        """Wait for the turn at a partition."""
        turn = self.try_take(topic, partition, wait=True)
        assert turn is not None, "it was waited for"
        return turn

    def try_take(self, topic: str, partition: int, *, wait: bool = False) -> Turn | None:
        """The turn at a partition; None if another task has it and `wait` is false."""
        file = os.open(self._path(topic, partition), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            sequence = _read(file)
            if sequence == _TAKEN:
                raise TurnBroken(
                    f"A task failed while it wrote to {topic}-{partition}: the batch is not committed."
                )
            os.pwrite(file, _NUMBER.pack(_TAKEN), 0)
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        return Turn(file, sequence)

    def written(self, topic: str, partition: int) -> int | None:
        """The number of records written to a partition so far; None if a turn did not end properly."""
        try:
            file = os.open(self._path(topic, partition), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            sequence = _read(file)
        finally:
            os.close(file)
        return None if sequence == _TAKEN else sequence

    @property
    def count(self) -> int:
        """The number of partitions that had a turn."""
        return len(os.listdir(self.directory))

    def _path(self, topic: str, partition: int) -> Path:
        return Path(self.directory) / f"{hashlib.sha256(topic.encode()).hexdigest()[:32]}-{partition}"


def _read(file: int) -> int:
    data = os.pread(file, _NUMBER.size, 0)
    number: int = _NUMBER.unpack(data)[0] if data else 0
    return number


class Turn:
    """One turn. The task's thread sends; the producer's thread ends the turn on the last acknowledgment."""

    def __init__(self, file: int, sequence: int) -> None:
        self.sequence = sequence
        """The sequence number of the first record."""
        self._file = file
        self._next = sequence
        self._lock = threading.Lock()
        self._under_way = 1
        """The number of unacknowledged sends, plus one during the first sends."""
        self._sends_left: int | None = None
        """None during the first sends, which are not limited."""
        self._has_failed = False

    def send(self, send: Callable[[], TableDelivery], records: int) -> bool:
        """Send within the turn; False if the turn has ended or reached its limit, and the caller needs a new
        one."""
        with self._lock:
            if not self._under_way or self._sends_left == 0:
                return False
            if self._sends_left is not None:
                self._sends_left -= 1
            self._under_way += 1
        try:
            delivery = send()
        except BaseException:
            self._done(is_good=False)
            raise
        self._next = increment_sequence(self._next, records)
        delivery.on_done(lambda: self._done(is_good=delivery.report().error is None))
        return True

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Wraps the first sends: afterwards the last acknowledgment ends the turn; an error ends it at
        once."""
        try:
            yield
        except BaseException:
            self._done(is_good=False)
            raise
        self._sends_left = _SENDS_MAX
        self._done(is_good=True)

    def _done(self, *, is_good: bool) -> None:
        with self._lock:
            self._under_way -= 1
            self._has_failed = self._has_failed or not is_good
            if self._under_way:
                return
        try:
            if not self._has_failed:
                os.pwrite(self._file, _NUMBER.pack(self._next), 0)
        finally:
            os.close(self._file)  # releases the lock


class TurnSender:
    """Sends a task's batches in turns. While another task has a partition's turn, it sends to other
    partitions."""

    def __init__(self, turns: Turns, producer: Producer) -> None:
        self._turns = turns
        self._producer = producer
        self._held: dict[tuple[str, int], Turn] = {}
        self._waiting: dict[tuple[str, int], list[BuiltBatch]] = {}
        self._waiting_bytes = 0

    def send(self, one: BuiltBatch) -> None:
        """Send a batch now, or when the task gets the turn. The batches of a partition keep their order."""
        key = (one.topic, one.partition)
        held = self._held.get(key)
        if key not in self._waiting and held is not None and held.send(self._sending(one), one.records):
            return
        self._waiting.setdefault(key, []).append(one)
        self._waiting_bytes += len(one.data)
        for place in list(self._waiting):
            self._begin(place, wait=self._waiting_bytes > _WAITING_BYTES_MAX)

    def finish(self) -> None:
        """Send all batches that wait for a turn."""
        for place in list(self._waiting):
            self._begin(place, wait=True)

    def _begin(self, key: tuple[str, int], *, wait: bool) -> None:
        turn = self._turns.try_take(*key, wait=wait)
        if turn is None:
            return
        self._held[key] = turn
        batches = self._waiting.pop(key)
        self._waiting_bytes -= sum(len(one.data) for one in batches)
        with turn.beginning():
            self._producer.resume(*key, turn.sequence)
            for one in batches:
                turn.send(self._sending(one), one.records)

    def _sending(self, one: BuiltBatch) -> Callable[[], TableDelivery]:
        return lambda: self._producer.send_batches(one.topic, [(one.partition, memoryview(one.data))])
