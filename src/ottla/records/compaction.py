"""Compaction of record batches: the last offset of each key, and the records that a batch keeps.

A compacted batch keeps its offsets, its place in the producer's sequence and its last offset, even if no
record remains. When compaction first sees a tombstone, the batch gets a delete horizon: its base timestamp
then says when the tombstone may be removed, and record timestamps are stored relative to it. Timestamps come
from clients, so every sum of them wraps at 64 bits, as a reader's does.

Rule: only batches with a correct CRC are compacted. A damaged one is an error, and never gets a new CRC.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.ports import Buffer
from ottla.records import load_kernel
from ottla.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    TimestampType,
    check_crc,
    wrap_64,
)
from ottla.records.compression import compress
from ottla.records.record import assemble, build_batch, read_batch, read_content
from ottla.wire.errors import CorruptMessage

if TYPE_CHECKING:
    from ottla.records import kernel, keys
else:
    from ottla.records import kernel

    keys = load_kernel("keys")

SLOT_BYTES: int = keys.SLOT_BYTES
SECRET_BYTES: int = keys.SECRET_BYTES

_TABLE_STEP_WORDS = 1 << 17

_TIMESTAMP_MAX = 0x7FFF_FFFF_FFFF_FFFF
_EMPTIED_ATTRIBUTES = LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT


class Payload(NamedTuple):
    """The uncompressed records of a batch: their range in `data`, and the base of their offset deltas."""

    data: Buffer
    begin: int
    end: int
    record_count: int
    base_offset: int


def new_table(slots: int) -> array[int]:
    """`keys.new_table`, filled in steps that let other threads run: a table of 128 MiB takes half a
    second."""
    table = keys.new_table(0)
    words = len(table) * (slots + 1)
    zeros = array("Q", [0]) * min(words, _TABLE_STEP_WORDS)
    while len(table) < words:
        table.extend(zeros[: words - len(table)])
    return table


class KeyMap:
    """The last offset of each key in a sequence of batches, in a table of bounded size."""

    __slots__ = ("_secret", "_table", "latest_offset", "used", "used_max")

    def __init__(self, slots: int, secret: bytes, load_factor: float = 0.9) -> None:
        """A table of `slots` slots, filled at most to `load_factor`."""
        slots = max(2, slots)
        self._table = new_table(slots)
        self._secret = secret
        self.used = 0
        self.used_max = max(1, min(slots - 1, int(slots * load_factor)))
        self.latest_offset = -1
        """Every key up to this offset is in the table. Later records are all kept."""

    def add(self, buffer: Buffer, position: int, header: BatchHeader, start_offset: int) -> bool:
        """Add the keys of a batch from `start_offset` on; False once the table is full."""
        if header.last_offset < start_offset:
            return True
        check_crc(buffer, position, header)
        payload = _payload(buffer, position, header)
        try:
            taken, self.used, stopped_at = keys.map_keys(
                *payload, start_offset, self._table, self._secret, self.used, self.used_max
            )
        except ValueError as error:
            raise _unreadable(error) from error
        if taken < payload.record_count:
            self.pass_over(stopped_at - 1)
            return False
        self.pass_over(header.last_offset)
        return True

    def pass_over(self, last_offset: int) -> None:
        """Record that no key up to `last_offset` is missing from the table."""
        self.latest_offset = max(self.latest_offset, last_offset)

    def mark(
        self, payload: Payload, keep_tombstones: bool, base_timestamp: int = 0
    ) -> tuple[bytearray, tuple[int, int, int, int, int]]:
        """Return a mark for each kept record, and the sums of `keys.mark_kept`."""
        marks = bytearray(payload.record_count)
        try:
            return marks, keys.mark_kept(
                *payload,
                self.latest_offset,
                self._table,
                self._secret,
                keep_tombstones,
                marks,
                base_timestamp,
            )
        except ValueError as error:
            raise _unreadable(error) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision about a whole batch, before its records are read."""

    discard_records: bool = False
    """Keep no record: the transaction was aborted, or the marker has expired."""
    retain_empty: bool = False
    """Keep the batch even without records: it is the last of its producer or of the cleaned range."""
    set_horizon: bool = False
    """Give the marker a delete horizon: no record of its transaction remains."""


class Rules(NamedTuple):
    """The parameters of one compaction run."""

    now_ms: int
    delete_retention_ms: int
    keep_legacy_tombstones: bool
    """For batches of format v0 and v1, which cannot store a delete horizon."""

    @property
    def new_horizon_ms(self) -> int | None:
        """The delete horizon of a tombstone seen now; None if it exceeds the range of timestamps."""
        horizon = self.now_ms + self.delete_retention_ms
        return horizon if horizon <= _TIMESTAMP_MAX else None


class Kept(NamedTuple):
    """The result of compacting a batch."""

    batch: Buffer | None
    """None if nothing is kept; a slice of the input if everything is."""
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


def compact_batch(
    buffer: Buffer, position: int, header: BatchHeader, key_map: KeyMap, verdict: Verdict, rules: Rules
) -> Kept:
    """Compact the batch at `position` of `buffer`."""
    if verdict.discard_records:
        return _nothing(header, verdict, max(0, header.record_count))
    check_crc(buffer, position, header)
    if header.magic < 2:
        return _compact_legacy(buffer, position, header, key_map, verdict, rules)
    if header.is_control:
        return _compact_control(buffer, position, header, verdict, rules)
    return _compact_data(buffer, position, header, key_map, verdict, rules)


def _compact_data(
    buffer: Buffer, position: int, header: BatchHeader, key_map: KeyMap, verdict: Verdict, rules: Rules
) -> Kept:
    payload = _payload(buffer, position, header)
    horizon = header.delete_horizon_ms
    marks, sums = key_map.mark(payload, horizon is None or rules.now_ms < horizon, header.base_timestamp)
    kept, tombstones, keyless, first_timestamp, max_timestamp = sums
    if not kept:
        return _nothing(header, verdict, payload.record_count, keyless)
    is_horizon_new = horizon is None and tombstones > 0 and rules.new_horizon_ms is not None
    if is_horizon_new:
        horizon = rules.new_horizon_ms
    elif kept == payload.record_count:
        return Kept(_whole(buffer, position, header), kept, kept, keyless)
    base_timestamp = first_timestamp if horizon is None else horizon
    if header.timestamp_type == TimestampType.CREATE_TIME:
        max_timestamp = max(NO_TIMESTAMP, max_timestamp)
    else:
        max_timestamp = header.max_timestamp
    records = _copy(payload, marks, header.base_timestamp - base_timestamp)
    batch = _rebuilt(header, records, kept, base_timestamp, max_timestamp, has_horizon=horizon is not None)
    return Kept(batch, payload.record_count, kept, keyless)


def _compact_control(
    buffer: Buffer, position: int, header: BatchHeader, verdict: Verdict, rules: Rules
) -> Kept:
    """Keep a marker unchanged, give it a delete horizon, or empty it."""
    count = header.record_count
    if not count:
        return _nothing(header, verdict, 0)
    horizon = rules.new_horizon_ms
    if not verdict.set_horizon or header.delete_horizon_ms is not None or horizon is None:
        return Kept(_whole(buffer, position, header), count, count)
    payload = _payload(buffer, position, header)
    records = _copy(payload, bytearray(b"\x01" * payload.record_count), header.base_timestamp - horizon)
    return Kept(
        _rebuilt(header, records, count, horizon, header.max_timestamp, has_horizon=True), count, count
    )


def _compact_legacy(
    buffer: Buffer, position: int, header: BatchHeader, key_map: KeyMap, verdict: Verdict, rules: Rules
) -> Kept:
    """Compact a v0 or v1 message, or several in a compressed one; a part of several becomes a v2 batch."""
    payload = _payload(buffer, position, header)
    marks, (kept, _, keyless, _, _) = key_map.mark(payload, rules.keep_legacy_tombstones)
    if kept == payload.record_count:
        return Kept(_whole(buffer, position, header), kept, kept, keyless)
    if not kept:
        return _nothing(header, verdict, payload.record_count, keyless)
    records = [
        record for record, mark in zip(read_batch(buffer, position, header), marks, strict=True) if mark
    ]
    is_append_time = header.timestamp_type == TimestampType.LOG_APPEND_TIME
    batch = build_batch(
        records,
        codec=Codec(header.codec),
        base_offset=records[0].offset,
        keep_offsets=True,
        log_append_time=header.max_timestamp if is_append_time else None,
    )
    return Kept(batch, payload.record_count, kept, keyless)


def _payload(buffer: Buffer, position: int, header: BatchHeader) -> Payload:
    if header.magic < 2:
        records = read_batch(buffer, position, header, verify=False)
        first = records[0].offset
        encoded = kernel.encode(
            [(record.offset - first, 0, record.key, record.value, ()) for record in records]
        )
        return Payload(encoded, 0, len(encoded), len(records), first)
    data, begin, end = buffer, position + HEADER_BYTES, position + header.length_bytes
    if header.is_compressed:
        data, begin = read_content(buffer, position, header), 0
        end = len(data)
    if not 0 <= header.record_count <= end - begin:
        raise _unreadable(f"{header.record_count} records do not fit into {end - begin} bytes")
    return Payload(data, begin, end, header.record_count, header.base_offset)


def _copy(payload: Payload, marks: bytearray, timestamp_shift: int) -> bytearray:
    try:
        return keys.copy_kept(
            payload.data, payload.begin, payload.end, payload.record_count, marks, wrap_64(timestamp_shift)
        )
    except ValueError as error:
        raise _unreadable(error) from error


def _whole(buffer: Buffer, position: int, header: BatchHeader) -> memoryview:
    return memoryview(buffer)[position : position + header.length_bytes]


def _nothing(header: BatchHeader, verdict: Verdict, records_read: int, keyless: int = 0) -> Kept:
    """Drop all records, and the batch too unless its header is still needed."""
    if not verdict.retain_empty:
        return Kept(None, records_read, 0, keyless)
    emptied = header._replace(
        magic=2,
        attributes=header.attributes & _EMPTIED_ATTRIBUTES if header.magic >= 2 else 0,
        base_timestamp=NO_TIMESTAMP,
        record_count=0,
    )
    return Kept(assemble(emptied, b""), records_read, 0, keyless)


def _rebuilt(
    header: BatchHeader,
    records: Buffer,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    *,
    has_horizon: bool,
) -> bytearray:
    """Rebuild the batch with other records. First and last offset stay, and with them the sequence
    numbers."""
    attributes = header.attributes & (_EMPTIED_ATTRIBUTES | CODEC_MASK)
    rebuilt = header._replace(
        attributes=attributes | DELETE_HORIZON_BIT if has_horizon else attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=count,
    )
    return assemble(rebuilt, compress(header.codec, records) if header.is_compressed else records)


def _unreadable(cause: object) -> CorruptMessage:
    return CorruptMessage(f"Compaction cannot read a batch: {cause}.")
