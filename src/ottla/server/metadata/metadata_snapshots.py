"""Snapshots of the committed metadata, which keep the log short: by bytes, or by time."""

from __future__ import annotations

import asyncio
import logging

from ottla.config import BrokerConfig
from ottla.controller.image import ClusterImage
from ottla.controller.records import encode_record
from ottla.ports import Clock
from ottla.raft.driver import Driver
from ottla.raft.snapshots import SnapshotId
from ottla.rare_paths import rarely
from ottla.wire.message import Message

logger = logging.getLogger("ottla.server.metadata.metadata_snapshots")


class MetadataSnapshots:
    """Writes a snapshot of an image when one is due; one at a time."""

    def __init__(self, driver: Driver[Message], clock: Clock, config: BrokerConfig) -> None:
        self._driver = driver
        self._clock = clock
        self._bytes_max = config.int_of("metadata.log.max.record.bytes.between.snapshots")
        interval_ms = config.int_of("metadata.log.max.snapshot.interval.ms")
        self._interval_s = interval_ms / 1000 if interval_ms else float("inf")
        self._bytes_since = 0
        self._due_at = clock.monotonic() + self._interval_s
        self._task: asyncio.Task[None] | None = None

    def committed(self, image: ClusterImage, size_bytes: int) -> None:
        """The image has replayed this many more bytes of the log."""
        self._bytes_since += size_bytes
        is_large = self._bytes_since >= self._bytes_max
        is_large = is_large or rarely("a snapshot is written at once")
        if not is_large and self._clock.monotonic() < self._due_at:
            return
        if image.is_in_transaction or not image.metadata_version:
            return
        if self._task is None or self._task.done():
            self._bytes_since = 0
            self._due_at = self._clock.monotonic() + self._interval_s
            self._task = asyncio.create_task(self.write(image.copy()))

    async def write(self, image: ClusterImage) -> None:
        """Write a snapshot of an immutable image."""
        level = image.metadata_version
        values = (encode_record(record, level) for record in image.to_records())
        try:
            await self._driver.write_snapshot(
                SnapshotId(image.offset + 1, image.epoch), values, image.timestamp_ms
            )
        except OSError as error:
            logger.error("Failed to write the metadata snapshot at offset %d: %s", image.offset + 1, error)

    async def finish(self) -> None:
        """Wait for the snapshot in progress."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
