"""Messages from plain dictionaries and back, by their schemas.

`make` leaves out the fields that a version lacks, so that one question serves all versions of an API; `plain`
shows the fields that a version has, with everything masked that differs from one run to the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ottla.wire import codec, uuid
from ottla.wire.message import Message, Struct
from ottla.wire.schema import Field, MessageSchema


def make(cls: type[Message], version: int, fields: Mapping[str, Any]) -> Message:
    """A message of `cls` from nested dictionaries; an unknown field name is an error."""
    schema = codec.schema(cls)
    made = _struct(cls, cls, schema, schema.fields, version, fields)
    assert isinstance(made, Message)
    return made


def _struct(
    cls: type[Struct],
    root: type[Message],
    schema: MessageSchema,
    declared: tuple[Field, ...],
    version: int,
    fields: Mapping[str, Any],
) -> Struct:
    by_name = {field.name: field for field in declared}
    values: dict[str, Any] = {}
    for name, value in fields.items():
        assert name in by_name, f"{cls.__qualname__} has no field {name}: {sorted(by_name)}"
        field = by_name[name]
        if version not in field.versions:
            continue
        if field.is_struct and value is not None:
            inner = schema.structs[field.type]
            nested: type[Struct] = getattr(root, field.type)

            def build(item: Mapping[str, Any], nested: type[Struct] = nested, inner: Any = inner) -> Struct:
                return _struct(nested, root, schema, inner.fields, version, item)

            value = [build(item) for item in value] if field.is_array else build(value)
        values[name] = value
    return cls(**values)


class Masks:
    """Names for values that differ between runs: ids, ports, paths, times. The same value keeps its name."""

    ORDINALS = frozenset({"producer_id", "session_id", "fetch_session_id"})
    # Where a true value is not negative and may be anything.
    NUMBERS = frozenset(
        {
            "log_append_time_ms",
            "total_bytes",
            "usable_bytes",
            "broker_epoch",
            "finalized_features_epoch",
            "last_timestamp",
            "last_fetch_timestamp",
            "last_caught_up_timestamp",
        }
    )

    def __init__(self, salt: str, texts: Mapping[str, str]) -> None:
        self.salt = salt
        self._texts = dict(texts)  # what to replace in strings, longest first
        self._ids: dict[bytes, str] = {uuid.ZERO: "zero"}
        self._ordinals: dict[tuple[str, int], str] = {}

    def learn_id(self, identity: bytes, name: str) -> None:
        self._ids[identity] = f"id of {self.text(name)}"
        self._texts[uuid.to_text(identity)] = self._ids[identity]

    def text(self, value: str) -> str:
        for found, name in sorted(self._texts.items(), key=lambda pair: -len(pair[0])):
            value = value.replace(found, name)
        value = re.sub(r"within \[\d+, \d+\]", "within [then, now]", value)
        return value.replace(self.salt, "~")

    def is_foreign(self, value: object) -> bool:
        """Whether this is the name of a topic of another run."""
        return isinstance(value, str) and bool(re.search(r"-q\d+q$", value)) and self.salt not in value

    def value(self, name: str, value: object) -> object:
        if isinstance(value, bool) or value is None:
            return value
        if name in self.ORDINALS and isinstance(value, int) and value > 0:
            return self._ordinals.setdefault((name, value), f"{name} {len(self._ordinals)}")
        if name in self.NUMBERS and isinstance(value, int) and value >= 0:
            return "number"
        if name == "documentation":
            return "text" if isinstance(value, str) else value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, memoryview | bytes | bytearray):
            return bytes(value).hex()
        return value

    def identity(self, value: bytes) -> str:
        return self._ids.get(bytes(value), "unknown id")


def plain(message: Message, version: int, masks: Masks) -> dict[str, Any]:
    """The fields of a message that its version has, masked; arrays of structs in a fixed order."""
    schema = codec.schema(type(message))
    return _plain(message, schema, schema.fields, version, masks)


def _plain(
    struct: Struct, schema: MessageSchema, declared: tuple[Field, ...], version: int, masks: Masks
) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for field in declared:
        if version not in field.versions:
            continue
        value = getattr(struct, field.name)
        if value is None:
            shown[field.name] = None
        elif field.is_struct and field.is_array:
            inner = schema.structs[field.type].fields
            items = [item for item in value if not masks.is_foreign(_topic_name(item))]
            rows = [_plain(item, schema, inner, version, masks) for item in items]
            shown[field.name] = sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        elif field.is_struct:
            shown[field.name] = _plain(value, schema, schema.structs[field.type].fields, version, masks)
        elif field.type == "uuid":
            shown[field.name] = (
                sorted(map(masks.identity, value)) if field.is_array else masks.identity(value)
            )
        elif field.is_array:
            shown[field.name] = [masks.value(field.name, item) for item in value]
        else:
            shown[field.name] = masks.value(field.name, value)
    if struct.unknown_tagged_fields:
        shown["unknown_tagged_fields"] = struct.unknown_tagged_fields
    return shown


def _topic_name(struct: Struct) -> object:
    for name in ("name", "topic", "topic_name", "resource_name"):
        if name in struct.__slots__:
            return getattr(struct, name)
    return None


_LABELS = ("name", "topic", "topic_name", "resource_name", "partition_index", "partition", "index")


def differences(first: Any, second: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Every place where two plain values differ: (path, first, second)."""
    if isinstance(first, list) and isinstance(second, list):
        first, second = _labelled(first), _labelled(second)
    if not isinstance(first, dict) or not isinstance(second, dict):
        return [] if first == second else [(path, first, second)]
    found = []
    for key in [*first, *(key for key in second if key not in first)]:
        step = key if key.startswith("[") else f".{key}"
        found += differences(first.get(key, "(absent)"), second.get(key, "(absent)"), path + step)
    return found


def _labelled(rows: list[Any]) -> dict[str, Any]:
    """The rows by their key fields, or by their position without any."""
    if rows and all(isinstance(row, dict) for row in rows):
        for label in _LABELS:
            named = {f"[{row.get(label)}]": row for row in rows if label in row}
            if len(named) == len(rows):
                return named
    return {f"[{index}]": row for index, row in enumerate(rows)}
