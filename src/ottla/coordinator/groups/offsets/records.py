"""OffsetCommit records as bytes: encoded when a client commits, decoded when a client fetches the offset.

A committed offset is stored as the value of its record, as in the log: that takes a third of the memory of an
object with fields, and a load needs no decoding. Commits without metadata, which nearly all are, have a fixed
layout and are packed and read here; the codec handles the others.
"""

from __future__ import annotations

from struct import Struct

from ottla.coordinator.encoded_record import EncodedRecord
from ottla.wire import codec
from ottla.wire.errors import MalformedMessage
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from ottla.wire.uuid import ZERO

KEY_TYPE = b"\0\1"
PARTITION_BYTES = 4
"""A key ends with the partition; before that come the type, the group and the topic."""

VERSION = 4
VERSION_WITH_EXPIRY = 1

NO_EXPIRY = -1

_LENGTH = Struct(">h")
_partition_bytes = Struct(">i").pack
_PLAIN = Struct(">hqiBqBBB16s")
"""Version 4 without metadata: version, offset, leader epoch, length + 1 of the metadata, commit time, and the
topic id as a tagged field: count, tag, size, id."""
_PLAIN_METADATA_AT = 14
_PLAIN_TIME = Struct(">q")
_PLAIN_TIME_AT = 15
_PLAIN_BYTES_MIN = _PLAIN_TIME_AT + _PLAIN_TIME.size + 1
_TOPIC_ID_FIELD = b"\1\0\x10"
_PLAIN_START = VERSION.to_bytes(2, "big")
_NO_METADATA = b"\1"
_plain_bytes = _PLAIN.pack
_time_bytes = _PLAIN_TIME.pack


class OffsetRecord(EncodedRecord):
    """A commit or, without a value, its tombstone."""

    __slots__ = ("group_id", "partition", "topic")

    def __init__(
        self, group_id: str, topic: str, partition: int, key_bytes: bytes, value_bytes: bytes | None
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.key_bytes = key_bytes
        self.value_bytes = value_bytes

    @property
    def key(self) -> OffsetCommitKey:
        return OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)

    @property
    def value(self) -> OffsetCommitValue | None:
        return None if self.value_bytes is None else read_value(self.value_bytes)

    @property
    def version(self) -> int:
        return 0 if self.value_bytes is None else version_of(self.value_bytes)


def tombstone(group_id: str, topic: str, partition: int) -> OffsetRecord:
    """The record that deletes a committed offset."""
    return OffsetRecord(
        group_id, topic, partition, key_prefix(group_id, topic) + _partition_bytes(partition), None
    )


def key_prefix(group_id: str, topic: str) -> bytes:
    """The prefix of the keys of all partitions of a topic."""
    group = group_id.encode()
    name = topic.encode()
    return KEY_TYPE + _LENGTH.pack(len(group)) + group + _LENGTH.pack(len(name)) + name


def key_bytes(prefix: bytes, partition: int) -> bytes:
    return prefix + _partition_bytes(partition)


def value_bytes(
    offset: int,
    leader_epoch: int,
    metadata: str | None,
    commit_timestamp: int,
    topic_id: bytes,
    expire_timestamp: int = NO_EXPIRY,
) -> bytes:
    """The value of a commit, in the version that Kafka writes."""
    if not metadata and topic_id != ZERO and expire_timestamp == NO_EXPIRY:
        return _plain_bytes(VERSION, offset, leader_epoch, 1, commit_timestamp, 1, 0, 16, topic_id)
    value = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata or "",
        commit_timestamp=commit_timestamp,
        expire_timestamp=expire_timestamp,
        topic_id=topic_id,
    )
    return bytes_of(value, VERSION if expire_timestamp == NO_EXPIRY else VERSION_WITH_EXPIRY)


def plain_value_parts(commit_timestamp: int, topic_id: bytes) -> tuple[bytes, bytes]:
    """Of the value of a commit without metadata: the bytes before and after offset and leader epoch."""
    return _PLAIN_START, _NO_METADATA + _time_bytes(commit_timestamp) + _TOPIC_ID_FIELD + topic_id


def bytes_of(value: OffsetCommitValue, version: int) -> bytes:
    """A value as in the log."""
    return version.to_bytes(2, "big") + codec.encode(value, version)


def version_of(value: bytes) -> int:
    return int.from_bytes(value[:2], "big")


def read_value(value: bytes) -> OffsetCommitValue:
    """The decoded value. MalformedMessage if it cannot be read."""
    version = int.from_bytes(value[:2], "big")
    if version not in OffsetCommitValue.VERSIONS:
        raise MalformedMessage(f"version {version} of {OffsetCommitValue.NAME} is not known")
    return codec.decode(OffsetCommitValue, value, version, 2)


def is_sound(value: bytes) -> bool:
    """Whether a value has the current version and ASCII metadata and can be read: a fast check.

    `read_value` checks other values.
    """
    size = len(value)
    if size < _PLAIN_BYTES_MIN or value[0] or value[1] != VERSION:
        return False
    text_bytes = value[_PLAIN_METADATA_AT]  # length + 1
    end = _PLAIN_METADATA_AT + text_bytes + _PLAIN_TIME.size
    if not 0 < text_bytes < 0x80 or (
        text_bytes > 1 and not value[_PLAIN_TIME_AT : _PLAIN_METADATA_AT + text_bytes].isascii()
    ):
        return False
    rest = value[end : end + 3]
    return (rest == _TOPIC_ID_FIELD and size == end + 3 + 16) or (rest == b"\0" and size == end + 1)


def read_key(key: bytes) -> tuple[str, str, int]:
    """(group id, topic, partition) of a key of this type."""
    message = codec.decode(OffsetCommitKey, key, 0, 2)
    return message.group, message.topic, message.partition


def times_of(value: bytes) -> tuple[int, int]:
    """(commit time, expiry time or -1), without decoding if the layout is the fixed one."""
    if value[1] == VERSION and value[_PLAIN_METADATA_AT] == 1:
        return _PLAIN_TIME.unpack_from(value, _PLAIN_TIME_AT)[0], NO_EXPIRY
    message = read_value(value)
    return message.commit_timestamp, message.expire_timestamp
