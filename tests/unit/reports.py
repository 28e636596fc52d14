"""The reports of asyncio about a story, such as unretrieved failures of tasks."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any


def reported(story: Coroutine[Any, Any, None]) -> list[dict[str, Any]]:
    """Run a story; return the reports until all its objects are collected."""
    reports: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: reports.append(context))
        async with asyncio.timeout(60):
            await asyncio.ensure_future(story)  # a separate task, so that no reference remains here
        gc.collect()

    asyncio.run(main())
    gc.collect()
    return reports
