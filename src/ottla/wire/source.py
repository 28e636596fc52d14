"""The code that both compilers share: lines of source, sizes of types, and defaults of fields."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ottla.wire.schema import Field, MessageSchema

LETTERS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The `struct` letters of fixed-size types."""

SHORT_ARRAY = 8
"""Arrays of numbers up to this length have their own layout: most lists of replicas are that short."""

ELEMENTS_IN_STEP = 128
"""The number of elements that the sliced forms process between yields: less than half a millisecond of work.
A power of two."""
NUMBERS_IN_STEP = 16_384

LETTER_BYTES = {"?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "d": 8, "16s": 16}

_NUMBER_MEMORY, _LIST_MEMORY, _OBJECT_MEMORY = 32, 72, 48
_MEMORY = {"bool": 0, "int8": 0, "string": 52, "bytes": 36, "records": 184, "uuid": 52}
"""The minimum memory of a value in CPython; types that are missing here are numbers."""


@dataclass(slots=True)
class Source:
    """Python source that grows line by line."""

    lines: list[str] = field(default_factory=list)
    depth: int = 1
    names: int = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.add("pass")
        self.depth -= 1

    def name(self, stem: str) -> str:
        """A unique variable name."""
        self.names += 1
        return f"{stem}{self.names}"


def add_step(source: Source, *before: str) -> None:
    """Count an element, and yield after a complete step; `before` runs first in that case."""
    source.add("k += 1")
    with source.block(f"if not k & {ELEMENTS_IN_STEP - 1}:"):
        for line in before:
            source.add(line)
        source.add("yield")


@dataclass(frozen=True, slots=True)
class Plan:
    """The layout of one version of one message."""

    schema: MessageSchema
    version: int

    @property
    def flexible(self) -> bool:
        return self.schema.is_flexible(self.version)

    def members(self, struct: str | None) -> tuple[Field, ...]:
        """All fields of a struct, or of the message itself, in every version."""
        return self.schema.fields if struct is None else self.schema.structs[struct].fields

    def is_present(self, member: Field) -> bool:
        return self.version in member.versions

    def is_tagged(self, member: Field) -> bool:
        return self.is_present(member) and member.is_tagged(self.version)

    def tagged(self, struct: str | None) -> list[Field]:
        """The tagged fields, by tag."""
        found = [member for member in self.members(struct) if self.is_tagged(member)]
        return sorted(found, key=lambda member: member.tag or 0)

    def is_compact(self, member: Field) -> bool:
        """Whether lengths and counts of this field are varints."""
        return self.flexible and not member.never_flexible

    def has_records(self, struct: str | None = None) -> bool:
        return any(
            member.type == "records" or (member.is_struct and self.has_records(member.type))
            for member in self.members(struct)
            if self.is_present(member)
        )

    def bytes_min(self, struct: str | None) -> int:
        """The minimum size of a struct."""
        total = 1 if self.flexible else 0
        for member in self.members(struct):
            if self.is_present(member) and not self.is_tagged(member):
                total += self._member_bytes_min(member)
        return total

    def _member_bytes_min(self, member: Field) -> int:
        if not member.is_array:
            if member.is_struct:
                return 1 if member.is_nullable(self.version) else self.bytes_min(member.type)
            if member.type in LETTERS:
                return LETTER_BYTES[LETTERS[member.type]]
        return self.length_bytes_min(member)

    def length_bytes_min(self, member: Field) -> int:
        """The minimum size of a length or count."""
        if self.is_compact(member):
            return 1
        return 2 if member.type == "string" and not member.is_array else 4

    def element_bytes_min(self, member: Field) -> int:
        """The minimum size of an array's element."""
        if member.is_struct:
            return self.bytes_min(member.type)
        if member.type in LETTERS:
            return LETTER_BYTES[LETTERS[member.type]]
        if self.is_compact(member):
            return 1
        return 2 if member.type == "string" else 4

    def element_memory(self, member: Field) -> int:
        """The approximate memory of an array's element as Python objects, with all strings and arrays
        empty."""
        if member.is_struct:
            return _OBJECT_MEMORY + sum(8 + self._member_memory(part) for part in self.members(member.type))
        return _MEMORY.get(member.type, _NUMBER_MEMORY)

    def _member_memory(self, member: Field) -> int:
        if not self.is_present(member):
            return _LIST_MEMORY if member.is_array else 0  # the default
        return _LIST_MEMORY if member.is_array else self.element_memory(member)

    def differs(self, member: Field, value: str) -> str:
        """An expression that is true if a value is not the field's default."""
        literal = member.default_literal
        if literal == "None":
            return f"{value} is not None"
        if literal is not None:
            return f"{value} != {literal}"
        if member.is_array:
            return f"({value} is None or len({value}) > 0)" if member.nullable else f"len({value}) > 0"
        inner = " or ".join(
            [self.differs(part, f"{value}.{part.name}") for part in self.members(member.type)]
            + [f"{value}.unknown_tagged_fields"]
        )
        return f"({value} is None or {inner})" if member.nullable else f"({inner})"
