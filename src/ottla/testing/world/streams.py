"""Between the two ends of a connection in the simulated world: ways between hosts, and streams of bytes.

A stream keeps its bytes in order and without gaps, whatever happens; different streams know nothing of each
other. Reads end at any byte, since writes are joined and split by chance.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections import deque
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ottla.testing.world.network import Wires
    from ottla.testing.world.transport import SimulatedTransport

READ_BYTES_MAX = 256 * 1024


class Way:
    """One direction between two hosts. Change its fields at any time; `cut` and `heal` for the rest."""

    __slots__ = (
        "_chance",
        "bytes_per_second",
        "cut_at",
        "delay_s",
        "free_at",
        "held",
        "is_cut",
        "jitter_s",
        "spike_probability",
        "spike_s",
    )

    def __init__(self, chance: random.Random, delay_s: float, jitter_s: float) -> None:
        self._chance = chance.random
        self.delay_s = delay_s
        self.jitter_s = jitter_s
        self.spike_probability = 0.0
        self.spike_s = 0.0
        self.bytes_per_second: float | None = None
        self.free_at = 0.0
        self.is_cut = False
        self.cut_at = 0.0
        self.held: dict[Stream, None] = {}

    def arrival(self, now: float, count: int) -> float:
        """When bytes that leave now arrive."""
        delay = self.delay_s + self.jitter_s * self._chance()
        if self.spike_probability and self._chance() < self.spike_probability:
            delay += self.spike_s * self._chance()
        if self.bytes_per_second is not None:
            self.free_at = max(self.free_at, now) + count / self.bytes_per_second
            return self.free_at + delay
        return now + delay


class End:
    """What ends a stream, after its bytes: an end of file, or a reset."""

    __slots__ = ("is_reset",)

    def __init__(self, is_reset: bool) -> None:
        self.is_reset = is_reset


class Stream:
    """The bytes of one connection in one direction."""

    __slots__ = (
        "_alarm",
        "_due",
        "_is_ended",
        "number",
        "queue",
        "receiver",
        "sender",
        "unread",
        "way",
        "wires",
    )

    def __init__(self, wires: Wires, number: int, way: Way) -> None:
        self.wires = wires
        self.number = number
        self.way = way
        self.sender: SimulatedTransport = cast("SimulatedTransport", None)
        self.receiver: SimulatedTransport = cast("SimulatedTransport", None)
        self.queue: deque[tuple[float, bytes | End]] = deque()
        self.unread = 0
        self._due = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._is_ended = False

    def send(self, data: bytes) -> None:
        loop = self.wires.loop
        due = self.way.arrival(loop.now, len(data))
        if due < self._due:
            due = self._due  # in order
        self._due = due
        self.queue.append((due, data))
        self.unread += len(data)
        self.expect()

    def finish(self, *, is_reset: bool) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._due = max(self.way.arrival(self.wires.loop.now, 0), self._due)
            self.queue.append((self._due, End(is_reset)))
            self.expect()

    def expect(self) -> None:
        """Have the receiver look when the next bytes are there."""
        if self._alarm is None and self.queue:
            receiver = self.receiver
            if receiver.is_gone:
                # The system answers for a process that is not there any more.
                root = self.wires.loop.root
                self._alarm = self.wires.loop.call_in_at(root, self.queue[0][0], self._bounce)
            else:
                self._alarm = self.wires.loop.call_in_at(receiver.process, self.queue[0][0], self._arrive)

    def _arrive(self) -> None:
        self._alarm = None
        if self.receiver.is_gone:
            self.expect()
        elif self.way.is_cut:
            self.way.held[self] = None
        else:
            self.receiver.receive()

    def _bounce(self) -> None:
        """Bytes reach a host where nobody takes them: it answers with a reset, if it answers at all."""
        self._alarm = None
        back = self.receiver.outgoing.way
        if self.way.is_cut or back.is_cut:
            (self.way if self.way.is_cut else back).held[self] = None
        elif self.receiver.process.host in self.wires.powered_off:
            self.wires.unanswered[self] = None
        else:
            self.queue.clear()
            if not self.sender.is_gone:
                due = back.arrival(self.wires.loop.now, 0)
                self.wires.loop.call_in_at(
                    self.sender.process,
                    due,
                    self.sender.lose,
                    ConnectionResetError(errno.ECONNRESET, "reset by peer"),
                )

    def take(self) -> bytes | End | None:
        """What is there now: bytes up to a random point, or the end; None if it is not yet time."""
        now, queue = self.wires.loop.now, self.queue
        if not queue or queue[0][0] > now:
            return None
        _, first = queue.popleft()
        if isinstance(first, End):
            return first
        if queue and queue[0][0] <= now and isinstance(queue[0][1], bytes):
            pieces, size = [first], len(first)
            while queue and queue[0][0] <= now and size < READ_BYTES_MAX and isinstance(queue[0][1], bytes):
                pieces.append(queue.popleft()[1])  # type: ignore[arg-type]
                size += len(pieces[-1])
            first = b"".join(pieces)
        chance = self.wires.chance
        if len(first) > 1 and chance.random() < self.wires.split_probability:
            at = 1 + int(chance.random() * (len(first) - 1))
            queue.appendleft((now + 0.001 * chance.random(), first[at:]))
            first = first[:at]
        return first

    def put_back(self, data: bytes) -> None:
        self.queue.appendleft((self.wires.loop.now, data))

    def lose_tail(self) -> None:
        """A reset overtakes some of what was sent."""
        keep = int(self.wires.chance.random() * (len(self.queue) + 1))
        while len(self.queue) > keep:
            _, lost = self.queue.pop()
            if isinstance(lost, bytes):
                self.unread -= len(lost)

    def retry(self, wait_s: float) -> None:
        """The way is free again."""
        if self._alarm is not None:
            return
        due = self.wires.loop.now + wait_s
        self.queue = deque((max(due, when), piece) for when, piece in self.queue)
        self._due = max(self._due, due)
        self.expect()

    def abandon(self) -> None:
        """Nobody is at its receiving end any more: the system there answers."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.expect()
