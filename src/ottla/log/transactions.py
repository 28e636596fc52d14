"""Transactions as one partition sees them: which are open, which have ended, and the `.txnindex` layout.

An offset is unstable while its transaction is open, or has ended with a marker that is not yet below the high
watermark. A read_committed consumer stops before the first unstable offset, so the rule here is: a
transaction is forgotten only when its marker is replicated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.ports import Buffer, Disk

_ENTRY = Struct(">hqqqq")
_LAST_OFFSET = Struct(">q")
_LAST_OFFSET_POSITION = 18
ENTRY_BYTES = _ENTRY.size
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """One entry of a `.txnindex`: readers drop the producer's records between these offsets."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker that ended it."""
    is_aborted: bool


class Marker(NamedTuple):
    """What the control record of a transaction marker says."""

    is_abort: bool
    coordinator_epoch: int
    timestamp: int


class OpenTransactions:
    """The transactions of a partition that still make offsets unstable."""

    __slots__ = ("first_unstable_offset", "ongoing", "unreplicated")

    def __init__(self) -> None:
        self.ongoing: dict[int, int] = {}
        """First offset -> producer id. Transactions begin at growing offsets, so the order is by offset."""
        self.unreplicated: dict[int, int] = {}
        """First offset -> offset of the marker, for ended transactions above the high watermark."""
        self.first_unstable_offset: int | None = None

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest transaction without a marker begins."""
        return next(iter(self.ongoing), None)

    def begin(self, producer_id: int, first_offset: int) -> None:
        self.ongoing[first_offset] = producer_id
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

    def restore(self, ongoing: dict[int, int]) -> None:
        """Replace all by these open transactions."""
        self.ongoing = dict(sorted(ongoing.items()))
        self.unreplicated = {}
        self._recompute()

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once this transaction has ended: what its index entry holds."""
        for first_offset, producer_id in self.ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """The marker is in the log; the transaction stays unstable until the marker is replicated."""
        del self.ongoing[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset
        self._recompute()

    def forget_below(self, offset: int) -> None:
        """Everything below `offset` is replicated."""
        if not self.unreplicated:
            return
        self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= offset}
        self._recompute()

    def keep_unreplicated(self, unreplicated: dict[int, int], end_offset: int) -> None:
        """After a restore: these have ended too, if their markers are below `end_offset`."""
        for first_offset, last_offset in unreplicated.items():
            if last_offset < end_offset:
                self.unreplicated[first_offset] = last_offset
        self._recompute()

    def clear(self) -> None:
        self.restore({})

    def _recompute(self) -> None:
        candidates = [min(self.unreplicated)] if self.unreplicated else []
        if self.ongoing:
            candidates.append(next(iter(self.ongoing)))
        self.first_unstable_offset = min(candidates, default=None)


def encode_aborted(entry: AbortedTransaction) -> bytes:
    return _ENTRY.pack(_VERSION, *entry)


def decode_aborted(data: Buffer) -> Iterator[AbortedTransaction]:
    """The entries of a `.txnindex` in order. An incomplete last entry is skipped."""
    whole = len(data) - len(data) % ENTRY_BYTES
    for _version, producer_id, first_offset, last_offset, stable in _ENTRY.iter_unpack(
        memoryview(data)[:whole]
    ):
        yield AbortedTransaction(producer_id, first_offset, last_offset, stable)


def aborted_problem(data: Buffer, base_offset: int) -> str | None:
    """Why a `.txnindex` cannot be right, or None. Entries follow each other by the offset of their marker.

    So do the last stable offsets that they left: none is beyond its marker, and none goes back.
    """
    if len(data) % ENTRY_BYTES:
        return f"its {len(data)} bytes are not a multiple of {ENTRY_BYTES}"
    previous, previous_stable = base_offset - 1, 0
    for version, _producer_id, first_offset, last_offset, stable_offset in _ENTRY.iter_unpack(data):
        if version != _VERSION:
            return f"an entry has the unsupported version {version}"
        if last_offset <= previous or not 0 <= first_offset <= last_offset:
            return f"the entry of offsets {first_offset} to {last_offset} does not follow offset {previous}"
        if not previous_stable <= stable_offset <= last_offset + 1:
            return f"the stable offset {stable_offset} is not between {previous_stable} and {last_offset + 1}"
        previous, previous_stable = last_offset, stable_offset
    return None


class AbortedIndex:
    """`.txnindex`: the aborted transactions whose markers are in the segment. Most have none, and no file."""

    __slots__ = ("_data", "_disk", "path")

    def __init__(self, disk: Disk, path: str, *, is_new: bool) -> None:
        self._disk = disk
        self.path = path
        self._data: bytearray | None = bytearray() if is_new else None

    @property
    def data(self) -> bytearray:
        if self._data is None:
            self._data = bytearray(self._disk.read(self.path) if self._disk.exists(self.path) else b"")
        return self._data

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    def entries(self) -> Iterator[AbortedTransaction]:
        return decode_aborted(bytes(self.data))

    def append(self, entry: AbortedTransaction) -> None:
        encoded = encode_aborted(entry)
        self._write(encoded, len(self.data))
        self.data.extend(encoded)

    def clear(self) -> None:
        """Remove all entries, valid or not."""
        if self.data:
            self._write(b"", 0)
            self._data = bytearray()

    def truncate_to(self, offset: int) -> None:
        """Keep the transactions whose markers are below `offset`."""
        kept = [entry for entry in self.entries() if entry.last_offset < offset]
        encoded = bytearray().join(map(encode_aborted, kept))
        if len(encoded) != len(self.data):
            self._write(encoded, 0)
            self._data = encoded

    def _write(self, encoded: Buffer, position: int) -> None:
        file = self._disk.open(self.path, create=True)
        try:
            file.pwrite([encoded], position)
            file.truncate(position + len(encoded))
        finally:
            file.close()

    def collect(self, first_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those that touch [first, upper), and whether later segments need not be looked at.

        Every read_committed fetch calls this, so a binary search skips the earlier entries: they are in the
        order of their markers, and those with a marker before `first` are irrelevant.
        """
        data = self.data
        count = len(data) // ENTRY_BYTES
        found: list[AbortedTransaction] = []
        for number in range(_first_from(data, count, first_offset), count):
            _version, *fields = _ENTRY.unpack_from(data, number * ENTRY_BYTES)
            entry = AbortedTransaction(*fields)
            if entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False


def _first_from(data: bytearray, count: int, offset: int) -> int:
    """The number of the first entry whose marker is at `offset` or later."""

    def marker_offset(number: int) -> int:
        return int(_LAST_OFFSET.unpack_from(data, number * ENTRY_BYTES + _LAST_OFFSET_POSITION)[0])

    return bisect_left(range(count), offset, key=marker_offset)
