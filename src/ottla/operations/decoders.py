"""Decoders for the records of a log: text, numbers, or the records of an internal topic.

A decoder returns the texts after `key:` and `payload:` in the output of Kafka's dump tool; None omits one. An
undecodable record yields an error text instead, and the dump continues.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from types import ModuleType

from ottla.coordinator import records as coordinator_records
from ottla.records.record import Record
from ottla.wire import codec
from ottla.wire.errors import MalformedMessage
from ottla.wire.json_form import Json, to_json
from ottla.wire.message import Message

Words = tuple[str | None, str | None]
Decoder = Callable[[Record], Words]
ValueDecoder = Callable[[bytes], str]

_SHORT = struct.Struct(">h")


class DecodeError(Exception):
    """A record that the chosen decoder cannot decode."""


def plain(key: ValueDecoder, value: ValueDecoder) -> Decoder:
    """A decoder with separate decoders for keys and values."""

    def decode(record: Record) -> Words:
        return (
            None if record.key is None else key(record.key),
            None if record.value is None else value(record.value),
        )

    return decode


def by_class_name(name: str) -> ValueDecoder:
    """A value decoder by the name of Kafka's class, with or without the package."""
    decoder = _VALUE_DECODERS.get(name.rpartition(".")[2])
    if decoder is None:
        known = ", ".join(_VALUE_DECODERS)
        raise DecodeError(f"Unknown decoder {name}. Known decoders: {known}.")
    return decoder


def cluster_metadata() -> Decoder:
    from ottla.controller.records import decode_versioned

    def decode(record: Record) -> Words:
        try:
            message, version = decode_versioned(record.value or b"")
        except MalformedMessage as error:
            return None, f"Error at {record.offset}, skipping. {error}"
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", message.NAME).upper()
        return None, compact({"type": kind, "version": version, "data": to_json(message, version)})

    return decode


def offsets() -> Decoder:
    """The records of `__consumer_offsets`."""
    from ottla.wire.messages import group_records

    return _coordinator(group_records, {"GroupMetadataValue": _with_members_read})


def transaction_log() -> Decoder:
    """The records of `__transaction_state`."""
    from ottla.wire.messages import transaction_records

    return _coordinator(transaction_records, {})


def share_group_state() -> Decoder:
    """The records of `__share_group_state`."""
    from ottla.wire.messages import share_records

    return _coordinator(share_records, {})


def compact(value: Json) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


_Reading = Callable[[Message, dict[str, Json]], None]


def _coordinator(module: ModuleType, further: Mapping[str, _Reading]) -> Decoder:
    kinds = coordinator_records.kinds_of(module)

    def decode(record: Record) -> Words:
        if record.key is None:
            raise DecodeError(
                f"Failed to decode message at offset {record.offset} using the specified decoder"
                " (message had a missing key)"
            )
        try:
            found = coordinator_records.decode(kinds, record.key, record.value)
        except MalformedMessage as error:
            return f"Error at offset {record.offset}, skipping. {error}", None
        if found is None:
            (kind,) = _SHORT.unpack_from(record.key)
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key = compact({"type": str(found.key.API_KEY), "data": to_json(found.key, 0)})
        if found.value is None:
            return key, "<DELETE>"
        data = to_json(found.value, found.version)
        if found.value.NAME in further:
            further[found.value.NAME](found.value, data)
        return key, compact({"version": str(found.version), "data": data})

    return decode


def _with_members_read(group: Message, data: dict[str, Json]) -> None:
    """Replace the consumer protocol bytes of group members with their JSON."""
    from ottla.wire.messages.group_records import GroupMetadataValue
    from ottla.wire.messages.protocol_data import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    assert isinstance(group, GroupMetadataValue)
    shown = data["members"]
    if group.protocol_type != "consumer" or not isinstance(shown, list):
        return
    for member, text in zip(group.members, shown, strict=True):
        assert isinstance(text, dict)
        for name, cls, content in (
            ("subscription", ConsumerProtocolSubscription, member.subscription),
            ("assignment", ConsumerProtocolAssignment, member.assignment),
        ):
            read = _versioned_json(cls, content)
            if read is not None:
                text[name] = read


def _versioned_json(cls: type[Message], content: bytes) -> Json:
    """Decode a message prefixed with its version; None if it is invalid."""
    try:
        (version,) = _SHORT.unpack_from(content)
        return to_json(codec.decode(cls, content, version, _SHORT.size, exact=False), version)
    except (struct.error, MalformedMessage, ValueError):
        return None


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _number(value: bytes) -> str:
    return str(int.from_bytes(value, "big", signed=True))


_VALUE_DECODERS: dict[str, ValueDecoder] = {
    "StringDecoder": _text,
    "IntegerDecoder": _number,
    "LongDecoder": _number,
    "DefaultDecoder": bytes.hex,
}
