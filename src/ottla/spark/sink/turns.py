"""Turns at a target partition, for tasks on one machine: all of them may write to it, one after the other.

The tasks of a batch share a producer id and epoch, so a partition's sequence numbers are common to all. A
file for each partition has the next number; who writes holds the file's lock, and gives it back when the
brokers have all that it sent. Rules: while somebody writes, the file says so, and a task that ends in the
middle leaves it like that, so nobody goes on behind what may be missing; a turn ends by the brokers' answers
alone, whatever its task waits for meanwhile, so tasks that wait for each other's partitions all come on.
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
    from ottla.client.arrow import TableDelivery
    from ottla.client.producer.producer import Producer
    from ottla.spark.sink.row_builder import Built

_NUMBER = struct.Struct("<q")
_TAKEN = -1
SEQUENCES = 1 << 31
"""How many numbers there are; behind the last comes 0 again."""
_SENDS_MAX = 8
"""How many sends may follow the first ones of a turn while others wait for theirs."""
_WAITING_BYTES_MAX = 16 << 20
"""What a task keeps for partitions at which others have their turn, before it waits for them."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Where the turns of one transaction are kept: a directory of its own, on the machine of all tasks."""

    directory: str

    def take(self, topic: str, partition: int) -> Turn:
        """Wait for the turn at a partition."""
        turn = self.try_take(topic, partition, wait=True)
        assert turn is not None, "it was waited for"
        return turn

    def try_take(self, topic: str, partition: int, *, wait: bool = False) -> Turn | None:
        """The turn at a partition; None: somebody has it, and it was not to be waited for."""
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
        """How many records the turns so far have written to a partition; None: one was not ended."""
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
        """At how many partitions there was a turn."""
        return len(os.listdir(self.directory))

    def _path(self, topic: str, partition: int) -> Path:
        return Path(self.directory) / f"{hashlib.sha256(topic.encode()).hexdigest()[:32]}-{partition}"


def _read(file: int) -> int:
    data = os.pread(file, _NUMBER.size, 0)
    number: int = _NUMBER.unpack(data)[0] if data else 0
    return number


class Turn:
    """One turn. The task's thread sends, and the producer's thread ends it with the last answer."""

    def __init__(self, file: int, sequence: int) -> None:
        self.sequence = sequence
        """The number of the first record."""
        self._file = file
        self._next = sequence
        self._lock = threading.Lock()
        self._under_way = 1
        """What is not answered, and one as long as the turn begins."""
        self._sends_left: int | None = None
        """None: as many as there are, while the turn begins."""
        self._has_failed = False

    def send(self, send: Callable[[], TableDelivery], records: int) -> bool:
        """Send within the turn; False: it is over or long enough, and the next one must be had."""
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
        """Around the first sends: after them the turn ends with its last answer, and before by an error."""
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
            os.close(self._file)  # which gives the lock back


class Line:
    """What one task sends in turns. Where another has the turn it goes on with other partitions meanwhile."""

    def __init__(self, turns: Turns, producer: Producer) -> None:
        self._turns = turns
        self._producer = producer
        self._held: dict[tuple[str, int], Turn] = {}
        self._waiting: dict[tuple[str, int], list[Built]] = {}
        self._waiting_bytes = 0

    def send(self, one: Built) -> None:
        """Send a batch now, or once it is this task's turn; those of a partition keep their order."""
        key = (one.topic, one.partition)
        held = self._held.get(key)
        if key not in self._waiting and held is not None and held.send(self._sending(one), one.records):
            return
        self._waiting.setdefault(key, []).append(one)
        self._waiting_bytes += len(one.data)
        for place in list(self._waiting):
            self._begin(place, wait=self._waiting_bytes > _WAITING_BYTES_MAX)

    def finish(self) -> None:
        """Send what has waited."""
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

    def _sending(self, one: Built) -> Callable[[], TableDelivery]:
        return lambda: self._producer.send_batches(one.topic, [(one.partition, memoryview(one.data))])
