"""Encodes and decodes coordinator records.

A key is the type of the record as an int16, then the key's message; a value is its version as an int16, then
the message. A record of an unknown type (from a later version) decodes to None and stays in the log.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import ModuleType

from ottla.coordinator.encoded_record import EncodedRecord
from ottla.coordinator.result import Record
from ottla.wire import codec
from ottla.wire.errors import MalformedMessage
from ottla.wire.message import Message

_SHORT = struct.Struct(">h")

Kinds = Mapping[int, tuple[type[Message], type[Message]]]
"""Record type -> (class of its key, class of its value)."""


def kinds_of(module: ModuleType) -> dict[int, tuple[type[Message], type[Message]]]:
    """The kinds of records in a module of messages: a key and a value with the same number."""
    keys: dict[int, type[Message]] = {}
    values: dict[int, type[Message]] = {}
    for message in vars(module).values():
        if isinstance(message, type) and issubclass(message, Message) and message is not Message:
            assert message.API_KEY is not None
            if message.KIND == "coordinator-key":
                keys[message.API_KEY] = message
            elif message.KIND == "coordinator-value":
                values[message.API_KEY] = message
    return {number: (keys[number], values[number]) for number in keys if number in values}


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """(key, value) as in the log."""
    if isinstance(record, EncodedRecord):
        return record.key_bytes, record.value_bytes
    key = record.key
    assert key.API_KEY is not None
    value = record.value
    return (
        _SHORT.pack(key.API_KEY) + codec.encode(key, 0),
        None if value is None else _SHORT.pack(record.version) + codec.encode(value, record.version),
    )


def decode(kinds: Kinds, key: bytes | None, value: bytes | None) -> Record | None:
    """The record; None for a type that is not known. MalformedMessage if it cannot be read."""
    if key is None:
        raise MalformedMessage("a record without a key")
    try:
        (number,) = _SHORT.unpack_from(key)
        kind = kinds.get(number)
        if kind is None:
            return None
        key_class, value_class = kind
        decoded_key = codec.decode(key_class, memoryview(key), 0, 2)
        if value is None:
            return Record(decoded_key, None)
        (version,) = _SHORT.unpack_from(value)
    except struct.error as error:
        raise MalformedMessage(str(error)) from error
    if version not in value_class.VERSIONS:
        raise MalformedMessage(f"version {version} of {value_class.NAME} is not known")
    return Record(decoded_key, codec.decode(value_class, memoryview(value), version, 2), version)
