"""One response made of several parts, each of which is there at once or comes later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.waiting.pending_response import PendingResponse

T = TypeVar("T")
R = TypeVar("R")


class Gather(Generic[T, R]):
    """`add` each part, then return `response()`. `join` gets the parts in the order of their addition."""

    __slots__ = ("_join", "_open_count", "_parts", "_pending")

    def __init__(self, join: Callable[[list[T]], R]) -> None:
        self._join = join
        self._parts: list[T | PendingResponse] = []
        self._open_count = 0
        self._pending: PendingResponse | None = None

    def add(self, part: T | PendingResponse) -> None:
        self._parts.append(part)
        if type(part) is PendingResponse and not part.is_completed:
            self._open_count += 1
            part.on_completed = self._on_completed

    def response(self) -> R | PendingResponse:
        """The joined response, once all parts are added."""
        if not self._open_count:
            return self._joined()
        self._pending = PendingResponse()
        return self._pending

    def _on_completed(self) -> None:
        self._open_count -= 1
        if not self._open_count and self._pending is not None:
            response: R | None = None
            try:
                response = self._joined()
            finally:  # if that failed, the client must not wait: None closes its connection
                self._pending.complete(response)

    def _joined(self) -> R:
        parts: list[Any] = [part.response if type(part) is PendingResponse else part for part in self._parts]
        return self._join(parts)
