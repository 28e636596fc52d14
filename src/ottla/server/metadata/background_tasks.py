"""The background tasks of the quorum: those that run all the time, and periodic ones.

A periodic task that fails runs again when it is due: a disk error may be temporary, and a controller that
does not lead has nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ottla.failures import Failures
from ottla.wire.errors import KafkaStorageError, NotController

logger = logging.getLogger("ottla.server.metadata.background_tasks")


class BackgroundTasks:
    """Starts tasks, and stops all of them."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def every(self, seconds: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` periodically, the first time after one period."""
        self.start(self._repeat(seconds, name, work))

    async def _repeat(self, seconds: float, name: str, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except (KafkaStorageError, NotController) as error:
                logger.debug("Skipped the %s: %s", name, error)
            except OSError as error:
                logger.error("The %s failed, will retry: %s", name, error)
            except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                self._failures.note(name, "", error)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
