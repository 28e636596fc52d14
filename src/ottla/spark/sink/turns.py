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

_NUMBER = struct.Struct("<q")
_TAKEN = -1
SEQUENCES = 1 << 31
"""How many numbers there are; behind the last comes 0 again."""
_SENDS_MAX = 8
"""How much is sent in one turn while others may wait."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Where the turns of one transaction are kept: a directory of its own, on the machine of all tasks."""

    directory: str

    def take(self, topic: str, partition: int) -> Turn:
        """Wait for the turn at a partition."""
        file = os.open(self._path(topic, partition), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            sequence = _read(file)
            if sequence == _TAKEN:
                raise TurnBroken(
                    f"Another task failed while it wrote to {topic}-{partition}: the batch is not committed."
                )
            os.pwrite(file, _NUMBER.pack(_TAKEN), 0)
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
        self._sends = 0
        self._has_failed = False
        self._ended = threading.Event()

    def send(self, send: Callable[[], TableDelivery], records: int) -> TableDelivery | None:
        """Send within the turn; None: it is over, and the next one must be waited for."""
        with self._lock:
            if not self._under_way:
                return None
            is_full = self._sends >= _SENDS_MAX
            if not is_full:
                self._under_way += 1
                self._sends += 1
        if is_full:
            self._ended.wait()
            return None
        try:
            delivery = send()
        except BaseException:
            self._done(is_good=False)
            raise
        self._next = increment_sequence(self._next, records)
        delivery.on_done(lambda: self._done(is_good=delivery.report().error is None))
        return delivery

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Around the first send: after it the turn ends with its last answer, and before it by an error."""
        try:
            yield
        except BaseException:
            self._done(is_good=False)
            raise
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
            self._ended.set()
