"""Parses the notation in which every message is declared, once, in `schemas/*.txt`.

A message starts at the left margin, and its fields are indented by four blanks below it:

    ProduceResponse response api=0 versions=3-13 flexible=9+
        responses []TopicProduceResponse 0+
            name string 0-12 key ignorable is=topicName
            current_leader LeaderIdAndEpoch 10+ tag=0@10+
                leader_id int32 10+ default=-1
        throttle_time_ms int32 1+ ignorable
        struct KeyValue 0+
            key string 0+

First line: name, kind, then `api=` its number, `versions=` the valid ones, `flexible=` the versions with
compact lengths and tagged fields (or `none`), `listeners=` the listeners that serve the request, and
`latest-unstable` if the last version is not offered to clients.

A field: name, type (`[]` before it: an array), the versions that have it, and then any of
`nullable=VERSIONS` null is allowed · `tag=NUMBER@VERSIONS` sent as a tagged field · `default=TEXT` (without
it: zero, empty, a fresh struct; `records` start as null) · `ignorable` may be left out of a version that
lacks it, whatever its value · `key` part of what makes an array's element unique · `flexible=none` never
compact · `is=KIND` what the value names. A capitalised type is a struct: its fields are indented below the
field, or below a `struct NAME VERSIONS` line when several fields share it.

Versions: `3` one, `3-5` from to, `3+` from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

PRIMITIVES = frozenset(
    {
        "bool",
        "int8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "float64",
        "uuid",
        "string",
        "bytes",
        "records",
    }
)


class SchemaError(ValueError):
    """An invalid line of the notation."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions; a `last` of None means no upper limit."""

    first: int
    last: int | None

    def __contains__(self, version: int) -> bool:
        return version >= self.first and (self.last is None or version <= self.last)

    @classmethod
    def parse(cls, text: str) -> Versions:
        if text.endswith("+"):
            return cls(int(text[:-1]), None)
        first, dash, last = text.partition("-")
        return cls(int(first), int(last) if dash else int(first))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a struct."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions | None = None
    tag: int | None = None
    tagged: Versions | None = None
    default: str | None = None
    ignorable: bool = False
    is_key: bool = False
    never_flexible: bool = False
    entity: str | None = None

    @property
    def is_struct(self) -> bool:
        """Whether the type (for an array, of its elements) is a struct."""
        return self.type not in PRIMITIVES

    @property
    def starts_null(self) -> bool:
        return self.default == "null" or (self.type == "records" and not self.is_array)

    @property
    def default_literal(self) -> str | None:
        """The default as Python source, or None if every message needs a new list or struct."""
        if self.starts_null:
            return "None"
        if self.is_array or self.is_struct:
            return None
        if self.type in ("string", "bytes"):
            return repr(self.default or "") if self.type == "string" else 'b""'
        if self.type == "bool":
            return "True" if self.default == "true" else "False"
        if self.type == "uuid":
            return "ZERO"
        if self.type == "float64":
            return repr(float(self.default or 0))
        return str(int(self.default or "0", 0))

    def is_nullable(self, version: int) -> bool:
        return self.nullable is not None and version in self.nullable

    def is_tagged(self, version: int) -> bool:
        return self.tagged is not None and version in self.tagged


@dataclass(frozen=True, slots=True)
class StructSchema:
    """A named group of fields inside a message."""

    name: str
    versions: Versions
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSchema:
    """A complete message: its fields, and by name every struct at any depth."""

    name: str
    kind: str
    versions: range
    flexible_from: int | None
    fields: tuple[Field, ...]
    structs: dict[str, StructSchema]
    api_key: int | None = None
    listeners: tuple[str, ...] = ()
    latest_unstable: bool = False
    text: str = field(default="", repr=False)

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


@dataclass(slots=True)
class _Line:
    number: int
    depth: int
    words: list[str]
    text: str


def parse(text: str) -> list[MessageSchema]:
    """All messages of a text, in order."""
    messages: list[MessageSchema] = []
    block: list[_Line] = []
    for line in _lines(text):
        if line.depth == 0 and block:
            messages.append(_message(block))
            block = []
        block.append(line)
    if block:
        messages.append(_message(block))
    return messages


def _lines(text: str) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent % 4:
            raise SchemaError(f"Line {number} is indented by {indent} blanks: use a multiple of four.")
        yield _Line(number, indent // 4, words, line)


def _message(block: list[_Line]) -> MessageSchema:
    head = block[0]
    if head.depth or len(head.words) < 2:
        raise SchemaError(f"Line {head.number} should start a message with a name and a kind.")
    options = _options(head, head.words[2:])
    structs: dict[str, StructSchema] = {}
    fields = _fields(block[1:], 1, structs)
    _check_types(head, fields, structs)
    try:
        versions = Versions.parse(options["versions"])
        flexible = options["flexible"]
    except KeyError as error:
        raise SchemaError(f"Line {head.number} lacks {error}=.") from error
    return MessageSchema(
        name=head.words[0],
        kind=head.words[1],
        versions=range(versions.first, (versions.first if versions.last is None else versions.last) + 1),
        flexible_from=None if flexible == "none" else Versions.parse(flexible).first,
        fields=fields,
        structs=structs,
        api_key=int(options["api"]) if "api" in options else None,
        listeners=tuple(options["listeners"].split(",")) if "listeners" in options else (),
        latest_unstable="latest-unstable" in options,
        text="\n".join(line.text for line in block),
    )


def _fields(lines: list[_Line], depth: int, structs: dict[str, StructSchema]) -> tuple[Field, ...]:
    fields: list[Field] = []
    for line, below in _groups(lines, depth):
        if line.words[0] == "struct" and len(line.words) == 3:
            _add_struct(
                line,
                line.words[1],
                Versions.parse(line.words[2]),
                _fields(below, depth + 1, structs),
                structs,
            )
            continue
        parsed = _field(line)
        fields.append(parsed)
        if below:
            _add_struct(line, parsed.type, parsed.versions, _fields(below, depth + 1, structs), structs)
    return tuple(fields)


def _groups(lines: list[_Line], depth: int) -> Iterator[tuple[_Line, list[_Line]]]:
    """Each line at this depth with the deeper lines that follow it."""
    start = 0
    while start < len(lines):
        if lines[start].depth != depth:
            raise SchemaError(f"Line {lines[start].number} is indented too deep.")
        end = start + 1
        while end < len(lines) and lines[end].depth > depth:
            end += 1
        yield lines[start], lines[start + 1 : end]
        start = end


def _add_struct(
    line: _Line, name: str, versions: Versions, fields: tuple[Field, ...], structs: dict[str, StructSchema]
) -> None:
    if name in PRIMITIVES or name in structs:
        raise SchemaError(f"Line {line.number} declares the struct {name}, a name that is taken.")
    structs[name] = StructSchema(name, versions, fields)


def _field(line: _Line) -> Field:
    if len(line.words) < 3:
        raise SchemaError(f"Line {line.number} needs a name, a type and versions.")
    name, type_name, versions = line.words[:3]
    options = _options(line, line.words[3:])
    tag, _, tagged = options.get("tag", "").partition("@")
    return Field(
        name=name,
        type=type_name.removeprefix("[]"),
        is_array=type_name.startswith("[]"),
        versions=Versions.parse(versions),
        nullable=Versions.parse(options["nullable"]) if "nullable" in options else None,
        tag=int(tag) if tag else None,
        tagged=Versions.parse(tagged) if tagged else None,
        default=options.get("default"),
        ignorable="ignorable" in options,
        is_key="key" in options,
        never_flexible=options.get("flexible") == "none",
        entity=options.get("is"),
    )


_OPTIONS = frozenset(
    {
        *("api", "versions", "flexible", "listeners", "latest-unstable"),
        *("nullable", "tag", "default", "ignorable", "key", "is"),
    }
)


def _options(line: _Line, words: Iterable[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in _OPTIONS:
            raise SchemaError(f"Line {line.number} contains the unknown option {word}.")
        options[name] = value
    return options


def _check_types(head: _Line, fields: tuple[Field, ...], structs: dict[str, StructSchema]) -> None:
    every = [*fields, *(member for struct in structs.values() for member in struct.fields)]
    for member in every:
        if member.is_struct and member.type not in structs:
            raise SchemaError(
                f"The field {member.name} of {head.words[0]} has the unknown type {member.type}."
            )
