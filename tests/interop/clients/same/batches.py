"""Record batches built byte by byte, valid or deliberately invalid, without Ottla's code for records."""

from __future__ import annotations

import gzip
import struct
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from fastcrc.crc32 import iscsi

BASE_TIME_MS = time.time_ns() // 60_000_000_000 * 60_000 - 3_600_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A record for a batch; `delta_ms` is added to the batch's base timestamp."""

    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    delta_ms: int = 0
    attributes: int = 0


def varint(value: int) -> bytes:
    encoded = (value << 1) ^ (value >> 63)
    out = bytearray()
    while encoded & ~0x7F:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)
    return bytes(out)


def _sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record_bytes(entry: Entry, offset_delta: int) -> bytes:
    headers = b"".join(_sized(name) + _sized(value) for name, value in entry.headers)
    body = (
        struct.pack(">b", entry.attributes)
        + varint(entry.delta_ms)
        + varint(offset_delta)
        + _sized(entry.key)
        + _sized(entry.value)
        + varint(len(entry.headers))
        + headers
    )
    return varint(len(body)) + body


def batch(
    entries: Sequence[Entry] = (Entry(),),
    *,
    base_offset: int = 0,
    attributes: int = 0,
    codec: int = 0,
    base_time_ms: int = BASE_TIME_MS,
    max_time_ms: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    leader_epoch: int = -1,
    count: int | None = None,
    last_delta: int | None = None,
    magic: int = 2,
    crc: int | None = None,
    payload: bytes | None = None,
) -> bytes:
    """A batch of format v2. Omitted fields are correct; given ones are used unchanged."""
    if payload is None:
        payload = b"".join(record_bytes(entry, index) for index, entry in enumerate(entries))
        if codec == 1:
            payload = gzip.compress(payload, mtime=0)
    newest = base_time_ms + max((entry.delta_ms for entry in entries), default=0)
    after_crc = (
        struct.pack(
            ">hiqqqhii",
            attributes | codec,
            len(entries) - 1 if last_delta is None else last_delta,
            base_time_ms,
            newest if max_time_ms is None else max_time_ms,
            producer_id,
            producer_epoch,
            sequence,
            len(entries) if count is None else count,
        )
        + payload
    )
    checksum = iscsi(after_crc) if crc is None else crc
    body = struct.pack(">ibI", leader_epoch, magic, checksum) + after_crc
    return struct.pack(">qi", base_offset, len(body)) + body


def message_v1(key: bytes | None, value: bytes | None, *, magic: int = 1, offset: int = 0) -> bytes:
    """A message of the old format v0 or v1."""

    def sized(content: bytes | None) -> bytes:
        return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content

    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", BASE_TIME_MS) if magic else b"")
    body += sized(key) + sized(value)
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(message)) + message
