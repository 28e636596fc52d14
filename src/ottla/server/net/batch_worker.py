"""Runs work on single large batches that would hold the event loop: decompress, validate, search.

It runs on another thread, on bytes that nothing else changes, one batch at a time, so that decompression uses
the memory of one batch, however many clients request it.

Rule: an error leaves the thread without its traceback, whose frames refer to the decompressed data.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar, TypeVarTuple

from ottla.log.offload import outlast
from ottla.ports import Disk
from ottla.wire.errors import KafkaError

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


class BatchWorker:
    """The queue of such work, first in, first out."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> _T:
        """Run `work` and return its result. A cancelled caller leaves the queue; work that has begun is
        finished.
        """
        async with self._turn:
            outcome: _Outcome[_T] = await outlast(self._disk, _Outcome, work, *arguments)
        return outcome.take()


class _Outcome(Generic[_T]):
    """The result or error of a piece of work; created on the worker thread."""

    __slots__ = ("_error", "_result")

    def __init__(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> None:
        self._error: Exception | None = None
        self._result: _T | None = None
        try:
            self._result = work(*arguments)
        except Exception as error:  # noqa: BLE001 - `take` raises it
            if not isinstance(error, KafkaError):
                error.add_note(traceback.format_exc())
            error.__traceback__ = error.__context__ = error.__cause__ = None
            self._error = error

    def take(self) -> _T:
        error, self._error = self._error, None
        if error is None:
            return self._result  # type: ignore[return-value]
        try:
            raise error
        finally:
            del error  # it refers to this frame
