"""Blocking work on a thread, awaited to its end.

A cancelled task stops waiting, but its thread continues to use files. The rule: code that gives files to a
thread waits until the thread is done with them, even if it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from ottla.detached import mark_retrieved
from ottla.ports import Disk

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


async def outlast(disk: Disk, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> _T:
    """Run blocking work off the loop and wait for its end, even if the waiting task is cancelled."""
    future = mark_retrieved(asyncio.ensure_future(disk.offload(work, *arguments)))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        raise
