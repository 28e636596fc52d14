"""The memory of responses until their clients have read them (limited by `queued.max.request.bytes`).

It counts only responses that a small request may make large: those of APIs with `Api.amplifies`. Rules:
- Such a request is handled alone on its connection (`LoneRequest`): after all requests before it, before all
  behind it. So a connection has one such response at a time.
- A response that the peer accepts at once, or that is small, is sent whatever others hold. If there is no
  room for another one, it is dropped, and its request handled again once there is room: an API that amplifies
  is read-only.
- While a response waits for room, a connection that reads its own too slowly is closed. None waits forever:
  room goes to the hosts of the waiting clients in turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

SMALL_ANSWER_BYTES = 32 * 1024
SLOW_CHECK_S = 5.0
SLOW_BYTES_PER_S = 16 * 1024
SLOW_BYTES = SLOW_CHECK_S * SLOW_BYTES_PER_S


class Debtor(Protocol):
    """A connection with an unread large response."""

    peer_host: str

    @property
    def unsent_bytes(self) -> int: ...

    def room_granted(self) -> None: ...

    def close(self, reason: str | None = None) -> None: ...


class LoneRequest:
    """A request that is handled alone on its connection, until its response is sent."""

    __slots__ = ("frame", "has_room", "is_answered", "is_to_repeat")

    def __init__(self, frame: memoryview) -> None:
        self.frame = frame
        self.has_room = False  # granted after an answer was dropped
        self.is_to_repeat = False
        self.is_answered = False  # not all of it has left


class ResponseMemory:
    """The budget shared by the large responses of all connections."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.most_bytes = 0  # since somebody set it back to 0
        self._owed: dict[Debtor, int] = {}
        self._unsent: dict[Debtor, int] = {}  # at the last check
        self._waiting: dict[str, deque[tuple[Debtor, int]]] = {}  # by host; the next one is first
        self._timer: asyncio.TimerHandle | None = None

    def take(self, debtor: Debtor, count: int) -> bool:
        """Take `count` bytes for a response; or have `room_granted` called once they are free and taken.

        One response may exceed the limit, so that one of any size can be sent.
        """
        if not self._waiting and self.used_bytes < self.limit_bytes:
            self._use(debtor, count)
            return True
        self._waiting.setdefault(debtor.peer_host, deque()).append((debtor, count))
        if self._timer is None:
            self._unsent = {owing: owing.unsent_bytes for owing in self._owed}
            self._watch()
        return False

    def give_back(self, debtor: Debtor) -> None:
        """Return the bytes of `debtor`'s response, which was sent or never will be."""
        self.used_bytes -= self._owed.pop(debtor, 0)
        self._unsent.pop(debtor, None)
        while self._waiting and self.used_bytes < self.limit_bytes:
            host = next(iter(self._waiting))
            of_host = self._waiting.pop(host)
            waiting, count = of_host.popleft()
            if of_host:
                self._waiting[host] = of_host
            self._use(waiting, count)
            waiting.room_granted()

    def withdraw(self, debtor: Debtor) -> None:
        """`debtor` is closed: it neither holds nor wants memory."""
        if (of_host := self._waiting.pop(debtor.peer_host, None)) is not None:
            others = deque(entry for entry in of_host if entry[0] is not debtor)
            if others:
                self._waiting[debtor.peer_host] = others
        self.give_back(debtor)

    def _use(self, debtor: Debtor, count: int) -> None:
        self._owed[debtor] = count
        self.used_bytes += count
        if self.used_bytes > self.most_bytes:
            self.most_bytes = self.used_bytes

    def _watch(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(SLOW_CHECK_S, self._check)

    def _check(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        slow: list[Debtor] = []
        before, self._unsent = self._unsent, {}
        for debtor in self._owed:
            self._unsent[debtor] = unsent = debtor.unsent_bytes
            if unsent and debtor in before and 0 < before[debtor] < unsent + SLOW_BYTES:
                slow.append(debtor)
        for debtor in slow:
            debtor.close(
                f"it read a response at less than {SLOW_BYTES_PER_S} bytes per second while others waited "
                "for memory"
            )
        self._watch()
