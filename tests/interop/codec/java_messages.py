"""Kafka's message classes as a peer: commands for `CodecPeer`, its answers, the dump of both sides.

All commands of a run go to one JVM in one go, since its start is most of the time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.wire import codec
from ottla.wire.message import Message, Struct
from ottla.wire.schema import Field
from tests.interop import peers

_SOURCES = [Path(__file__).with_name(f"{name}.java") for name in ("CodecPeer", "RandomMessages", "ValueDump")]


@dataclass(frozen=True, slots=True)
class JavaClass:
    """A generated class of Kafka's."""

    name: str
    versions: range

    @property
    def message_name(self) -> str:
        """The name in the protocol: requests, responses and headers have a suffix in Java."""
        simple = self.name.rpartition(".")[2]
        bare = simple.removesuffix("Data")
        return bare if bare.endswith(("Request", "Response", "Header")) else simple


@dataclass(frozen=True, slots=True)
class Answer:
    """What Java made of a command: bytes and values, or why it refused."""

    written: bytes = b""
    dump: str = ""
    refusal: str | None = None


def java_classes() -> dict[str, JavaClass]:
    """Every message in Kafka's jars, by the name of the message."""
    listed = _run("list", b"").decode().splitlines()
    found: dict[str, JavaClass] = {}
    for line in listed:
        name, low, high = line.split("\t")
        java_class = JavaClass(name, range(int(low), int(high) + 1))
        assert java_class.message_name not in found, f"two classes for {java_class.message_name}"
        found[java_class.message_name] = java_class
    return found


@dataclass(slots=True)
class Commands:
    """Commands that wait to be run, and how many answers they will have."""

    _parts: list[bytes] = field(default_factory=list)
    count: int = 0

    def default(self, cls: JavaClass) -> None:
        """The instance as it is made."""
        self._add(b"D", cls, b"", 1)

    def read(self, cls: JavaClass, version: int, encoded: bytes) -> None:
        """Read, and write again."""
        self._add(b"R", cls, struct.pack(">hi", version, len(encoded)) + encoded, 1)

    def convert(self, cls: JavaClass, version: int, encoded: bytes, other: int) -> None:
        """Read in a version, and write in another."""
        self._add(
            b"X", cls, struct.pack(">hi", version, len(encoded)) + encoded + struct.pack(">h", other), 1
        )

    def json(self, cls: JavaClass, version: int, encoded: bytes) -> None:
        """Read, and the JSON that Kafka's tools print of it."""
        self._add(b"J", cls, struct.pack(">hi", version, len(encoded)) + encoded, 1)

    def generate(self, cls: JavaClass, version: int, seed: int, count: int) -> None:
        """Random instances."""
        self._add(b"G", cls, struct.pack(">hqi", version, seed, count), count)

    def _add(self, letter: bytes, cls: JavaClass, arguments: bytes, answers: int) -> None:
        name = cls.name.encode()
        self._parts += (letter, struct.pack(">H", len(name)), name, arguments)
        self.count += answers

    def run(self) -> Iterator[Answer]:
        """Run them all; the answers in the order of the commands."""
        output = memoryview(_run("exchange", b"".join(self._parts)))
        position = 0
        for _ in range(self.count):
            answer, position = _answer(output, position)
            yield answer
        assert position == len(output), "Java answered more than it was asked"


def _run(mode: str, commands: bytes) -> bytes:
    classes = peers.javac_compile(_SOURCES)
    jvm = ("-XX:+UseSerialGC", "-Xshare:auto", "-XX:TieredStopAtLevel=1")
    return peers.java_run("CodecPeer", mode, classes=classes, input=commands, jvm=jvm).stdout


def _answer(output: memoryview, position: int) -> tuple[Answer, int]:
    if output[position]:
        length = struct.unpack_from(">H", output, position + 1)[0]
        end = position + 3 + length
        return Answer(refusal=bytes(output[position + 3 : end]).decode()), end
    written, position = _bytes(output, position + 1)
    dump, position = _bytes(output, position)
    return Answer(written, dump.decode()), position


def _bytes(output: memoryview, position: int) -> tuple[bytes, int]:
    length = struct.unpack_from(">i", output, position)[0]
    start = position + 4
    return bytes(output[start : start + length]), start + length


def dump(message: Message) -> str:
    """All values of a message, in the line that `ValueDump.java` writes for them."""
    return _dump_struct(type(message), codec.schema(type(message)).fields, message)


def _dump_struct(outer: type[Message], fields: tuple[Field, ...], value: Struct) -> str:
    line = []
    for one in sorted(fields, key=lambda one: one.name.replace("_", "")):
        line.append(f"{one.name.replace('_', '')}:{_dump_field(outer, one, getattr(value, one.name))},")
    for tag, content in sorted((value.unknown_tagged_fields or {}).items()):
        line.append(f"~{tag}:{content.hex()},")
    return "{" + "".join(line) + "}"


def _dump_field(outer: type[Message], one: Field, value: Any) -> str:
    if value is None:
        return "null"
    if one.is_array:
        return "[" + "".join(_dump_scalar(outer, one, element) + "," for element in value) + "]"
    return _dump_scalar(outer, one, value)


def _dump_scalar(outer: type[Message], one: Field, value: Any) -> str:
    if one.is_struct:
        return _dump_struct(outer, codec.schema(outer).structs[one.type].fields, value)
    if one.type == "string":
        return f"s{value.encode().hex()}"
    if one.type in ("bytes", "records"):
        return "b" + bytes(value).hex()
    if one.type == "uuid":
        return f"u{value.hex()}"
    if one.type == "float64":
        return "f" + struct.pack(">d", value).hex()
    if one.type == "bool":
        return "true" if value else "false"
    return str(value)
