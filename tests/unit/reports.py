"""What asyncio reports of a story: failures of tasks that nobody asked for, among others."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any


def reported(story: Coroutine[Any, Any, None]) -> list[dict[str, Any]]:
    """Run a story, and return what was reported until all that it left behind was collected."""
    reports: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: reports.append(context))
        async with asyncio.timeout(60):
            await asyncio.ensure_future(story)  # a task of its own, so that nothing of it is left here
        gc.collect()

    asyncio.run(main())
    gc.collect()
    return reports
