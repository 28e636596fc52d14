"""Links between simulated hosts, and the byte streams that connections send over them.

A stream keeps its bytes in order and without gaps, whatever happens; different streams are independent. Reads
end at any byte, since the stream joins and splits writes randomly.
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


class Link:
    """One direction between two hosts. Its fields may change at any time; `cut` and `heal` block and unblock
    it."""

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

    def __init__(self, rng: random.Random, delay_s: float, jitter_s: float) -> None:
        self._chance = rng.random
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
        """The arrival time of bytes that leave now."""
        delay = self.delay_s + self.jitter_s * self._chance()
        if self.spike_probability and self._chance() < self.spike_probability:
            delay += self.spike_s * self._chance()
        if self.bytes_per_second is not None:
            self.free_at = max(self.free_at, now) + count / self.bytes_per_second
            return self.free_at + delay
        return now + delay


class StreamEnd:
    """The end of a stream, after its bytes: an end of file, or a reset."""

    __slots__ = ("is_reset",)

    def __init__(self, is_reset: bool) -> None:
        self.is_reset = is_reset


class Stream:
    """The bytes of one connection in one direction."""

    __slots__ = (
        "_alarm",
        "_due",
        "_is_ended",
        "link",
        "number",
        "queue",
        "receiver",
        "sender",
        "unread",
        "wires",
    )

    def __init__(self, wires: Wires, number: int, link: Link) -> None:
        self.wires = wires
        self.number = number
        self.link = link
        self.sender: SimulatedTransport = cast("SimulatedTransport", None)
        self.receiver: SimulatedTransport = cast("SimulatedTransport", None)
        self.queue: deque[tuple[float, bytes | StreamEnd]] = deque()
        self.unread = 0
        self._due = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._is_ended = False

    def send(self, data: bytes) -> None:
        loop = self.wires.loop
        due = self.link.arrival(loop.now, len(data))
        if due < self._due:
            due = self._due  # never before earlier bytes
        self._due = due
        self.queue.append((due, data))
        self.unread += len(data)
        self.expect()

    def finish(self, *, is_reset: bool) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._due = max(self.link.arrival(self.wires.loop.now, 0), self._due)
            self.queue.append((self._due, StreamEnd(is_reset)))
            self.expect()

    def expect(self) -> None:
        """Schedule the receiver for the arrival of the next bytes."""
        if self._alarm is None and self.queue:
            receiver = self.receiver
            if receiver.is_gone:
                # The operating system answers in place of a dead process.
                root = self.wires.loop.root
                self._alarm = self.wires.loop.call_in_at(root, self.queue[0][0], self._bounce)
            else:
                self._alarm = self.wires.loop.call_in_at(receiver.process, self.queue[0][0], self._arrive)

    def _arrive(self) -> None:
        self._alarm = None
        if self.receiver.is_gone:
            self.expect()
        elif self.link.is_cut:
            self.link.held[self] = None
        else:
            self.receiver.receive()

    def _bounce(self) -> None:
        """Bytes reach a host without a receiver: it answers with a reset, if it has power."""
        self._alarm = None
        back = self.receiver.outgoing.link
        if self.link.is_cut or back.is_cut:
            (self.link if self.link.is_cut else back).held[self] = None
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

    def take(self) -> bytes | StreamEnd | None:
        """The available bytes, up to a random point, or the end; None if nothing has arrived yet."""
        now, queue = self.wires.loop.now, self.queue
        if not queue or queue[0][0] > now:
            return None
        _, first = queue.popleft()
        if isinstance(first, StreamEnd):
            return first
        if queue and queue[0][0] <= now and isinstance(queue[0][1], bytes):
            pieces, size = [first], len(first)
            while queue and queue[0][0] <= now and size < READ_BYTES_MAX and isinstance(queue[0][1], bytes):
                pieces.append(queue.popleft()[1])  # type: ignore[arg-type]
                size += len(pieces[-1])
            first = b"".join(pieces)
        rng = self.wires.rng
        if len(first) > 1 and rng.random() < self.wires.split_probability:
            at = 1 + int(rng.random() * (len(first) - 1))
            queue.appendleft((now + 0.001 * rng.random(), first[at:]))
            first = first[:at]
        return first

    def put_back(self, data: bytes) -> None:
        self.queue.appendleft((self.wires.loop.now, data))

    def lose_tail(self) -> None:
        """Drop some of the sent bytes: a reset overtakes them."""
        keep = int(self.wires.rng.random() * (len(self.queue) + 1))
        while len(self.queue) > keep:
            _, lost = self.queue.pop()
            if isinstance(lost, bytes):
                self.unread -= len(lost)

    def retry(self, wait_s: float) -> None:
        """Resume after the link healed."""
        if self._alarm is not None:
            return
        due = self.wires.loop.now + wait_s
        self.queue = deque((max(due, when), piece) for when, piece in self.queue)
        self._due = max(self._due, due)
        self.expect()

    def abandon(self) -> None:
        """The receiver is dead: its system answers from now on."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.expect()
