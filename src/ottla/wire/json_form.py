"""Messages as JSON values, as Kafka's tools print them.

Names are camel case, ids are text, bytes are base64. Fields that a version lacks are omitted, and so are
tagged fields with their default.
"""

from __future__ import annotations

import base64
import math
import re
from functools import cache
from typing import Any

from ottla.wire.codec import schema
from ottla.wire.message import Message
from ottla.wire.schema import Field, MessageSchema
from ottla.wire.uuid import ZERO, to_text

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def to_json(message: Message, version: int) -> dict[str, Json]:
    """All fields in `version` of a message."""
    declared = schema(type(message))
    return _struct(message, declared.fields, declared, version)


def _struct(value: Any, fields: tuple[Field, ...], declared: MessageSchema, version: int) -> dict[str, Json]:
    result: dict[str, Json] = {}
    for field in fields:
        if version not in field.versions:
            continue
        part = getattr(value, field.name)
        if field.is_tagged(version) and _is_default(field, part, declared, version):
            continue
        result[_camel(field.name)] = _value(field, part, declared, version)
    return result


def _value(field: Field, value: Any, declared: MessageSchema, version: int) -> Json:
    if value is None:
        return None
    if field.is_array:
        return [_one(field, element, declared, version) for element in value]
    return _one(field, value, declared, version)


def _one(field: Field, value: Any, declared: MessageSchema, version: int) -> Json:
    if field.is_struct:
        return _struct(value, declared.structs[field.type].fields, declared, version)
    if field.type == "uuid":
        return to_text(value)
    if field.type == "records":
        return ""  # batches are not printed
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    if field.type == "float64" and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    plain: bool | int | float | str = value
    return plain


def _is_default(field: Field, value: Any, declared: MessageSchema, version: int) -> bool:
    if field.starts_null or value is None:
        return field.starts_null and value is None
    if field.is_array:
        return not value
    if field.is_struct:
        return not value.unknown_tagged_fields and all(
            _is_default(inner, getattr(value, inner.name), declared, version)
            for inner in declared.structs[field.type].fields
            if version in inner.versions
        )
    if field.type == "bool":
        return bool(value) == (field.default == "true")
    if field.type == "string":
        return bool(value == (field.default or ""))
    if field.type == "uuid":
        return bool(value == ZERO)
    if field.type == "bytes":
        return not value
    return bool(
        value == (float(field.default or 0) if field.type == "float64" else int(field.default or "0", 0))
    )


@cache
def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda match: match[1].upper(), name)
