"""Where each leader epoch begins in a log, and the text of `leader-epoch-checkpoint`.

The rule: epochs and start offsets both ascend. A new entry removes the later ones that contradict it, since
the newest leader is right.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ottla.ports import Disk

CHECKPOINT_NAME = "leader-epoch-checkpoint"
_EPOCH_MAX = 2**31 - 1
_OFFSET_MAX = 2**63 - 1
UNDEFINED = (-1, -1)
"""Epoch and end offset where nothing is known."""


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochCache:
    """The epochs of one log in order."""

    __slots__ = ("entries", "is_changed", "latest_epoch")

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries: list[EpochEntry] = []
        self.latest_epoch = -1
        self.is_changed = False
        """Whether the checkpoint file lacks a change."""
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def earliest(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    @property
    def previous_epoch(self) -> int:
        """The epoch before the latest one, -1 if there is none."""
        return self.entries[-2].epoch if len(self.entries) > 1 else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Epoch `epoch` begins at `start_offset`. The same epoch again, not earlier, changes nothing."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} from offset {start_offset}: both must be non-negative")
        entries = self.entries
        if entries:
            last = entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return
            while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
                entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest_epoch = epoch
        self.is_changed = True

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that begin at or after `end_offset`."""
        entries = self.entries
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
            self.is_changed = True
        self.latest_epoch = entries[-1].epoch if entries else -1

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove what lies before `start_offset`; the epoch that covers it now begins there."""
        entries = self.entries
        covering = bisect_right(entries, start_offset, key=lambda entry: entry.start_offset) - 1
        if covering < 0:
            return
        first = EpochEntry(entries[covering].epoch, start_offset)
        if covering == 0 and entries[0] == first:
            return
        entries[: covering + 1] = [first]
        self.is_changed = True

    def clear(self) -> None:
        self.entries.clear()
        self.latest_epoch = -1
        self.is_changed = True

    def copy_from(self, other: EpochCache) -> None:
        """Have the entries of another cache."""
        if self.entries != other.entries:
            self.entries[:] = other.entries
            self.latest_epoch = other.latest_epoch
            self.is_changed = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch up to `epoch`, and where it ends: for a replica that knows up to `epoch`."""
        if epoch < 0:
            return UNDEFINED
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        entries = self.entries
        higher = bisect_right(entries, epoch, key=lambda entry: entry.epoch)
        if higher == len(entries):
            return UNDEFINED
        if higher == 0:
            # Older epochs are not known, so the follower can only continue where the first known one starts.
            return epoch, entries[0].start_offset
        return entries[higher - 1].epoch, entries[higher].start_offset

    def to_text(self) -> str:
        lines = ["0", str(len(self.entries))]
        lines.extend(f"{entry.epoch} {entry.start_offset}" for entry in self.entries)
        return "\n".join(lines) + "\n"

    @classmethod
    def from_text(cls, text: str) -> EpochCache:
        """Read a checkpoint; ValueError says what is wrong with it."""
        lines = text.split("\n")
        if lines.pop():
            raise ValueError("its last line is incomplete")
        if len(lines) < 2:
            raise ValueError("the number of entries is missing")
        if lines[0].strip() != "0":
            raise ValueError(f"its version is {lines[0][:40]!r}, not 0")
        count = _number(lines[1].strip(), _EPOCH_MAX)
        entries = []
        for line in lines[2:]:
            words = line.split()
            if len(words) != 2:
                raise ValueError(f"line {line[:40]!r} is not an epoch and an offset")
            entries.append(EpochEntry(_number(words[0], _EPOCH_MAX), _number(words[1], _OFFSET_MAX)))
        if count != len(entries):
            raise ValueError(f"it declares {count} entries but contains {len(entries)}")
        cache = cls(entries)
        cache.is_changed = False
        return cache


def write_checkpoint(disk: Disk, directory: str, epochs: EpochCache, *, sync: bool = False) -> str:
    """Write the checkpoint of a log; its path."""
    path = f"{directory}/{CHECKPOINT_NAME}"
    disk.replace(path, epochs.to_text().encode(), sync=sync)
    epochs.is_changed = False
    return path


def _number(text: str, highest: int) -> int:
    # No digits but ASCII ones, and a bound on their count: int() would take far more than Kafka does.
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= highest):
        raise ValueError(f"{text[:40]!r} is not a number from 0 to {highest}")
    return int(text)
