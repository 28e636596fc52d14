"""Work of single requests that would hold the event loop: decompressing and checking large batches.

It runs on another thread, on bytes that nobody else changes, and one piece at a time: so what a node
decompresses for its clients takes the memory of one batch, however many clients ask for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.log.offload import outlast
from ottla.ports import Disk

_T = TypeVar("_T")


class LongWork:
    """The queue of such work, first come, first served."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[..., _T], *arguments: Any) -> _T:
        """What `work` returns. Who is cancelled leaves the queue; work that has begun is finished."""
        async with self._turn:
            return await outlast(self._disk, work, *arguments)
