"""Work off the event loop that must not be left behind.

A task that is cancelled stops waiting, but its thread goes on using files. The rule: whoever hands files to a
thread waits until the thread is done with them, cancelled or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.detached import mark_retrieved
from ottla.ports import Disk

_T = TypeVar("_T")


async def outlast(disk: Disk, work: Callable[..., _T], *arguments: Any) -> _T:
    """Run blocking work off the loop and wait for its end, even if the waiting task is cancelled."""
    future = mark_retrieved(asyncio.ensure_future(disk.offload(work, *arguments)))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
