"""Records as values: decodes batches for clients and tools, and builds batches from records.

The broker's produce and fetch paths do not use this module; they work on whole batches. Rule: reading guesses
nothing; invalid bytes raise CorruptMessage, whatever the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.ports import Buffer
from ottla.records import kernel
from ottla.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    TimestampType,
    check_crc,
    iterate_headers,
    read_header,
    wrap_64,
    write_header,
)
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from ottla.records.legacy import read_entry
from ottla.wire.errors import CorruptMessage, UnsupportedCompressionType


class Record(NamedTuple):
    """One record. A header name may occur more than once; the order is kept."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def read_records(
    buffer: Buffer,
    position: int = 0,
    end: int | None = None,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    verify: bool = True,
) -> Iterator[Record]:
    """The records of all complete batches from `position` to `end`, in every format, including control
    records."""
    for at, header in iterate_headers(buffer, position, end):
        yield from read_batch(
            buffer, at, header, decompressed_bytes_max=decompressed_bytes_max, verify=verify
        )


def read_batch(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    verify: bool = True,
) -> list[Record]:
    """The records of the batch at `position`. `verify` checks its CRC first."""
    if header is None:
        header = read_header(buffer, position)
    if verify:
        check_crc(buffer, position, header)
    if header.magic < 2:
        return [Record(*fields) for fields in read_entry(buffer, position, header, decompressed_bytes_max)]
    content = read_content(buffer, position, header, decompressed_bytes_max=decompressed_bytes_max)
    try:
        decoded = kernel.decode(
            bytes(content), 0, len(content), header.record_count, header.base_offset, header.base_timestamp
        )
    except ValueError as cause:
        raise CorruptMessage(
            f"The record batch at offset {header.base_offset} is broken: {cause}."
        ) from cause
    if header.timestamp_type == TimestampType.LOG_APPEND_TIME:
        timestamp = header.max_timestamp
        return [Record(offset, timestamp, key, value, headers) for offset, _, key, value, headers in decoded]
    return [Record._make(fields) for fields in decoded]


Pair = tuple[bytes, bytes | None]
"""The key and the value of a record in a compacted topic."""


def read_content(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> Buffer:
    """The decompressed records of the v2 batch at `position`; a view of `buffer` if they are not
    compressed."""
    end = position + header.length_bytes
    if end > len(buffer):
        raise CorruptMessage(f"Record batch is truncated: the last {end - len(buffer)} bytes are missing.")
    body = memoryview(buffer)[position + HEADER_BYTES : end]
    if not header.is_compressed or header.record_count == 0:
        return body
    try:
        return decompress(header.codec, body, decompressed_bytes_max)
    except UnsupportedCompressionType as cause:
        raise CorruptMessage(str(cause)) from cause


def build_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    keep_offsets: bool = False,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Build a batch of one or more records, numbered from `base_offset`, or by their own offsets with
    `keep_offsets`.

    `log_append_time` makes it a LogAppendTime batch; `delete_horizon_ms` makes it a batch whose tombstones
    await removal by compaction.
    """
    chosen = list(records)
    if not chosen:
        raise ValueError("a batch needs at least one record")
    base_timestamp = chosen[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    if keep_offsets:
        deltas: Iterable[int] = [record.offset - base_offset for record in chosen]
    else:
        deltas = range(len(chosen))
    content: Buffer = kernel.encode(
        [
            (delta, wrap_64(record.timestamp - base_timestamp), record.key, record.value, record.headers)
            for delta, record in zip(deltas, chosen, strict=True)
        ]
    )
    attributes = int(codec)
    attributes |= TRANSACTIONAL_BIT if transactional else 0
    attributes |= CONTROL_BIT if control else 0
    attributes |= LOG_APPEND_TIME_BIT if log_append_time is not None else 0
    attributes |= DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0
    max_timestamp = max(NO_TIMESTAMP, *(record.timestamp for record in chosen))
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        partition_leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=chosen[-1].offset - base_offset if keep_offsets else len(chosen) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if log_append_time is None else log_append_time,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(chosen),
    )
    return assemble(header, content if codec == Codec.NONE else compress(codec, content, level))


def assemble(header: BatchHeader, content: Buffer) -> bytearray:
    """A batch from a header and its records, which must be compressed already if the header says so. Length
    and CRC are set.

    With no content it is the empty batch that compaction keeps to remember a producer's sequence.
    """
    batch = bytearray(HEADER_BYTES)
    batch += content
    write_header(batch, 0, header._replace(length=len(batch) - LOG_OVERHEAD_BYTES))
    return batch
