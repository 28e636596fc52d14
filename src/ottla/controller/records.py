"""Metadata records as bytes: the values of the records of `__cluster_metadata`.

A value is three unsigned varints (frame version 1, the record's api key, the record's version) and the
message. The cluster's metadata.version alone determines the version to write, so that every node of that
level can read it; only `version_of` implements this rule.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.wire import codec
from ottla.wire.errors import MalformedMessage
from ottla.wire.message import Buffer, Message
from ottla.wire.messages import metadata_records
from ottla.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from ottla.wire.primitives import read_unsigned_varint, unsigned_varint

FRAME_VERSION = 1

RECORD_CLASSES: dict[int, type[Message]] = {
    candidate.API_KEY: candidate
    for candidate in vars(metadata_records).values()
    if isinstance(candidate, type) and issubclass(candidate, Message) and candidate is not Message
    if candidate.API_KEY is not None
}

# The first metadata.version with ...
MIGRATION_LEVEL = 8  # 3.4-IV0
DIRECTORY_ASSIGNMENT_LEVEL = 17  # 3.7-IV2
ELIGIBLE_LEADER_REPLICAS_LEVEL = 23  # 4.0-IV1
CORDONED_DIRECTORIES_LEVEL = 30  # 4.3-IV0

_encoders: dict[tuple[type[Message], int], tuple[bytes, Callable[[Message], bytes]]] = {}


def version_of(record: Message, metadata_version: int) -> int:
    """The version of a record in the log of a cluster at `metadata_version`."""
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        if metadata_version >= ELIGIBLE_LEADER_REPLICAS_LEVEL:
            return 2
        return 1 if metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL else 0
    if isinstance(record, RegisterBrokerRecord):
        if metadata_version >= CORDONED_DIRECTORIES_LEVEL:
            return 4
        if metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL:
            return 3
        return 2 if metadata_version >= MIGRATION_LEVEL else 1
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return 0


def encode_record(record: Message, metadata_version: int) -> bytes:
    """Encode `record` as the value of a log record."""
    cls = type(record)
    version = version_of(record, metadata_version)
    entry = _encoders.get((cls, version))
    if entry is None:
        api_key = cls.API_KEY
        if api_key is None or cls.KIND != "metadata":
            raise ValueError(f"{cls.NAME} is not a metadata record.")
        prefix = bytes((FRAME_VERSION,)) + unsigned_varint(api_key) + unsigned_varint(version)
        entry = _encoders[cls, version] = (prefix, codec.encoder(cls, version))
    return entry[0] + entry[1](record)


def decode_record(value: Buffer) -> Message:
    """Decode a value; MalformedMessage if it contains no record that this version knows."""
    return decode_versioned(value)[0]


def decode_versioned(value: Buffer) -> tuple[Message, int]:
    """The same, with the version of the record."""
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        if frame_version != FRAME_VERSION:
            raise MalformedMessage(
                f"Unsupported frame version {frame_version} of a metadata record; only 1 is supported."
            )
        api_key, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError:
        raise MalformedMessage("A metadata record is truncated inside its frame.") from None
    cls = RECORD_CLASSES.get(api_key)
    if cls is None:
        raise MalformedMessage(f"Unknown metadata record type {api_key}.")
    if version not in cls.VERSIONS:
        raise MalformedMessage(
            f"Unsupported version {version} of {cls.NAME}; supported are {cls.VERSIONS[0]} to "
            f"{cls.VERSIONS[-1]}."
        )
    return codec.decode(cls, value, version, position), version
