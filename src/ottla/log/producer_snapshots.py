"""The `.snapshot` files of a log: the state of its producers at some offsets.

A snapshot only saves scanning. A missing or damaged one is skipped, and the state is rebuilt from an older
one and the log. So a snapshot may be written without a sync, as long as the recovery point moves past its
offset only after it was synced.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Collection

from ottla.log.producer_state import ProducerStates, decode_snapshot, encode_snapshot
from ottla.log.segment import DELETED, file_name
from ottla.ports import Disk

logger = logging.getLogger("ottla.log.producer_snapshots")

SNAPSHOT_SUFFIX = ".snapshot"


class Snapshots:
    """The snapshot files in one log's directory, by offset."""

    __slots__ = ("_disk", "directory", "offsets", "unsynced")

    def __init__(self, disk: Disk, directory: str, offsets: Collection[int]) -> None:
        self._disk = disk
        self.directory = directory
        self.offsets = sorted(offsets)
        self.unsynced: list[int] = []
        """The offsets of those that no flush has covered yet."""

    @property
    def latest_offset(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def path_of(self, offset: int) -> str:
        return f"{self.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}"

    def take(self, states: ProducerStates) -> None:
        """Write a snapshot of `states`, unless there is one of the same or a later offset."""
        offset = states.end_offset
        if self.offsets and offset <= self.offsets[-1]:
            return
        self._disk.replace(self.path_of(offset), encode_snapshot(states.entries.values()), sync=False)
        insort(self.offsets, offset)
        self.unsynced.append(offset)

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self._disk.remove(self.path_of(offset))
            self.offsets.remove(offset)

    def mark_deleted(self, offset: int) -> str | None:
        """Rename one for deletion; the path to delete later, None if there was none."""
        if offset not in self.offsets:
            return None
        path = self.path_of(offset)
        is_there = self._disk.exists(path)
        if is_there:
            self._disk.rename(path, path + DELETED)
        self.offsets.remove(offset)
        return path + DELETED if is_there else None

    def remove_strays(self, base_offsets: Collection[int]) -> None:
        """Keep those at the start of a segment, and the latest one if it is beyond them all."""
        bases = set(base_offsets)
        strays = [offset for offset in self.offsets if offset not in bases]
        if strays and (not bases or strays[-1] >= max(bases)):
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def remove_outside(self, first_offset: int, end_offset: int) -> None:
        """Keep those in [first, end]."""
        for offset in [offset for offset in self.offsets if not first_offset <= offset <= end_offset]:
            self.remove(offset)

    def restore(self, states: ProducerStates, first_offset: int, end_offset: int, now_ms: int) -> None:
        """Set `states` to the newest valid snapshot in [first, end], or to no producers at the first offset.

        Snapshots outside that range are removed: the log does not contain their offsets.
        """
        self.remove_outside(first_offset, end_offset)
        while self.offsets:
            offset = self.offsets[-1]
            path = self.path_of(offset)
            try:
                entries = decode_snapshot(self._disk.read(path))
            except (ValueError, FileNotFoundError) as error:
                logger.warning("snapshot %s is not valid (%s); rebuilding from an older one", path, error)
                self.remove(offset)
                continue
            states.restore(entries, offset, now_ms)
            return
        states.restore((), first_offset, now_ms)
