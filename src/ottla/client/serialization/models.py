"""Dataclasses to JSON and back, by the types of their fields.

Fields are written by name; bytes as base64, times in ISO format, sets as lists. Reading accepts the same, and
the types must match: an error names the path of the field. Fields that a class does not have are ignored, and
missing ones take their defaults. For anything else use pydantic or msgspec.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union
from uuid import UUID

T = TypeVar("T")

_DEPTH_MAX = 100


def to_json(value: Any) -> bytes:
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def from_json(kind: type[T], data: bytes) -> T:
    found: T = _made(kind, json.loads(data), "", 0)
    return found


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, Enum)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"cannot write a {type(value).__name__} as JSON")


def _key(name: Any) -> str:
    plain = _plain(name)
    if not isinstance(plain, str):
        raise TypeError(f"the dict key {name!r} is not a string")
    return plain


_WRITERS: dict[Any, Callable[[Any], Any]] = {
    Enum: lambda value: _plain(value.value),
    datetime: datetime.isoformat,
    date: date.isoformat,
    time: time.isoformat,
    UUID: str,
    Decimal: str,
    bytes: lambda value: base64.b64encode(value).decode(),
}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _made(kind: Any, value: Any, path: str, depth: int) -> Any:
    """Convert a JSON value to a type."""
    if depth > _DEPTH_MAX:
        raise ValueError(f"{path or 'it'} is nested too deeply")
    if kind is Any or kind is object:
        return value
    origin = typing.get_origin(kind)
    if origin is not None:
        return _generic(origin, typing.get_args(kind), kind, value, path, depth)
    if kind is None or kind is type(None):
        return _checked(value is None, None, value, "null", path)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, path, depth)
    if isinstance(kind, type):
        return _simple(kind, value, path)
    raise TypeError(f"{path or 'it'} has the type {kind}, which cannot be read from JSON")


def _dataclass(kind: Any, value: Any, path: str, depth: int) -> Any:
    _checked(isinstance(value, dict), None, value, f"an object for {kind.__name__}", path)
    hints = _hints(kind)
    given = {
        field.name: _made(hints[field.name], value[field.name], f"{path}.{field.name}".lstrip("."), depth + 1)
        for field in dataclasses.fields(kind)
        if field.init and field.name in value
    }
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(f"{path or 'it'} is not a {kind.__name__}: {error}") from error


def _simple(kind: type, value: Any, path: str) -> Any:
    if issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise ValueError(f"{path or 'it'}: {error}") from error
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    read = _READERS.get(kind)
    if read is not None:
        try:
            return read(_checked(isinstance(value, str), value, value, f"a string for {kind.__name__}", path))
        except (ValueError, ArithmeticError) as error:
            raise ValueError(f"{path or 'it'} is not a {kind.__name__}: {value!r}") from error
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return _checked(fits, value, value, f"a {kind.__name__}", path)


_READERS: dict[type, Callable[[str], Any]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    UUID: UUID,
    Decimal: Decimal,
    bytes: lambda text: base64.b64decode(text, validate=True),
}


def _generic(origin: Any, arguments: tuple[Any, ...], kind: Any, value: Any, path: str, depth: int) -> Any:
    if origin in (Union, types.UnionType):
        return _union(arguments, value, path, depth)
    if origin is Literal:
        return _checked(value in arguments, value, value, f"one of {list(arguments)}", path)
    if origin is typing.Annotated:
        return _made(arguments[0], value, path, depth)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        _checked(isinstance(value, dict), None, value, "an object", path)
        return {
            _made(arguments[0], name, path, depth + 1): _made(
                arguments[1], item, f"{path}[{name!r}]", depth + 1
            )
            for name, item in value.items()
        }
    _checked(isinstance(value, list), None, value, "an array", path)
    if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
        _checked(len(value) == len(arguments), None, value, f"an array of {len(arguments)}", path)
        pairs = zip(arguments, value, strict=True)
        return tuple(_made(one, item, f"{path}[{i}]", depth + 1) for i, (one, item) in enumerate(pairs))
    items = [_made(arguments[0], item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
    makers: dict[Any, Callable[[list[Any]], Any]] = {tuple: tuple, set: set, frozenset: frozenset}
    return makers.get(origin, list)(items)


def _union(arguments: tuple[Any, ...], value: Any, path: str, depth: int) -> Any:
    """The first type that matches."""
    if value is None and type(None) in arguments:
        return None
    faults = []
    for one in arguments:
        if one is not type(None):
            try:
                return _made(one, value, path, depth + 1)
            except (TypeError, ValueError) as error:
                faults.append(str(error))
    raise ValueError("; ".join(faults))


def _checked(fits: bool, result: Any, value: Any, wanted: str, path: str) -> Any:
    if not fits:
        raise ValueError(f"{path or 'it'} must be {wanted}, not {value!r:.50}")
    return result
