"""Message sets of the formats v0 and v1: read from old files and by the dump tool, never written.

A set is a sequence of messages: offset 8, length 4, CRC-32 4, magic 1, attributes 1, timestamp 8 (v1 only),
then key and value with 4-byte lengths. A compressed message is a wrapper whose value is a set. In v0 the
offsets inside are absolute; in v1 they count from 0 and the wrapper has the offset of the last. Wrappers do
not nest.
"""

from __future__ import annotations

from struct import Struct

from ottla.ports import Buffer
from ottla.records.batch import (
    MAGIC_POSITION,
    BatchHeader,
    Codec,
    TimestampType,
    check_crc,
    iterate_headers,
)
from ottla.records.compression import decompress
from ottla.wire.errors import CorruptMessage

LegacyFields = tuple[int, int, bytes | None, bytes | None]
"""Offset, timestamp (-1 in v0), key, value."""

_LENGTH = Struct(">i")


def read_entry(
    buffer: Buffer, position: int, header: BatchHeader, decompressed_bytes_max: int
) -> list[LegacyFields]:
    """The message at `position`, or the messages that it wraps. The caller checks its CRC."""
    if header.is_compressed:
        return _read_wrapped(unwrap(buffer, position, header, decompressed_bytes_max), header)
    key, value = _read_key_and_value(buffer, position, header)
    return [(header.base_offset, header.max_timestamp, key, value)]


def unwrap(buffer: Buffer, position: int, header: BatchHeader, decompressed_bytes_max: int) -> Buffer:
    """The message set inside the compressed message at `position`."""
    _, value = _read_key_and_value(buffer, position, header)
    if value is None:
        raise CorruptMessage(f"The compressed message at offset {header.base_offset} has no value.")
    if header.codec >= Codec.ZSTD:
        raise CorruptMessage(f"A message of format v{header.magic} cannot have the codec {header.codec}.")
    return decompress(header.codec, value, decompressed_bytes_max, magic=header.magic)


def _read_wrapped(content: Buffer, wrapper: BatchHeader) -> list[LegacyFields]:
    stamped = wrapper.timestamp_type == TimestampType.LOG_APPEND_TIME
    messages: list[LegacyFields] = []
    for position, header in iterate_headers(content):
        if header.magic != wrapper.magic:
            raise CorruptMessage(f"A v{header.magic} message is wrapped in one of v{wrapper.magic}.")
        if header.is_compressed:
            raise CorruptMessage("A compressed message contains another one.")
        check_crc(content, position, header)
        key, value = _read_key_and_value(content, position, header)
        timestamp = wrapper.max_timestamp if stamped else header.max_timestamp
        messages.append((header.base_offset, timestamp, key, value))
    if not messages:
        raise CorruptMessage(f"The compressed message at offset {wrapper.base_offset} is empty.")
    if wrapper.magic == 0:
        return messages
    # Clients that left the wrapper's offset to the broker wrote 0.
    last_inside = messages[-1][0]
    base = wrapper.base_offset - last_inside if wrapper.base_offset else 0
    if base < 0:
        raise CorruptMessage(
            f"The wrapper's offset {wrapper.base_offset} is less than the last one inside, {last_inside}."
        )
    return [(base + offset, timestamp, key, value) for offset, timestamp, key, value in messages]


def _read_key_and_value(
    buffer: Buffer, position: int, header: BatchHeader
) -> tuple[bytes | None, bytes | None]:
    end = position + header.length_bytes
    if end > len(buffer):
        raise CorruptMessage(f"The message at offset {header.base_offset} is truncated.")
    view = memoryview(buffer)[position:end]
    at = MAGIC_POSITION + 2 + (8 if header.magic == 1 else 0)
    key, at = _read_bytes(view, at)
    value, at = _read_bytes(view, at)
    if at != len(view):
        raise CorruptMessage(f"The message at offset {header.base_offset} does not have its declared size.")
    return key, value


def _read_bytes(view: memoryview, position: int) -> tuple[bytes | None, int]:
    start = position + 4
    if start > len(view):
        raise CorruptMessage("A message ends where the length of its key or value should be.")
    (length,) = _LENGTH.unpack_from(view, position)
    if length < 0:
        return None, start
    if length > len(view) - start:
        raise CorruptMessage(f"A key or value of {length} bytes does not fit into its message.")
    return bytes(view[start : start + length]), start + length
