"""The leader's checks before it appends a batch, and the few bytes it then writes into it.

Checks of a client's batch, in order: the request's rules (one batch, format v2), the base offset, the size,
the CRC, count against offsets, no control batch, a sequence if there is a producer id, and then each record:
bounds, offset, key and timestamp. The order determines the error that a client sees, so it follows Kafka's.

`validate` only reads; `assign` writes in place. An uncompressed batch is neither copied nor read twice; a
compressed one is decompressed once. A refused batch leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import NoReturn

from fastcrc.crc32 import iscsi as crc32c

from ottla.ports import Buffer
from ottla.records import kernel
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CODEC_MAX,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LEGACY_LENGTH_MIN,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    OFFSET_LENGTH,
    TIMESTAMP,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Codec,
    TimestampType,
    wrap_64,
    write_crc,
    write_header,
)
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from ottla.wire.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)

LONG_MAX = 0x7FFF_FFFF_FFFF_FFFF
KNOWN_BITS = CODEC_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT
LOG_APPEND_TIME = int(TimestampType.LOG_APPEND_TIME)
ZSTD_FROM_VERSION = 7
SHOWN_ERRORS_MAX = 3
NO_LIMIT = 1 << 62
BYTES_AT_ONCE = 4 << 20
"""The most bytes to check on the event loop. More is checked in parts, on another thread."""
RECOMPRESSED_BYTES_AT_ONCE = 16 << 10
"""The most bytes to compress on the event loop: zstd takes 3 s per megabyte at its highest level."""
WALK_RECORDS_MAX = 500
"""The most records per kernel call on that thread, since no other thread runs during a call."""

_ASSIGNED = Struct(">qii")
_ATTRIBUTES = Struct(">h")

_BROKEN = {
    kernel.CUT_OFF: "it declares more records than it can contain",
    kernel.BAD_SIZE: "record {index} has an invalid size",
    kernel.BAD_VARINT: "record {index} contains a number that is truncated or too long",
    kernel.BAD_HEADERS: "record {index} has headers that do not fit into it",
    kernel.SIZE_DIFFERS: "record {index} does not have the size it declares",
    kernel.BAD_OFFSET_DELTA: "record {index} does not have {index} as its offset delta",
    kernel.BYTES_LEFT: "bytes are left after the declared number of records",
    kernel.TOO_MANY_HEADERS: f"record {{index}} has more than {kernel.HEADERS_MAX} headers",
}


class Origin(IntEnum):
    """The source of an append. It determines the rules that apply."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRules:
    """A topic's requirements for appended batches."""

    topic_partition: str = "?"
    max_message_bytes: int = 1_048_588
    compacted: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = LONG_MAX
    timestamp_after_max_ms: int = 3_600_000
    codec: Codec | None = None
    """The codec to store batches with; None keeps the producer's."""
    compression_level: int | None = None
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


class ValidBatch:
    """A batch that may be appended after `assign` has given it its offset."""

    __slots__ = (
        "buffer",
        "header",
        "log_append_time",
        "max_timestamp",
        "offset_of_max_timestamp_delta",
        "record_count",
        "restamp",
    )

    def __init__(
        self,
        header: BatchHeader,
        buffer: memoryview,
        record_count: int,
        max_timestamp: int,
        offset_of_max_timestamp_delta: int,
        log_append_time: int,
        restamp: bool,
    ) -> None:
        self.header = header
        self.buffer = buffer
        self.record_count = record_count
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp_delta = offset_of_max_timestamp_delta
        self.log_append_time = log_append_time
        self.restamp = restamp


def check_request(records: Buffer | None, version: int) -> None:
    """Check the rules that a produce request of `version` sets for the records of one partition."""
    length_bytes = None if records is None else _whole_batch(records, 0)
    if records is None or length_bytes is None:
        raise InvalidRecord(f"{_requests(version)} must have at least one record batch per partition")
    if records[MAGIC_POSITION] != 2:
        raise InvalidRecord(
            f"{_requests(version)} are only allowed to contain record batches with magic version 2"
        )
    if length_bytes < HEADER_BYTES:
        raise _too_short(length_bytes)
    if version < ZSTD_FROM_VERSION and records[ATTRIBUTES_POSITION + 1] & CODEC_MASK == Codec.ZSTD:
        raise UnsupportedCompressionType(
            f"{_requests(version)} are not allowed to use ZStandard compression; use version "
            f"{ZSTD_FROM_VERSION} or later"
        )
    if len(records) != length_bytes and _whole_batch(records, length_bytes) is not None:
        raise InvalidRecord(
            f"{_requests(version)} are only allowed to contain exactly one record batch per partition"
        )


def _requests(version: int) -> str:
    return f"Produce requests with version {version}"


class TakesLong(Exception):
    """Checking the batch would block the event loop for too long.

    The batch is unchanged: call `validate` without `bytes_at_once`, on another thread.
    """


class RecompressionTakesLong(TakesLong):
    """The batch is not large, but the topic requires another codec, whose level may be slow."""


def validate(
    records: memoryview,
    rules: ProduceRules,
    now_ms: int,
    origin: Origin = Origin.CLIENT,
    bytes_at_once: int = NO_LIMIT,
) -> ValidBatch:
    """Check the single batch in `records` against `rules`; an incomplete batch after it is dropped.

    Raises InvalidRecord, InvalidTimestamp, CorruptMessage, MessageTooLarge or UnsupportedCompressionType; and
    TakesLong if the batch, compressed or not, exceeds `bytes_at_once`.
    """
    size = len(records)
    if size < HEADER_BYTES or records[MAGIC_POSITION] != 2:
        _refuse_start(records)
    header: BatchHeader = tuple.__new__(BatchHeader, HEADER.unpack_from(records))
    attributes = header[5]
    count = header[12]
    length_bytes = header[1] + LOG_OVERHEAD_BYTES
    if length_bytes != size:
        if length_bytes > size or length_bytes < HEADER_BYTES:
            _refuse_start(records)
        if _whole_batch(records, length_bytes) is not None:
            raise InvalidRecord(f"An append contains more than one record batch{_to(rules)}.")
        records = records[:length_bytes]
    if header[0] and origin is Origin.CLIENT:
        raise InvalidRecord(f"The base offset of a produced batch must be 0, not {header[0]}{_to(rules)}.")
    if length_bytes > rules.max_message_bytes:
        raise _batch_too_large(length_bytes, rules)
    if length_bytes > RECOMPRESSED_BYTES_AT_ONCE:
        if length_bytes > bytes_at_once:
            raise TakesLong
        if bytes_at_once != NO_LIMIT and _is_recompressed(attributes, rules):
            raise RecompressionTakesLong
    if crc32c(records[ATTRIBUTES_POSITION:]) != header[4]:
        raise CorruptMessage(f"Record is corrupt (stored crc = {header[4]}){_to(rules)}.")
    unsound = count != header[6] + 1 or count <= 0
    if unsound or attributes & CONTROL_BIT or header[9] >= 0 > min(header[10:12]):
        _check_header(header, rules, origin)

    codec = attributes & CODEC_MASK
    if codec == 0:
        content: Buffer = records
        start = HEADER_BYTES
        end = length_bytes
    else:
        content = _decompressed(records, codec, rules, bytes_at_once)
        start = 0
        end = len(content)
    log_append = rules.timestamp_type == LOG_APPEND_TIME
    claims_log_append = attributes & LOG_APPEND_TIME_BIT
    check_time = not log_append and not claims_log_append
    if end - start > BYTES_AT_ONCE:
        walked = _walk_in_parts(content, start, end, header, rules, now_ms, check_time)
    else:
        walked = kernel.walk(
            content,
            start,
            end,
            count,
            header[7],
            now_ms,
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
            check_time,
            rules.compacted,
        )
    status, index, _where, max_timestamp, delta_of_max, problems = walked
    if status:
        raise InvalidRecord(
            f"The record batch is invalid: {_BROKEN[status].format(index=index)}{_to(rules)}."
        )
    if claims_log_append:
        max_timestamp = _check_claimed_time(header, rules, now_ms, problems)
    elif problems:
        raise _records_refused(problems, rules, now_ms)

    log_append_time = NO_TIMESTAMP
    if log_append:
        max_timestamp = log_append_time = now_ms
        delta_of_max = count - 1
    restamp = max_timestamp != header[8] or log_append != (claims_log_append != 0)
    target = rules.codec
    if target is not None and _is_recompressed(attributes, rules):
        if bytes_at_once != NO_LIMIT and end - start > RECOMPRESSED_BYTES_AT_ONCE:
            raise RecompressionTakesLong
        records = _recompressed(memoryview(content)[start:], header, rules, target)
        header = tuple.__new__(BatchHeader, HEADER.unpack_from(records))
    elif records.readonly:
        records = memoryview(bytearray(records))
    return ValidBatch(header, records, count, max_timestamp, delta_of_max, log_append_time, restamp)


def _walk_in_parts(
    content: Buffer,
    position: int,
    end: int,
    header: BatchHeader,
    rules: ProduceRules,
    now_ms: int,
    check_time: bool,
) -> kernel.Walk:
    """`kernel.walk` over many records, in calls short enough to let other threads run in between."""
    count = header.record_count
    max_timestamp = delta_of_max = -1
    problems: list[kernel.Problem] | None = None
    status = index = 0
    while index < count and not status:
        stop = min(index + WALK_RECORDS_MAX, count)
        status, index, position, latest, delta, found = kernel.walk(
            content,
            position,
            end,
            stop,
            header.base_timestamp,
            now_ms,
            rules.timestamp_before_max_ms,
            rules.timestamp_after_max_ms,
            check_time,
            rules.compacted,
            index,
            stop == count,
        )
        if latest > max_timestamp:
            max_timestamp, delta_of_max = latest, delta
        if found:
            problems = (problems or []) + found
            del problems[kernel.PROBLEMS_MAX :]
    return status, index, position, max_timestamp, delta_of_max, problems


def assign(batch: ValidBatch, base_offset: int, leader_epoch: int) -> None:
    """Write the leader's fields into the batch: offset and epoch, and timestamps if they change."""
    buffer = batch.buffer
    header = batch.header
    _ASSIGNED.pack_into(buffer, 0, base_offset, header[1], leader_epoch)
    if batch.restamp:
        attributes = header[5] & KNOWN_BITS & ~LOG_APPEND_TIME_BIT
        if batch.log_append_time != NO_TIMESTAMP:
            attributes |= LOG_APPEND_TIME_BIT
        _ATTRIBUTES.pack_into(buffer, ATTRIBUTES_POSITION, attributes)
        TIMESTAMP.pack_into(buffer, MAX_TIMESTAMP_POSITION, batch.max_timestamp)
        write_crc(buffer, 0, len(buffer))


def _to(rules: ProduceRules) -> str:
    return f" in topic partition {rules.topic_partition}"


def _whole_batch(records: Buffer, position: int) -> int | None:
    """The length of the batch at `position` if it is complete, else None. CorruptMessage if it is invalid."""
    remaining = len(records) - position
    if remaining < LOG_OVERHEAD_BYTES:
        return None
    length: int = OFFSET_LENGTH.unpack_from(records, position)[1]
    if length < LEGACY_LENGTH_MIN:
        raise CorruptMessage(f"Record size {length} is less than the minimum of {LEGACY_LENGTH_MIN}.")
    if remaining <= MAGIC_POSITION:
        return None
    magic = records[position + MAGIC_POSITION]
    if magic > 2:
        raise CorruptMessage(f"Record batch has magic {magic}; only 0, 1 and 2 exist.")
    length += LOG_OVERHEAD_BYTES
    return length if length <= remaining else None


def _too_short(length_bytes: int) -> CorruptMessage:
    return CorruptMessage(f"Record batch is corrupt: its size {length_bytes} is less than {HEADER_BYTES}.")


def _refuse_start(records: memoryview) -> NoReturn:
    """Raise the error for bytes that do not start with a complete v2 batch."""
    length_bytes = _whole_batch(records, 0)
    if length_bytes is None:
        raise InvalidRecord("The append contains no complete record batch.")
    if records[MAGIC_POSITION] != 2:
        raise InvalidRecord(
            f"Record batches of format v{records[MAGIC_POSITION]} can be read but not written. Use v2."
        )
    raise _too_short(length_bytes)


def _batch_too_large(length_bytes: int, rules: ProduceRules) -> MessageTooLarge:
    return MessageTooLarge(
        f"The record batch size is {length_bytes} bytes, which exceeds max.message.bytes="
        f"{rules.max_message_bytes}{_to(rules)}."
    )


def _check_header(header: BatchHeader, rules: ProduceRules, origin: Origin) -> None:
    """Check the header in Kafka's order; the last two rules apply only to clients."""
    offsets = f"[{header.base_offset}, {header.last_offset}]"
    if header.last_offset_delta < 0:
        raise InvalidRecord(f"Batch has an invalid offset range {offsets}{_to(rules)}.")
    if header.record_count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {header.record_count}{_to(rules)}")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"Inconsistent batch offset range {offsets} and count of records "
            f"{header.record_count}{_to(rules)}"
        )
    if origin is Origin.CLIENT:
        if header.is_control:
            raise InvalidRecord(f"Clients are not allowed to write control records{_to(rules)}")
        if header.has_producer_id and header.base_sequence < 0:
            raise InvalidRecord(
                f"Invalid sequence number {header.base_sequence} in a batch with producer id"
                f" {header.producer_id}{_to(rules)}."
            )
        if header.has_producer_id and header.producer_epoch < 0:
            raise InvalidRecord(
                f"Invalid producer epoch {header.producer_epoch} in a batch with producer id"
                f" {header.producer_id}{_to(rules)}."
            )


def _decompressed(
    records: memoryview, codec: int, rules: ProduceRules, bytes_at_once: int
) -> bytes | bytearray:
    """Decompress the records of a batch. The CRC was correct, so the sender is to blame for any error."""
    if codec > CODEC_MAX:
        raise UnsupportedCompressionType(f"Unknown codec {codec}{_to(rules)}; 0 to 4 exist.")
    size_max = rules.decompressed_bytes_max
    try:
        return decompress(codec, records[HEADER_BYTES:], min(size_max, bytes_at_once))
    except MessageTooLarge:
        if bytes_at_once < size_max:
            raise TakesLong from None
        raise
    except CorruptMessage as cause:
        raise InvalidRecord(f"{cause}{_to(rules)}") from cause


def _check_claimed_time(
    header: BatchHeader, rules: ProduceRules, now_ms: int, problems: list[tuple[int, int, int]] | None
) -> int:
    """Check the timestamp of a producer that claims LogAppendTime: its records all have the batch's greatest.

    A CreateTime topic accepts that as their time if it is within bounds; otherwise every record is
    refused.
    """
    timestamp = header.max_timestamp
    without_key = {index for index, _kind, _timestamp in problems or ()}
    in_range = timestamp != NO_TIMESTAMP and rules.timestamp_type != LOG_APPEND_TIME
    if in_range:
        age = wrap_64(now_ms - timestamp)
        if age > rules.timestamp_before_max_ms or (
            -age > rules.timestamp_after_max_ms and age != -LONG_MAX - 1
        ):
            kind = kernel.TIMESTAMP_OUTSIDE
        elif not without_key:
            return max(timestamp, NO_TIMESTAMP)
        else:
            kind = kernel.OK
    else:
        kind = _CLAIMS_LOG_APPEND_TIME
    all_problems = []
    for index in range(min(header.record_count, kernel.PROBLEMS_MAX)):
        if index in without_key:
            all_problems.append((index, kernel.NO_KEY, timestamp))
        elif kind:
            all_problems.append((index, kind, timestamp))
    raise _records_refused(all_problems, rules, now_ms)


_CLAIMS_LOG_APPEND_TIME = 100


def _records_refused(
    problems: list[tuple[int, int, int]], rules: ProduceRules, now_ms: int
) -> InvalidRecord | InvalidTimestamp:
    """The error that names the records that break a rule; one bad timestamp makes it InvalidTimestamp."""
    earliest = now_ms - rules.timestamp_before_max_ms
    latest = now_ms + rules.timestamp_after_max_ms
    errors: list[tuple[int, str]] = []
    timestamps = False
    for index, kind, timestamp in problems:
        if kind == kernel.NO_KEY:
            text = f"Compacted topic cannot accept a message without a key{_to(rules)}."
        elif kind == kernel.TIMESTAMP_OUTSIDE:
            timestamps = True
            text = (
                f"Timestamp {timestamp} of message with offset {index} is out of range."
                f" The timestamp should be within [{earliest}, {latest}]."
            )
        else:
            timestamps = True
            text = f"Message with offset {index} is marked LogAppendTime, which only a broker may set."
        errors.append((index, text))
    if timestamps:
        return InvalidTimestamp("One or more records have been rejected due to invalid timestamp", errors)
    shown = "; ".join(f"record {index}: {text}" for index, text in errors[:SHOWN_ERRORS_MAX])
    raise InvalidRecord(
        f"{len(errors)} records of the batch have been rejected; the first are {shown}", errors
    )


def _is_recompressed(attributes: int, rules: ProduceRules) -> bool:
    """Whether the topic requires another codec than the batch has. Control records stay as they are."""
    codec, target = attributes & CODEC_MASK, rules.codec
    return target is not None and target != codec and not (codec == 0 and attributes & CONTROL_BIT)


def _recompressed(content: memoryview, header: BatchHeader, rules: ProduceRules, target: Codec) -> memoryview:
    """Rebuild the batch with the topic's codec; the records' own bytes stay unchanged."""
    packed = compress(target, content, rules.compression_level)
    length_bytes = HEADER_BYTES + len(packed)
    if length_bytes > rules.max_message_bytes:
        raise _batch_too_large(length_bytes, rules)
    batch = bytearray(length_bytes)
    batch[HEADER_BYTES:] = packed
    attributes = header.attributes & KNOWN_BITS & ~CODEC_MASK | target
    write_header(batch, 0, header._replace(length=length_bytes - LOG_OVERHEAD_BYTES, attributes=attributes))
    return memoryview(batch)
