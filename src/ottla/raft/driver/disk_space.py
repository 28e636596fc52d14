"""Room on the disk for the metadata log. A full disk is no failure: writes take blocks of the reserve.

Once the reserve is used up, the log rejects changes, and the write that found no space is retried.
"""

from __future__ import annotations

import asyncio
import logging

from ottla.raft.disk_reserve import Reserve

logger = logging.getLogger("ottla.raft.driver")

RETRY_SECONDS = 0.5
"""After how long a write that failed on a full disk is retried."""


class DiskSpace:
    def __init__(self, reserve: Reserve) -> None:
        self.reserve = reserve
        self.is_lacking = False  # the last write failed for lack of space, and is retried

    @property
    def is_full(self) -> bool:
        """Whether the log uses its reserve or waits for space: write only what is necessary."""
        return self.is_lacking or not self.reserve.is_whole

    async def wait(self, error: Exception) -> None:
        """Wait before the retry of a write that failed with this error."""
        if not self.is_lacking:
            self.is_lacking = True
            logger.error("Cannot write the metadata log, retrying: %s", error)
        await asyncio.sleep(RETRY_SECONDS)
