"""Values of control records by offset, such as the voters.

A snapshot contains the voters at its own offset, which may have changed since. A truncated record takes its
value with it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

_T = TypeVar("_T")


class LogHistory(Generic[_T]):
    """Values in the order of their offsets, after an initial value."""

    def __init__(self, initial: _T) -> None:
        self._initial = initial
        self._offsets: list[int] = []
        self._values: list[_T] = []

    @property
    def last(self) -> _T:
        return self._values[-1] if self._values else self._initial

    @property
    def last_offset(self) -> int | None:
        """The offset of the last value; None if only the initial one is known."""
        return self._offsets[-1] if self._offsets else None

    def at(self, offset: int) -> _T:
        """The value after the record at `offset`."""
        index = bisect_right(self._offsets, offset)
        return self._values[index - 1] if index else self._initial

    def add(self, offset: int, value: _T) -> None:
        if self._offsets and offset < self._offsets[-1]:
            raise ValueError(f"Offset {offset} is below the last offset, {self._offsets[-1]}.")
        if self._offsets and offset == self._offsets[-1]:
            self._values[-1] = value
        else:
            self._offsets.append(offset)
            self._values.append(value)

    def clear(self) -> None:
        self._offsets.clear()
        self._values.clear()

    def truncate_to(self, end_offset: int) -> None:
        """Remove the values at `end_offset` and after it."""
        index = bisect_left(self._offsets, end_offset)
        del self._offsets[index:], self._values[index:]

    def forget_before(self, start_offset: int) -> None:
        """Remove the values that `start_offset` and later offsets do not need."""
        index = bisect_right(self._offsets, start_offset) - 1
        if index > 0:
            del self._offsets[:index], self._values[:index]
