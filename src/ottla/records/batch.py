"""The header of a record batch, and the facts it gives without reading a record.

Layout of format v2 (big-endian): base offset 8, length 4, leader epoch 4, magic 1, CRC-32C 4, attributes 2,
last offset delta 4, base timestamp 8, max timestamp 8, producer id 8, producer epoch 2, base sequence 4,
record count 4; then the records. The CRC covers everything from the attributes on, so the base offset and the
leader epoch can change without a new CRC. Entries of the old formats v0 and v1 are read into the same type.

Rule: a header is trusted only as far as its bytes are present. Nothing here copies the payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from fastcrc.crc32 import iscsi as crc32c

from ottla.ports import Buffer
from ottla.wire.errors import CorruptMessage

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
"""The offset and the length field, which the length does not count."""
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
MAX_TIMESTAMP_POSITION = 35
LEADER_EPOCH_POSITION = 12

LEGACY_LENGTH_MIN = 14
"""The smallest length field of any format: an empty message of format v0."""
LEGACY_CRC_POSITION = 12

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1
UNKNOWN_COUNT = -1
SEQUENCE_MAX = 0x7FFF_FFFF

BASE_OFFSET_MAX = 2**63 - 1 - 2**31
"""Up to this base offset, adding a 32-bit delta cannot exceed 64 bits. No real log comes near."""

HEADER = Struct(">qiibIhiqqqhii")
OFFSET_LENGTH = Struct(">qi")
OFFSET = Struct(">q")
EPOCH = Struct(">i")
CRC = Struct(">I")
TIMESTAMP = Struct(">q")


class Codec(IntEnum):
    """The compression of a batch: the lowest three attribute bits."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def config_name(self) -> str:
        return self.name.lower()

    @classmethod
    def from_name(cls, name: str) -> Codec:
        """The codec that a configuration names; `uncompressed` is an alias of `none`."""
        if name == "uncompressed":
            return cls.NONE
        for codec in cls:
            if codec.config_name == name:
                return codec
        raise ValueError(f"unknown codec {name!r}: use none, gzip, snappy, lz4 or zstd")


CODEC_MAX = max(Codec)


class TimestampType(IntEnum):
    """Whether the producer or the broker set the timestamps of a batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header as stored. `length` is the wire's field; `length_bytes` is the size of the whole batch."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def length_bytes(self) -> int:
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The codec's number; compare it with `Codec`. 5 to 7 are not assigned."""
        return self.attributes & CODEC_MASK

    @property
    def is_compressed(self) -> bool:
        return self.attributes & CODEC_MASK != 0

    @property
    def is_transactional(self) -> bool:
        return self.magic >= 2 and self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.magic >= 2 and self.attributes & CONTROL_BIT != 0

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_BIT and self.magic > 0:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time after which tombstones in this batch may be removed; stored as the base timestamp."""
        if self.magic >= 2 and self.attributes & DELETE_HORIZON_BIT:
            return self.base_timestamp
        return None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`. Only the header's own bytes must be present.

    Raises CorruptMessage if they are not, or if length or magic are impossible.
    """
    remaining = len(buffer) - position
    if remaining <= MAGIC_POSITION:
        raise CorruptMessage(
            f"Record batch is truncated: its magic is in byte {MAGIC_POSITION + 1}, only {remaining} are "
            "left."
        )
    magic = buffer[position + MAGIC_POSITION]
    if magic == 2:
        if remaining < HEADER_BYTES:
            raise CorruptMessage(
                f"Record batch is truncated: its header has {HEADER_BYTES} bytes, only {remaining} are left."
            )
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if header.length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            raise CorruptMessage(
                f"Record batch is corrupt: its size {header.length_bytes} is smaller than its header"
                f" ({HEADER_BYTES} bytes)."
            )
        return header
    if magic > 2:
        raise CorruptMessage(f"Record batch has magic {magic}; only 0, 1 and 2 exist.")
    return _read_legacy_header(buffer, position, magic)


def _read_legacy_header(buffer: Buffer, position: int, magic: int) -> BatchHeader:
    """One entry of a v0 or v1 message set; its offset is that of the last message inside."""
    overhead = LEGACY_LENGTH_MIN if magic == 0 else LEGACY_LENGTH_MIN + 8
    offset, length = OFFSET_LENGTH.unpack_from(buffer, position)
    if length < overhead:
        raise CorruptMessage(
            f"Message size {length} is less than the {overhead} bytes a v{magic} message has."
        )
    timestamp_end = MAGIC_POSITION + 2 + (8 if magic else 0)
    if len(buffer) - position < timestamp_end:
        raise CorruptMessage(
            f"Message is truncated: a v{magic} header has {timestamp_end} bytes, fewer are left."
        )
    (crc,) = CRC.unpack_from(buffer, position + LEGACY_CRC_POSITION)
    attributes = buffer[position + MAGIC_POSITION + 1]
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = TIMESTAMP.unpack_from(buffer, position + MAGIC_POSITION + 2)
    return BatchHeader(
        base_offset=offset,
        length=length,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=UNKNOWN_COUNT,
    )


def iterate_headers(
    buffer: Buffer, position: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of each complete batch, up to the first incomplete one."""
    stop = len(buffer) if end is None else end
    while stop - position > MAGIC_POSITION:
        offset_and_length = OFFSET_LENGTH.unpack_from(buffer, position)
        length = offset_and_length[1]
        if length < LEGACY_LENGTH_MIN:
            raise CorruptMessage(
                f"Record size {length} at position {position} is less than the smallest that exists"
                f" ({LEGACY_LENGTH_MIN})."
            )
        if length + LOG_OVERHEAD_BYTES > stop - position:
            magic = buffer[position + MAGIC_POSITION]
            if magic > 2:
                raise CorruptMessage(f"Record batch has magic {magic}; only 0, 1 and 2 exist.")
            return
        header = read_header(buffer, position)
        yield position, header
        position += length + LOG_OVERHEAD_BYTES


def whole_batches_end(buffer: Buffer, position: int = 0, end: int | None = None) -> int:
    """The end of the last complete batch; a truncated batch may follow."""
    for at, header in iterate_headers(buffer, position, end):
        position = at + header.length_bytes
    return position


def crc_of(buffer: Buffer, position: int, header: BatchHeader) -> int:
    """Compute the checksum of this batch's bytes: CRC-32C for v2, CRC-32 for the old formats."""
    end = position + header.length_bytes
    view = memoryview(buffer)
    if header.magic >= 2:
        return crc32c(view[position + ATTRIBUTES_POSITION : end])
    return crc32(view[position + MAGIC_POSITION : end])


def crc_matches(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch is complete and its checksum is correct."""
    return len(buffer) - position >= header.length_bytes and crc_of(buffer, position, header) == header.crc


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise CorruptMessage unless `crc_matches`."""
    if len(buffer) - position < header.length_bytes:
        raise CorruptMessage(
            f"Record batch is truncated: it declares {header.length_bytes} bytes, only "
            f"{len(buffer) - position} are left."
        )
    computed = crc_of(buffer, position, header)
    if computed != header.crc:
        raise CorruptMessage(f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed}).")


def write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> None:
    """Write a v2 header before the records that are already in place, with a newly computed CRC."""
    HEADER.pack_into(buffer, position, *header)
    write_crc(buffer, position, header.length_bytes)


def write_crc(buffer: bytearray | memoryview, position: int, length_bytes: int) -> None:
    """Recompute the CRC of the v2 batch at `position`."""
    view = memoryview(buffer)[position + ATTRIBUTES_POSITION : position + length_bytes]
    CRC.pack_into(buffer, position + CRC_POSITION, crc32c(view))


def set_base_offset(buffer: bytearray | memoryview, position: int, base_offset: int) -> None:
    OFFSET.pack_into(buffer, position, base_offset)


def set_leader_epoch(buffer: bytearray | memoryview, position: int, leader_epoch: int) -> None:
    EPOCH.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def wrap_64(value: int) -> int:
    """`value` as a signed 64-bit number: sums of timestamps wrap, as in Java."""
    return (value + 0x8000_0000_0000_0000) % 0x1_0000_0000_0000_0000 - 0x8000_0000_0000_0000


def increment_sequence(sequence: int, by: int) -> int:
    """Add to a sequence number; 0 follows 2**31 - 1."""
    if sequence > SEQUENCE_MAX - by:
        return by - (SEQUENCE_MAX - sequence) - 1
    return sequence + by


def decrement_sequence(sequence: int, by: int) -> int:
    if sequence < by:
        return SEQUENCE_MAX - (by - sequence) + 1
    return sequence - by
