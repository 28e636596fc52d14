"""Every message class, and instances of them: drawn by a seeded generator, or by hypothesis.

An instance of a version sets only the fields that the version has, so that it survives a round trip.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hypothesis import strategies

from ottla.wire import codec
from ottla.wire.apis import API_BY_KEY
from ottla.wire.message import Message
from ottla.wire.messages.table import MODULES
from ottla.wire.schema import Field

RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
FIRST_UNKNOWN_TAG = 1000
"""Above every declared tag."""


def _classes() -> dict[str, type[Message]]:
    found: dict[str, type[Message]] = {}
    for entry in API_BY_KEY.values():
        for message in (entry.request_class(), entry.response_class()):
            found[message.NAME] = message
    for module, names in MODULES.items():
        for name in names:
            found[name] = getattr(import_module(f"ottla.wire.messages.{module}"), name)
    return found


CLASSES = _classes()
CLASS_VERSIONS = [(message, version) for message in CLASSES.values() for version in message.VERSIONS]


class Instances:
    """Draws instances from a seed. `long` arrays and texts need more than one byte for their length."""

    def __init__(self, seed: object, *, unknown_tags: bool = True) -> None:
        self._random = random.Random(repr(seed))
        self._unknown_tags = unknown_tags

    def message(self, cls: type[Message], version: int) -> Any:
        return self._struct(cls, cls, None, version)

    def _struct(self, outer: type[Message], cls: type[Any], name: str | None, version: int) -> Any:
        schema = codec.schema(outer)
        fields = schema.fields if name is None else schema.structs[name].fields
        values: dict[str, Any] = {}
        for field in fields:
            # Every fourth field keeps its default, so that a tagged one is not sent.
            must_be_set = field.starts_null and not field.is_nullable(version)
            if version in field.versions and (must_be_set or self._random.random() < 0.75):
                values[field.name] = self._value(outer, field, version)
        if self._unknown_tags and schema.is_flexible(version) and self._random.random() < 0.15:
            values["unknown_tagged_fields"] = {
                tag: self._bytes() for tag in self._random.sample(range(FIRST_UNKNOWN_TAG, 40_000), 2)
            }
        return cls(**values)

    def _value(self, outer: type[Message], field: Field, version: int) -> Any:
        if field.is_nullable(version) and self._random.random() < 0.2:
            return None
        if not field.is_array:
            return self._scalar(outer, field, version)
        count = self._random.choice((0, 1, 1, 2, 3))
        if not field.is_struct and self._random.random() < 0.03:
            count = 200
        return [self._scalar(outer, field, version) for _ in range(count)]

    def _scalar(self, outer: type[Message], field: Field, version: int) -> Any:
        if field.is_struct:
            return self._struct(outer, getattr(outer, field.type), field.type, version)
        draw: dict[str, Callable[[], Any]] = {
            "bool": lambda: self._random.random() < 0.5,
            "float64": lambda: self._random.choice(
                (0.0, 1.5, -2.25e300, float("inf"), self._random.random())
            ),
            "uuid": lambda: self._random.randbytes(16),
            "string": self._text,
            "bytes": self._bytes,
            "records": lambda: memoryview(self._bytes()),
        }
        if field.type in draw:
            return draw[field.type]()
        low, high = RANGES[field.type]
        return self._random.choice((low, high, 0 if low else 1, self._random.randint(low, high)))

    def _length(self) -> int:
        return self._random.choice((0, 1, 5, 12, 20)) if self._random.random() < 0.95 else 300

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._length())

    def _text(self) -> str:
        return "".join(self._random.choice("abcxyz019.-_ éü€𝄞\x00") for _ in range(self._length()))


def strategy(cls: type[Message], version: int) -> strategies.SearchStrategy[Any]:
    """Instances of one version, for hypothesis."""
    if (cls, version) not in _strategies:
        _strategies[cls, version] = _struct_strategy(cls, cls, None, version)
    return _strategies[cls, version]


_strategies: dict[tuple[type[Message], int], strategies.SearchStrategy[Any]] = {}


def _struct_strategy(
    outer: type[Message], cls: type[Any], name: str | None, version: int
) -> strategies.SearchStrategy[Any]:
    schema = codec.schema(outer)
    fields = schema.fields if name is None else schema.structs[name].fields
    values = {
        field.name: _field_strategy(outer, field, version) for field in fields if version in field.versions
    }
    if schema.is_flexible(version):
        tags = strategies.integers(FIRST_UNKNOWN_TAG, (1 << 31) - 1)
        values["unknown_tagged_fields"] = strategies.none() | strategies.dictionaries(
            tags, strategies.binary(max_size=5), min_size=1, max_size=2
        )
    return strategies.builds(cls, **values)


def _field_strategy(outer: type[Message], field: Field, version: int) -> strategies.SearchStrategy[Any]:
    if field.is_struct:
        drawn = _struct_strategy(outer, getattr(outer, field.type), field.type, version)
    elif field.type in RANGES:
        drawn = strategies.integers(*RANGES[field.type])
    else:
        drawn = {
            "bool": strategies.booleans(),
            "float64": strategies.floats(allow_nan=False),
            "uuid": strategies.binary(min_size=16, max_size=16),
            "string": strategies.text(strategies.characters(exclude_categories=["Cs"]), max_size=200),
            "bytes": strategies.binary(max_size=200),
            "records": strategies.binary(max_size=200).map(lambda drawn: memoryview(drawn)),
        }[field.type]
    if field.is_array:
        drawn = strategies.lists(drawn, max_size=3)
    return strategies.none() | drawn if field.is_nullable(version) else drawn
