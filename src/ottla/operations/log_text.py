"""Formats batches and records of a log file like Kafka's dump tool."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from ottla.operations.decoders import Decoder, compact
from ottla.ports import Buffer
from ottla.records.batch import (
    NO_SEQUENCE,
    BatchHeader,
    Codec,
    TimestampType,
    crc_matches,
    increment_sequence,
    iterate_headers,
)
from ottla.records.compression import DECOMPRESSED_BYTES_MAX
from ottla.records.control import ControlType, control_type, coordinator_epoch
from ottla.records.legacy import unwrap
from ottla.records.record import Record, read_batch
from ottla.wire import codec
from ottla.wire.json_form import to_json
from ottla.wire.message import Message

RECORD_INDENT = "|"
_CONTROL_TYPE = struct.Struct(">xxh")
_SHORT = struct.Struct(">h")


class Checksum(NamedTuple):
    """The checksum of a single message, which only the old formats have."""

    value: int
    is_right: bool


def batch_line(buffer: Buffer, position: int, header: BatchHeader) -> str:
    if header.magic >= 2:
        horizon = header.delete_horizon_ms
        start = (
            f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
            f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
            f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
            f" partitionLeaderEpoch: {header.partition_leader_epoch}"
            f" isTransactional: {_truth(header.is_transactional)} isControl: {_truth(header.is_control)}"
            f" deleteHorizonMs: OptionalLong{'.empty' if horizon is None else f'[{horizon}]'}"
        )
    else:
        start = f"offset: {header.last_offset}"
    return (
        f"{start} position: {position} {timestamp_name(header)}: {header.max_timestamp}"
        f" size: {header.length_bytes} magic: {header.magic} compresscodec: {_codec_name(header)}"
        f" crc: {header.crc} isvalid: {_truth(crc_matches(buffer, position, header))}"
    )


def records_of(
    buffer: Buffer, position: int, header: BatchHeader
) -> Iterator[tuple[Record, Checksum | None]]:
    """The records of a batch, each with its own checksum in the old formats."""
    records = read_batch(buffer, position, header, verify=False)
    if header.magic >= 2:
        yield from ((record, None) for record in records)
    elif header.is_compressed:
        content = unwrap(buffer, position, header, DECOMPRESSED_BYTES_MAX)
        for record, (at, inner) in zip(records, iterate_headers(content), strict=True):
            yield record, Checksum(inner.crc, crc_matches(content, at, inner))
    else:
        yield records[0], Checksum(header.crc, crc_matches(buffer, position, header))


def record_line(header: BatchHeader, record: Record, checksum: Checksum | None) -> str:
    """The line of a record, without its key and value."""
    line = (
        f"{RECORD_INDENT} offset: {record.offset} {timestamp_name(header)}: {record.timestamp}"
        f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    )
    if header.magic >= 2:
        names = ",".join(name for name, _ in record.headers)
        line += f" sequence: {_sequence(header, record)} headerKeys: [{names}]"
    if checksum is not None:
        line += f" isValid: {_truth(checksum.is_right)} crc: {checksum.value}"
    if header.is_control:
        line += control_words(record)
    return line


def contents(record: Record, decoder: Decoder, prefix: str) -> str:
    """The decoded key and value."""
    key, payload = decoder(record)
    words = ""
    if key is not None:
        words = f"{prefix}key: {key}"
        prefix = " "
    if payload is not None:
        words += f"{prefix}payload: {payload}"
    return words


def control_words(record: Record) -> str:
    """The contents of a control record."""
    kind = control_type(record.key)
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {coordinator_epoch(record.value)}"
    if kind == ControlType.LEADER_CHANGE:
        return f" LeaderChange: {_control_json('LeaderChangeMessage', record)}"
    if kind == ControlType.SNAPSHOT_HEADER:
        return f" SnapshotHeader {_control_json('SnapshotHeaderRecord', record)}"
    if kind == ControlType.SNAPSHOT_FOOTER:
        return f" SnapshotFooter {_control_json('SnapshotFooterRecord', record)}"
    if kind == ControlType.KRAFT_VERSION:
        return f" KRaftVersion {_control_json('KRaftVersionRecord', record)}"
    if kind == ControlType.KRAFT_VOTERS:
        return f" KRaftVoters {_control_json('VotersRecord', record)}"
    (number,) = _CONTROL_TYPE.unpack_from(record.key or b"")
    return f" controlType: UNKNOWN({number})"


def timestamp_name(header: BatchHeader) -> str:
    if header.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if header.timestamp_type == TimestampType.LOG_APPEND_TIME else "CreateTime"


def _control_json(name: str, record: Record) -> str:
    from ottla.wire.messages import protocol_data

    cls: type[Message] = getattr(protocol_data, name)
    value = record.value or b""
    version = min(_SHORT.unpack_from(value)[0], cls.VERSIONS[-1])
    return compact(to_json(codec.decode(cls, value, version, exact=False), version))


def _codec_name(header: BatchHeader) -> str:
    return Codec(header.codec).config_name if header.codec <= max(Codec) else f"unknown ({header.codec})"


def _sequence(header: BatchHeader, record: Record) -> int:
    if header.base_sequence == NO_SEQUENCE:
        return NO_SEQUENCE
    return increment_sequence(header.base_sequence, record.offset - header.base_offset)


def _size(value: bytes | None) -> int:
    return -1 if value is None else len(value)


def _truth(value: bool) -> str:
    return "true" if value else "false"
