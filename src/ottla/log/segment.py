"""One segment of a log: its `.log` file with the `.index`, `.timeindex` and `.txnindex` beside it.

The rule: `size_bytes` counts complete batches only. Bytes beyond it (a write that failed halfway,
preallocated space) are not part of the segment, and are truncated before the segment becomes inactive.
"""

from __future__ import annotations

import errno
import weakref
from collections.abc import Iterator
from struct import Struct

from ottla.log.config import LogConfig
from ottla.log.index import RELATIVE_OFFSET_MAX, OffsetIndex, TimeIndex
from ottla.log.open_files import OpenFiles
from ottla.log.transactions import AbortedIndex
from ottla.ports import Buffer, Disk, File
from ottla.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, iterate_headers, read_header
from ottla.wire.errors import CorruptMessage

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
ABORTED_INDEX_SUFFIX = ".txnindex"
CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
DROPPED = ".dropped"
COMPACTED_MARK = "compacted"
"""An empty file in the directory of a log that was compacted here: it may have gaps between its segments."""

_WINDOW_BYTES = 8192
_CHUNK_BYTES = 1024 * 1024
_LENGTH_MIN = 14
# Of a v2 header: base offset, length, magic, last offset delta, max timestamp.
_WALK = Struct(">qi4xb6xi8xq")


class LogDamaged(OSError):
    """Bytes on disk that cannot be what was written. Nothing was truncated, and the log cannot be served."""

    def __init__(self, path: str, position: int, offset: int, cause: str) -> None:
        super().__init__(
            errno.EIO,
            f"The log is damaged at byte {position}, offset {offset}: {cause} Restore the file from a copy "
            "or a replica, or move its directory away, which loses its records",
            path,
        )
        self.path = path
        self.position = position
        self.offset = offset
        self.cause = cause


def file_name(base_offset: int, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    """Batches from `base_offset` on. Only the event loop changes a segment; threads may read it."""

    __slots__ = (
        "_bytes_since_entry",
        "_disk",
        "_file",
        "_first_timestamp",
        "_interval_bytes",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "_parked",
        "aborted_index",
        "base_offset",
        "created_ms",
        "directory",
        "is_complete",
        "is_torn",
        "is_unsynced",
        "jitter_ms",
        "offset_index",
        "open_files",
        "size_bytes",
        "suffix",
        "time_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        size_bytes: int,
        index_bytes: int,
        time_index_bytes: int,
        is_new: bool,
        created_ms: int,
        suffix: str,
        jitter_ms: int,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.is_torn = False
        """Whether the file may hold bytes beyond `size_bytes`."""
        self.is_unsynced = False
        """Whether no flush has ended since it was rolled."""
        self.is_complete = not is_new
        """Whether the index files are complete: since the segment was opened or became inactive."""
        self.open_files: OpenFiles | None = None
        """Tracks the open files of inactive segments of the node; None while this one is active."""
        self._file: File | None = None
        self._parked: weakref.ref[File] | None = None
        self._interval_bytes = config.index_interval_bytes
        self._bytes_since_entry = 0
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None if size_bytes else -1
        self._offset_of_max_timestamp = base_offset
        index_bytes_max = config.segment_index_bytes
        self.offset_index = OffsetIndex(
            disk, self.path_of(INDEX_SUFFIX), base_offset, index_bytes_max, index_bytes
        )
        self.time_index = TimeIndex(
            disk, self.path_of(TIME_INDEX_SUFFIX), base_offset, index_bytes_max, time_index_bytes
        )
        self.aborted_index = AbortedIndex(disk, self.path_of(ABORTED_INDEX_SUFFIX), is_new=is_new)

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        suffix: str = "",
        jitter_ms: int = 0,
    ) -> Segment:
        """A new, empty segment. Files of the same name are removed.

        Index files are written when it becomes inactive: after a stop before that they are rebuilt anyway.
        """
        segment = cls(
            disk,
            directory,
            base_offset,
            config,
            size_bytes=0,
            index_bytes=0,
            time_index_bytes=0,
            is_new=True,
            created_ms=now_ms,
            suffix=suffix,
            jitter_ms=jitter_ms,
        )
        for path in segment.paths:
            disk.remove(path)
        try:
            segment._file = disk.open(segment.path, create=True)
            if config.preallocate:
                segment.is_torn = True
                segment._file.truncate(config.segment_bytes)
        except OSError:
            segment.close_handles()
            for path in segment.paths:
                disk.remove(path)
            raise
        return segment

    @classmethod
    def open_existing(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str = "",
        jitter_ms: int = 0,
    ) -> Segment:
        """A segment that is on disk. Nothing of it is read yet; missing index files count as empty."""

        def size_of(kind: str) -> int:
            path = f"{directory}/{file_name(base_offset, kind)}{suffix}"
            return disk.size(path) if disk.exists(path) else 0

        path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}{suffix}"
        return cls(
            disk,
            directory,
            base_offset,
            config,
            size_bytes=disk.size(path),
            index_bytes=size_of(INDEX_SUFFIX),
            time_index_bytes=size_of(TIME_INDEX_SUFFIX),
            is_new=False,
            created_ms=disk.modified_ms(path),
            suffix=suffix,
            jitter_ms=jitter_ms,
        )

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size_bytes={self.size_bytes})"

    # ---- files

    def path_of(self, kind: str) -> str:
        return f"{self.directory}/{file_name(self.base_offset, kind)}{self.suffix}"

    @property
    def path(self) -> str:
        return self.path_of(LOG_SUFFIX)

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """Its files; the last one may not exist."""
        return self.path, self.offset_index.path, self.time_index.path, self.aborted_index.path

    @property
    def file(self) -> File:
        """The `.log` file, opened when first needed."""
        if self._file is None:
            file = self._parked_file()
            if file is None:
                file = self._disk.open(self.path)
            else:
                file.size()  # opens it again
            self._file, self._parked = file, None
            if self.open_files is not None:
                self.open_files.use(self)
        return self._file

    @property
    def is_open(self) -> bool:
        """Whether it has the `.log` file open."""
        return self._file is not None

    def _parked_file(self) -> File | None:
        """The parked file, if a response that is not sent yet still refers to it."""
        return self._parked() if self._parked is not None else None

    def touch(self) -> None:
        """It was read: its files stay open longer than those of other segments."""
        if self.open_files is not None and self._file is not None:
            self.open_files.use(self)

    def stay_open(self) -> None:
        """It is the active segment again."""
        if self.open_files is not None:
            self.open_files.forget(self)
            self.open_files = None

    def park(self) -> bool:
        """Release descriptors and mappings until the next use; False: another thread is using them.

        A response that refers to the file opens it again. Until then the segment keeps its path up to date,
        and closes it together with its own: another file may have the old path by then.
        """
        if self._file is not None:
            if not self._file.park():
                return False
            self._parked = weakref.ref(self._file)
            self._file = None
        self.offset_index.release()
        self.time_index.release()
        return True

    @property
    def modified_ms(self) -> int:
        return self._disk.modified_ms(self.path)

    def rename(self, *, directory: str | None = None, suffix: str | None = None) -> None:
        """Rename its files to another suffix, or only change their paths after a rename of the directory."""
        before = self.paths
        if directory is not None:
            self.directory = directory
        if suffix is not None:
            self.suffix = suffix
        self.offset_index.path = self.path_of(INDEX_SUFFIX)
        self.time_index.path = self.path_of(TIME_INDEX_SUFFIX)
        self.aborted_index.path = self.path_of(ABORTED_INDEX_SUFFIX)
        if suffix is not None:
            for old, new in zip(before, self.paths, strict=True):
                if self._disk.exists(old):
                    self._disk.rename(old, new)
        for file in (self._file, self._parked_file()):
            if file is not None:
                file.path = self.path

    def close_handles(self) -> None:
        """Release descriptors and mappings; the files stay as they are."""
        for file in (self._file, self._parked_file()):
            if file is not None:
                file.close()
        self._file = self._parked = None
        if self.open_files is not None:
            self.open_files.forget(self)
        self.offset_index.close()
        self.time_index.close()

    def close(self) -> None:
        """Complete the files and release them."""
        self.become_inactive()
        self.close_handles()

    def remove(self) -> None:
        """Delete its files."""
        self.close_handles()
        for path in self.paths:
            self._disk.remove(path)

    def sync(self) -> None:
        """Block until all of it is on stable storage."""
        self.file.fsync()
        self.sync_indexes()

    def sync_indexes(self) -> None:
        """Block until the index files are on stable storage."""
        for path in (self.offset_index.path, self.time_index.path, self.aborted_index.path):
            if self._disk.exists(path):
                file = self._disk.open(path)
                try:
                    file.fsync()
                finally:
                    file.close()

    # ---- timestamps

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp in the segment, -1 if there is none. After a load the time index knows it."""
        if self._max_timestamp is None:
            return self._load_max_timestamp()
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch that has it."""
        if self._max_timestamp is None:
            self._load_max_timestamp()
        return self._offset_of_max_timestamp

    def _load_max_timestamp(self) -> int:
        """Read it from the last entry of the time index, if the batch that the entry names has that
        timestamp."""
        timestamp, offset = self.time_index.last()
        is_sound = timestamp < 0 and self.first_batch_timestamp is None
        if timestamp >= 0 and not self.time_index.problem():
            position = self.position_of(offset)
            is_sound = position is not None and self.header_at(position).max_timestamp == timestamp
        if is_sound:
            self._max_timestamp, self._offset_of_max_timestamp = timestamp, offset
            return timestamp
        self.rebuild_indexes()
        return -1 if self._max_timestamp is None else self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The timestamp for retention: the largest one, else the file's time of modification."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def first_batch_timestamp(self) -> int | None:
        """The largest timestamp of the first batch, for rolling by time. None if there is none."""
        if self._first_timestamp is None and self.size_bytes:
            self._first_timestamp = next(self.headers())[1].max_timestamp
        first = self._first_timestamp
        return first if first is not None and first >= 0 else None

    # ---- writing

    def must_roll(
        self, size: int, last_offset: int, max_timestamp: int, now_ms: int, segment_bytes: int, roll_ms: int
    ) -> bool:
        """Whether a batch of this size, last offset and timestamp needs a new segment."""
        held = self.size_bytes
        if held > segment_bytes - size or last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if self.offset_index.is_full or self.time_index.is_full:
            return True
        if not held:
            return False
        first = self._first_timestamp
        if first is None or first < 0:
            first = self.first_batch_timestamp
        waited_ms = now_ms - self.created_ms if first is None else max_timestamp - first
        return waited_ms > roll_ms - self.jitter_ms

    def append(self, buffer: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end. After an OSError the segment is as it was."""
        if self._max_timestamp is None:
            self._load_max_timestamp()
        position = self.size_bytes
        size = len(buffer)
        file = self._file or self.file
        try:
            file.pwrite((buffer,), position)
        except OSError:
            self.undo_write()
            raise
        self.size_bytes = position + size
        self._note_batch(position, size, last_offset, max_timestamp)

    def append_batches(self, buffer: Buffer) -> None:
        """Write complete batches at the end."""
        if self._max_timestamp is None:
            self._load_max_timestamp()
        position = self.size_bytes
        file = self._file or self.file
        try:
            file.pwrite((buffer,), position)
        except OSError:
            self.undo_write()
            raise
        self.size_bytes = position + len(buffer)
        for at, header in iterate_headers(buffer):
            self._note_batch(position + at, header.length_bytes, header.last_offset, header.max_timestamp)

    def undo_write(self) -> None:
        """Truncate what a failed write left. May raise OSError: then `is_torn` stays set."""
        self.is_torn = True
        self.trim()

    def _note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Update timestamps and indexes for a batch that was written."""
        if not position:
            self._first_timestamp = max_timestamp
        known = self._max_timestamp
        if known is None:
            known = self._load_max_timestamp()
        if max_timestamp > known:
            self._max_timestamp = known = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self._bytes_since_entry > self._interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(known, self._offset_of_max_timestamp)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def trim(self) -> None:
        """Truncate bytes beyond the last batch."""
        if self.is_torn:
            self.file.truncate(self.size_bytes)
            self.is_torn = False

    def become_inactive(self) -> None:
        """Trim the file and write out the indexes: there are no appends for now."""
        self.trim()
        if self._max_timestamp is not None:
            self.time_index.append(self._max_timestamp, self._offset_of_max_timestamp)
        has_batches = self.size_bytes > 0
        self.offset_index.write_out(create=has_batches)
        self.time_index.write_out(create=has_batches)
        self._bytes_since_entry = 0
        self.is_complete = True

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Drop the batch that holds `offset` and all after it; the count of bytes dropped."""
        self.is_complete = False
        position = self.position_of(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.aborted_index.truncate_to(offset)
        dropped = 0
        if position is not None:
            dropped = self.size_bytes - position
            self.file.truncate(position)
            self.size_bytes = position
            self.is_torn = False
        if not self.size_bytes:
            self.created_ms = now_ms
            self._first_timestamp = None
        self._bytes_since_entry = 0
        self._recompute_max_timestamp()
        return dropped

    def _recompute_max_timestamp(self) -> None:
        """Recompute it from the time index, and from the batches after its last entry."""
        timestamp, offset = self.time_index.last()
        _, position = self.offset_index.lookup(offset)
        for _, header in self.headers(position):
            if header.max_timestamp > timestamp:
                timestamp, offset = header.max_timestamp, header.last_offset
        self._max_timestamp, self._offset_of_max_timestamp = timestamp, offset

    def rebuild_indexes(self) -> None:
        """Rebuild offset and time index from the batches, which must be valid."""
        self.reset_indexes()
        for position, header in self.headers():
            self.index_scanned(position, header)

    def reset_indexes(self) -> None:
        """Empty the offset and time index, to be filled by `index_scanned`."""
        self.is_complete = False
        self.offset_index.truncate_entries(0)
        self.time_index.truncate_entries(0)
        self._max_timestamp, self._offset_of_max_timestamp = -1, self.base_offset
        self._first_timestamp = None
        self._bytes_since_entry = 0

    def index_scanned(self, position: int, header: BatchHeader) -> None:
        """Index the next batch of a scan."""
        self._note_batch(position, header.length_bytes, header.last_offset, header.max_timestamp)

    # ---- reading

    def damaged(self, position: int, cause: str, offset: int | None = None) -> LogDamaged:
        return LogDamaged(self.path, position, self.base_offset if offset is None else offset, cause)

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from `position` on. It reads little more than the headers."""
        stop = self.size_bytes if end is None else min(end, self.size_bytes)
        window, start = b"", position
        while position < stop:
            at = position - start
            if at + HEADER_BYTES > len(window):
                window, start, at = self.file.pread(_WINDOW_BYTES, position), position, 0
            try:
                header = read_header(window, at)
            except CorruptMessage as error:
                raise self.damaged(position, str(error)) from None
            if position + header.length_bytes > self.size_bytes:
                raise self.damaged(position, "The batch ends beyond the file.", header.base_offset)
            if not 0 <= header.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX:
                cause = f"A batch of offset {header.last_offset} does not belong to this segment."
                raise self.damaged(position, cause, header.base_offset)
            yield position, header
            position += header.length_bytes

    def chunks(
        self, position: int = 0, end: int | None = None, *, size: int = _CHUNK_BYTES
    ) -> Iterator[tuple[int, bytes]]:
        """(position, bytes) in runs of complete batches, about `size` bytes each, more for a larger batch."""
        stop = self.size_bytes if end is None else min(end, self.size_bytes)
        while position < stop:
            data = self.file.pread(min(size, stop - position), position)
            try:
                whole = 0
                for at, header in iterate_headers(data):
                    whole = at + header.length_bytes
                if not whole:
                    length = read_header(data).length_bytes
                    if length > stop - position or length <= len(data):
                        raise self.damaged(position, "The batch ends beyond the file.")
                    data = self.file.pread(length, position)
                    whole = length
            except CorruptMessage as error:
                raise self.damaged(position, str(error)) from None
            yield position, data if whole == len(data) else data[:whole]
            position += whole

    def position_of(self, offset: int) -> int | None:
        """The position of the first batch whose last offset is at least `offset`, None if there is none."""
        entry_offset, position = self.offset_index.lookup(offset)
        found = self._walk(offset, position, entry_offset)
        if found >= 0:
            return found
        if found == _BAD_ENTRY:
            self.rebuild_indexes()
            entry_offset, position = self.offset_index.lookup(offset)
            found = self._walk(offset, position, entry_offset)
            if found >= 0:
                return found
            if found == _BAD_ENTRY:
                raise self.damaged(
                    position, "The batch there does not contain the offset in its index entry."
                )
        return None

    def _walk(self, offset: int, position: int, entry_offset: int) -> int:
        """Walk the headers from the position of an index entry. Negative: `_AT_END`, `_BAD_ENTRY`."""
        size = self.size_bytes
        file = self._file or self.file
        is_entry = position != 0
        if is_entry and not 0 < position < size:
            return _BAD_ENTRY
        window, start = b"", position
        while position < size:
            at = position - start
            if at + _WALK.size > len(window):
                window, start, at = file.pread(_WINDOW_BYTES, position), position, 0
            if len(window) - at >= _WALK.size:
                base, length, magic, delta, _ = _WALK.unpack_from(window, at)
                last = base + delta if magic == 2 else base
            else:  # a v0 or v1 message at the very end can be shorter than that
                base, length, magic = (
                    int.from_bytes(window[:8], "big"),
                    int.from_bytes(window[8:12], "big"),
                    0,
                )
                last = base
            if length < _LENGTH_MIN or length > size - position - LOG_OVERHEAD_BYTES or not 0 <= magic <= 2:
                if is_entry:
                    return _BAD_ENTRY
                if length >= _LENGTH_MIN and 0 <= magic <= 2:
                    raise self.damaged(position, "The batch ends beyond the file.", base)
                raise self.damaged(position, f"Batch length {length} or magic {magic} is invalid.")
            if is_entry:
                if not self.base_offset <= base <= entry_offset:
                    return _BAD_ENTRY
                is_entry = False
            if last >= offset:
                return position
            position += length + LOG_OVERHEAD_BYTES
        return _AT_END

    def read_next_offset(self) -> int:
        """The offset after the last batch, from the last index entry on."""
        next_offset = self.base_offset
        if not self.size_bytes:
            return next_offset
        if self.offset_index.problem(self.size_bytes):
            self.rebuild_indexes()
        for _, header in self.headers(self.position_of(self.offset_index.last()[0]) or 0):
            next_offset = header.next_offset
        return next_offset

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that begins at `position`."""
        return next(self.headers(position))[1]

    def read_at(self, position: int, length: int) -> bytes:
        """Exactly these bytes; LogDamaged if the file is too short."""
        data = (self._file or self.file).pread(length, position)
        if len(data) != length:
            raise self.damaged(position, f"The file ends {length - len(data)} bytes too early.")
        return data


_AT_END = -1
_BAD_ENTRY = -2
