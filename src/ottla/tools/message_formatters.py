"""The formatters of the console consumer, by the names of their Java classes.

A formatter turns a record into the bytes to print. The formatters of internal topics print the text of Kafka
4.3 under their current class names, and the text of versions before 4.0 under the old ones.
"""

from __future__ import annotations

import json
import logging
import struct
import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla.operations import java_order

if TYPE_CHECKING:
    from ottla.coordinator.result import Record
    from ottla.records.consumer_record import ConsumerRecord

log = logging.getLogger(__name__)

Formatter = Callable[["ConsumerRecord[bytes | None, bytes | None]"], bytes]
Deserializer = Callable[[bytes], str]

_NOW = "org.apache.kafka.tools.consumer."
_OLD_OFFSETS = ("kafka.coordinator.group.GroupMetadataManager$", "kafka.coordinator.GroupMetadataManager$")
_OLD_TRANSACTIONS = "kafka.coordinator.transaction.TransactionLog$"
DEFAULT = f"{_NOW}DefaultMessageFormatter"
_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT, _GROUP_METADATA = 0, 1, 2


class CannotShow(Exception):
    """A record that the formatter does not support or cannot decode."""


def formatter_of(name: str, properties: Mapping[str, str]) -> Formatter | None:
    """The formatter of a class; None for an unknown name."""
    maker = _MAKERS.get(name)
    return None if maker is None else maker(properties)


# Records of any topic


class _Default:
    """Prints the key, the value and other requested parts, with separators."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def wants(name: str, default: str = "false") -> bool:
            return properties.get(f"print.{name}", default).strip().lower() == "true"

        self._deserialize_key = _deserializer(properties, "key.deserializer")
        self._deserialize_value = _deserializer(properties, "value.deserializer")
        self._deserialize_headers = _deserializer(properties, "headers.deserializer")
        parts: dict[str, Formatter] = {
            "timestamp": self._timestamp,
            "partition": lambda record: b"Partition:%d" % record.partition,
            "offset": lambda record: b"Offset:%d" % record.offset,
            "delivery": lambda record: b"Delivery:NOT_PRESENT",
            "epoch": lambda record: b"Epoch:NOT_PRESENT",
            "headers": self._headers,
            "key": lambda record: self._shown(record.key, self._deserialize_key),
            "value": lambda record: self._shown(record.value, self._deserialize_value),
        }
        self._parts = [part for name, part in parts.items() if wants(name, str(name == "value"))]
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_end = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()

    def __call__(self, record: ConsumerRecord[bytes | None, bytes | None]) -> bytes:
        if not self._parts:
            return b""
        return self._separator.join([part(record) for part in self._parts]) + self._line_end

    def _timestamp(self, record: ConsumerRecord[Any, Any]) -> bytes:
        return f"{record.timestamp_type}:{record.timestamp}".encode()

    def _headers(self, record: ConsumerRecord[Any, Any]) -> bytes:
        shown = [
            name.encode() + b":" + self._shown(value, self._deserialize_headers)
            for name, value in record.headers
        ]
        return self._headers_separator.join(shown) if shown else b"NO_HEADERS"

    def _shown(self, content: bytes | None, deserialize: Deserializer | None) -> bytes:
        content = self._null if content is None else content
        return content if deserialize is None else deserialize(content).encode()


def _logging(properties: Mapping[str, str]) -> Formatter:
    default = _Default(properties)

    def show(record: ConsumerRecord[bytes | None, bytes | None]) -> bytes:
        log.info("%s:%s, key:%r, value:%r", record.timestamp_type, record.timestamp, record.key, record.value)
        return default(record)

    return show


def _no_op(properties: Mapping[str, str]) -> Formatter:
    return lambda record: b""


# Keys and values by the names of Java's classes


def _deserializer(properties: Mapping[str, str], name: str) -> Deserializer | None:
    if name not in properties:
        return None
    kind = properties[name].rpartition(".")[2]
    if kind == "StringDeserializer":
        encoding = properties.get(f"{name}.{name.partition('.')[0]}.deserializer.encoding")
        encoding = encoding or properties.get(f"{name}.deserializer.encoding") or "utf-8"
        return lambda content: content.decode(encoding, "replace")
    found = _DESERIALIZERS.get(kind)
    if found is None:
        print(f"Unable to instantiate a deserializer from {properties[name]}", file=sys.stderr)
    return found


def _number(kind: str, layout: str, text: Callable[[Any], str]) -> Deserializer:
    form = struct.Struct(f">{layout}")

    def deserialize(content: bytes) -> str:
        if len(content) != form.size:
            raise CannotShow(f"Size of data received by {kind}Deserializer is not {form.size}")
        return text(form.unpack(content)[0])

    return deserialize


def _float_text(value: float) -> str:
    """Format a 32-bit float with just enough digits to identify it."""
    texts = [f"{value:.{digits}g}" for digits in range(1, 10)]
    exact = struct.pack(">f", value)
    return java_order.double_text(
        float(next((t for t in texts if struct.pack(">f", float(t)) == exact), texts[-1]))
    )


def _uuid(content: bytes) -> str:
    from uuid import UUID

    try:
        return str(UUID(content.decode()))
    except ValueError as error:
        raise CannotShow(f"Error parsing data into UUID: {error}") from error


def _bytes_text(content: bytes) -> str:
    """Format bytes like Kafka's class Bytes."""
    return "".join(chr(one) if 32 <= one < 127 and one != 92 else f"\\x{one:02X}" for one in content)


_DESERIALIZERS: dict[str, Deserializer] = {
    "ShortDeserializer": _number("Short", "h", str),
    "IntegerDeserializer": _number("Integer", "i", str),
    "LongDeserializer": _number("Long", "q", str),
    "FloatDeserializer": _number("Float", "f", _float_text),
    "DoubleDeserializer": _number("Double", "d", java_order.double_text),
    "BooleanDeserializer": _number("Boolean", "?", lambda value: str(value).lower()),
    "UUIDDeserializer": _uuid,
    "BytesDeserializer": _bytes_text,
    "ByteArrayDeserializer": lambda content: content.decode(errors="replace"),
}


# Records of internal topics


def _read(module: ModuleType) -> Callable[[Any], Record | None]:
    from ottla.coordinator import records
    from ottla.wire.errors import MalformedMessage

    kinds = records.kinds_of(module)

    def read(record: ConsumerRecord[bytes | None, bytes | None]) -> Record | None:
        if record.key is None:
            return None
        try:
            return records.decode(kinds, record.key, record.value)
        except MalformedMessage as error:
            raise CannotShow(f"Could not read record at offset {record.offset} due to: {error}") from error

    return read


def _as_json(module: ModuleType, wanted: Collection[int]) -> Formatter:
    from ottla.wire.json_form import Json, to_json

    read = _read(module)

    def show(record: ConsumerRecord[bytes | None, bytes | None]) -> bytes:
        found = read(record)
        if found is None or found.key.API_KEY not in wanted:
            return b""
        value: Json = None
        if found.value is not None:
            value = {"version": found.version, "data": to_json(found.value, found.version)}
        shown = {"key": {"type": found.key.API_KEY, "data": to_json(found.key, 0)}, "value": value}
        return json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()

    return show


def _offsets(properties: Mapping[str, str]) -> Formatter:
    from ottla.wire.messages import group_records

    return _as_json(group_records, {_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT})


def _group_metadata(properties: Mapping[str, str]) -> Formatter:
    from ottla.wire.messages import group_records

    return _as_json(group_records, {_GROUP_METADATA})


def _transaction_log(properties: Mapping[str, str]) -> Formatter:
    from ottla.wire.messages import transaction_records

    return _as_json(transaction_records, {0})


def _share_group_state(properties: Mapping[str, str]) -> Formatter:
    from ottla.wire.messages import share_records

    return _as_json(share_records, {0, 1})


# The output format of versions before 4.0


def _old_offsets(properties: Mapping[str, str]) -> Formatter:
    from ottla.wire.messages import group_records

    read = _read(group_records)

    def show(record: ConsumerRecord[bytes | None, bytes | None]) -> bytes:
        found = read(record)
        if found is None or found.key.API_KEY not in (_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT):
            return b""
        key: Any = found.key
        return _line(f"[{key.group},{key.topic},{key.partition}]", _old_offset(found.value))

    return show


def _old_offset(value: Any) -> str | None:
    if value is None:
        return None
    epoch = getattr(value, "leader_epoch", -1)
    expires = getattr(value, "expire_timestamp", -1)
    return (
        f"OffsetAndMetadata(offset={value.offset}"
        f", leaderEpoch={'Optional.empty' if epoch < 0 else f'Optional[{epoch}]'}"
        f", metadata={value.metadata}, commitTimestamp={value.commit_timestamp}"
        f", expireTimestamp={_option(None if expires < 0 else expires)})"
    )


def _old_group_metadata(properties: Mapping[str, str]) -> Formatter:
    from ottla.wire.messages import group_records

    read = _read(group_records)

    def show(record: ConsumerRecord[bytes | None, bytes | None]) -> bytes:
        found = read(record)
        if found is None or found.key.API_KEY != _GROUP_METADATA:
            return b""
        key: Any = found.key
        return _line(key.group, _old_group(key.group, found.value))

    return show


def _old_group(group: str, value: Any) -> str | None:
    if value is None:
        return None
    members = ", ".join(
        f"{one.member_id} -> MemberMetadata(memberId={one.member_id}"
        f", groupInstanceId={_option(one.group_instance_id)}, clientId={one.client_id}"
        f", clientHost={one.client_host}, sessionTimeoutMs={one.session_timeout}"
        f", rebalanceTimeoutMs={one.rebalance_timeout}, supportedProtocols=List({value.protocol}))"
        for one in value.members
    )
    return (
        f"GroupMetadata(groupId={group}, generation={value.generation}"
        f", protocolType={_option(value.protocol_type)}"
        f", currentState={'Stable' if value.members else 'Empty'}, members=HashMap({members}))"
    )


def _old_transaction_log(properties: Mapping[str, str]) -> Formatter:
    from ottla.wire.messages import transaction_records

    read = _read(transaction_records)

    def show(record: ConsumerRecord[bytes | None, bytes | None]) -> bytes:
        found = read(record)
        if found is None:
            return b""
        key: Any = found.key
        return _line(key.transactional_id, _old_transaction(key.transactional_id, found.value))

    return show


_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def _old_transaction(name: str, value: Any) -> str | None:
    if value is None:
        return None
    partitions = ", ".join(
        f"{of_topic.topic}-{index}"
        for of_topic in value.transaction_partitions or ()
        for index in of_topic.partition_ids
    )
    return (
        f"TransactionMetadata(transactionalId={name}, producerId={value.producer_id}"
        f", producerEpoch={value.producer_epoch}, txnTimeoutMs={value.transaction_timeout_ms}"
        f", state={_STATES[value.transaction_status]}, pendingState=None"
        f", topicPartitions=HashSet({partitions})"
        f", txnStartTimestamp={value.transaction_start_timestamp_ms}"
        f", txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms})"
    )


def _line(key: str, value: str | None) -> bytes:
    return f"{key}::{'NULL' if value is None else value}\n".encode()


def _option(value: object | None) -> str:
    return "None" if value is None else f"Some({value})"


_MAKERS: dict[str, Callable[[Mapping[str, str]], Formatter]] = {
    DEFAULT: _Default,
    "kafka.tools.DefaultMessageFormatter": _Default,
    f"{_NOW}LoggingMessageFormatter": _logging,
    "kafka.tools.LoggingMessageFormatter": _logging,
    f"{_NOW}NoOpMessageFormatter": _no_op,
    "kafka.tools.NoOpMessageFormatter": _no_op,
    f"{_NOW}OffsetsMessageFormatter": _offsets,
    f"{_NOW}GroupMetadataMessageFormatter": _group_metadata,
    f"{_NOW}TransactionLogMessageFormatter": _transaction_log,
    f"{_NOW}ShareGroupMessageFormatter": _share_group_state,
    f"{_OLD_TRANSACTIONS}TransactionLogMessageFormatter": _old_transaction_log,
}
for _place in _OLD_OFFSETS:
    _MAKERS[f"{_place}OffsetsMessageFormatter"] = _old_offsets
    _MAKERS[f"{_place}GroupMetadataMessageFormatter"] = _old_group_metadata
