"""The memory of requests that arrive or wait (`queued.max.request.bytes`).

A frame that does not arrive in one read has its own buffer, which grows as bytes arrive: a sender uses memory
for the bytes that it sent, not for those that it announced. Rules:
- Large frames use at most three quarters of the limit. The rest is for small ones, which therefore get in.
- One frame at a time may exceed the limit. It can be completed, whatever the others hold: none waits forever.
- While a frame waits for memory, one that arrives too slowly loses its connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

SMALL_FRAME_BYTES = 1 << 20
BUFFER_BYTES_MIN = 64 * 1024
SLOW_CHECK_S = 5.0
SLOW_BYTES_PER_S = 16 * 1024
SLOW_BYTES = SLOW_CHECK_S * SLOW_BYTES_PER_S
"""A frame that receives fewer bytes than this between two checks is slow."""


class Arriving(Protocol):
    """A connection with a frame that is incomplete, or waits to be served."""

    @property
    def received_bytes(self) -> int | None:
        """The bytes of the frame received so far; None if this node, not the sender, delays the rest."""

    def close(self, reason: str | None = None) -> None: ...


class RequestMemory:
    """The budget shared by the frames of all connections."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.most_bytes = 0  # since somebody set it back to 0
        self._large_limit_bytes = limit_bytes - limit_bytes // 4
        self._arriving: dict[Arriving, int | None] = {}  # with the bytes received at the last check
        self._waiting: dict[bool, deque[tuple[Arriving, int, Callable[[], None]]]] = {
            True: deque(),
            False: deque(),
        }  # by whether the frame is small
        self._exempt: Arriving | None = None  # may pass the limit
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    def take(self, owner: Arriving, frame_bytes: int, count: int, when_granted: Callable[[], None]) -> bool:
        """Take `count` bytes for the frame of `owner`, now or later; then `when_granted` is called."""
        self._arriving.setdefault(owner, None)
        is_small = frame_bytes <= SMALL_FRAME_BYTES
        if owner is self._exempt or (not self._waiting[is_small] and self._fits(count, is_small)):
            self._use(count)
            return True
        if self._exempt is None:
            self._exempt = owner
            self._use(count)
            return True
        self._waiting[is_small].append((owner, count, when_granted))
        self._watch()
        return False

    def take_now(self, count: int) -> None:
        """Take a little, even over the limit: for bytes that are already in memory."""
        self.used_bytes += count

    def withdraw(self, owner: Arriving) -> None:
        """`owner` is closed and wants no more memory.

        Call this before returning any of its bytes: otherwise it might be granted bytes that nothing would
        return.
        """
        for is_small, waiting in self._waiting.items():
            if waiting:
                self._waiting[is_small] = deque(entry for entry in waiting if entry[0] is not owner)

    def completed(self, owner: Arriving) -> None:
        """The frame of `owner` was served, or never will be. Its bytes have been returned."""
        self._arriving.pop(owner, None)
        self.withdraw(owner)
        if owner is self._exempt:
            self._exempt = None
        if self._waiting[True] or self._waiting[False]:
            self._grant()  # the one behind it may fit

    def give_back(self, count: int) -> None:
        self.used_bytes -= count
        if self._waiting[True] or self._waiting[False]:
            self._grant()

    def _use(self, count: int) -> None:
        self.used_bytes += count
        if self.used_bytes > self.most_bytes:
            self.most_bytes = self.used_bytes

    def _fits(self, count: int, is_small: bool) -> bool:
        limit_bytes = self.limit_bytes if is_small else self._large_limit_bytes
        return self.used_bytes + count <= limit_bytes

    def _grant(self) -> None:
        """Grant memory to waiting frames in order; one over the limit if no other frame has exceeded it."""
        for is_small in (True, False):
            waiting = self._waiting[is_small]
            while waiting and (self._exempt is None or self._fits(waiting[0][1], is_small)):
                owner, count, when_granted = waiting.popleft()
                if not self._fits(count, is_small):
                    self._exempt = owner
                self._use(count)
                when_granted()

    # Frames that arrive too slowly

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SLOW_CHECK_S, self._check)

    def _check(self) -> None:
        self._timer = None
        if not (self._waiting[True] or self._waiting[False]):
            for owner in self._arriving:
                self._arriving[owner] = None
            return
        slow: list[Arriving] = []
        for owner, before in self._arriving.items():
            received = owner.received_bytes
            if received is not None and before is not None and received - before < SLOW_BYTES:
                slow.append(owner)
            self._arriving[owner] = received
        for owner in slow:
            owner.close(
                f"its request arrived at less than {SLOW_BYTES_PER_S} bytes per second while others "
                "waited for memory"
            )
        self._watch()
