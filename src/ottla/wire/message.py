"""The base of every generated message class: fields in slots, equality, a readable repr.

The classes only hold values; `ottla.wire.codec` encodes and decodes them. They are plain classes, not
dataclasses, because hundreds of them are imported and each dataclass costs a compilation.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

Records: TypeAlias = Any
"""Record batches. Decoded: a memoryview of the input. To encode: any buffer; for `encode_parts` any object
with a length, which is passed on unchanged (a slice of a file, for sendfile)."""

FRESH: Any = object()
"""The default of a field that starts as a new list or struct, since None may be a value of the field."""


class Struct:
    """A group of fields. `unknown_tagged_fields` keeps the fields of a newer peer, by tag, for encoding."""

    __slots__: tuple[str, ...] = ("unknown_tagged_fields",)

    unknown_tagged_fields: dict[int, bytes] | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct) or other.__class__ is not self.__class__:
            return NotImplemented
        for name in self.__slots__:
            if getattr(self, name) != getattr(other, name):
                return False
        return (self.unknown_tagged_fields or None) == (other.unknown_tagged_fields or None)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = [f"{name}={_shown(getattr(self, name))}" for name in self.__slots__]
        if self.unknown_tagged_fields:
            fields.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__qualname__}({', '.join(fields)})"


class Message(Struct):
    """A struct that is sent or stored by itself."""

    __slots__ = ()

    NAME: ClassVar[str]
    KIND: ClassVar[str]
    API_KEY: ClassVar[int | None]
    VERSIONS: ClassVar[range]
    FLEXIBLE_FROM: ClassVar[int | None]
    SCHEMA: ClassVar[str]
    """The message in the notation of `ottla.wire.schema`; the codec compiles it."""


def _shown(value: object) -> str:
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    return repr(value)
