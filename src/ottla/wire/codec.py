"""Encodes and decodes messages: `decode` and `encode`, or the compiled functions that they use.

A function is compiled from the schema when a version of a message is first used, and cached. So imports cost
nothing, and a node never compiles versions that it does not use.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import error as layout_error
from typing import Any, TypeAlias, TypeVar

from ottla.wire import primitives
from ottla.wire.decoder import DecoderSource, short_unpackers, unpacker
from ottla.wire.encoder import EncoderSource, packer, short_packers
from ottla.wire.errors import MalformedMessage, UnencodableMessage, UnsupportedVersion
from ottla.wire.message import Buffer, Message
from ottla.wire.schema import MessageSchema, parse
from ottla.wire.source import SHORT_ARRAY, Plan
from ottla.wire.uuid import ZERO

M = TypeVar("M", bound=Message)

Decoder: TypeAlias = Callable[[Buffer, int], tuple[M, int]]
"""(buffer, position) -> (message, position after it)."""
Encoder: TypeAlias = Callable[[M], bytes]
PartsEncoder: TypeAlias = Callable[[M], list[Any]]
"""A part is a buffer, or the content of a records field."""
SlicedDecoder: TypeAlias = Callable[[Buffer, int], Generator[None, None, tuple[M, int]]]
SlicedEncoder: TypeAlias = Callable[[M], Generator[None, None, list[Any]]]

_schemas: dict[type[Message], MessageSchema] = {}
_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}
_bounded_decoders: dict[tuple[type[Message], int], Decoder[Any]] = {}
_encoders: dict[tuple[type[Message], int], Encoder[Any]] = {}
_parts_encoders: dict[tuple[type[Message], int], PartsEncoder[Any]] = {}
_sliced_decoders: dict[tuple[type[Message], int], SlicedDecoder[Any]] = {}
_sliced_encoders: dict[tuple[type[Message], int], SlicedEncoder[Any]] = {}


def decode(cls: type[M], buffer: Buffer, version: int, position: int = 0, *, exact: bool = True) -> M:
    """Decode a message. With `exact`, bytes after it are an error."""
    message, end = decoder(cls, version)(buffer, position)
    if exact and end != len(buffer):
        raise MalformedMessage(
            f"{cls.NAME} version {version} is followed by {len(buffer) - end} extra bytes."
        )
    return message


def encode(message: Message, version: int) -> bytes:
    """Encode a message."""
    return encoder(type(message), version)(message)


def encode_parts(message: Message, version: int) -> list[Any]:
    """Encode a message for one vectored write: records by reference, the bytes between them joined."""
    return parts_encoder(type(message), version)(message)


def decoder(cls: type[M], version: int, *, bounded: bool = False) -> Decoder[M]:
    """The function that decodes one version. With `bounded` its memory is limited to about its input's
    size."""
    known = _bounded_decoders if bounded else _decoders
    found = known.get((cls, version))
    if found is None:
        grown = DecoderSource(_plan(cls, version), bounded=bounded)
        found = known[cls, version] = _compiled(cls, "decode", grown)
    return found


def encoder(cls: type[M], version: int) -> Encoder[M]:
    """The function that encodes one version."""
    found = _encoders.get((cls, version))
    if found is None:
        grown = EncoderSource(_plan(cls, version), parts=False)
        found = _encoders[cls, version] = _compiled(cls, "encode", grown)
    return found


def parts_encoder(cls: type[M], version: int) -> PartsEncoder[M]:
    """The function that encodes one version in parts."""
    found = _parts_encoders.get((cls, version))
    if found is None:
        grown = EncoderSource(_plan(cls, version), parts=True)
        found = _parts_encoders[cls, version] = _compiled(cls, "encode", grown)
    return found


def sliced_decoder(cls: type[M], version: int) -> SlicedDecoder[M]:
    """The generator that decodes one version, bounded, and yields after every few elements."""
    found = _sliced_decoders.get((cls, version))
    if found is None:
        grown = DecoderSource(_plan(cls, version), sliced=True)
        found = _sliced_decoders[cls, version] = _compiled(cls, "decode", grown)
    return found


def sliced_encoder(cls: type[M], version: int) -> SlicedEncoder[M]:
    """The generator that encodes one version in parts, and yields after every few elements."""
    found = _sliced_encoders.get((cls, version))
    if found is None:
        grown = EncoderSource(_plan(cls, version), parts=True, sliced=True)
        found = _sliced_encoders[cls, version] = _compiled(cls, "encode", grown)
    return found


def schema(cls: type[Message]) -> MessageSchema:
    """The schema that a class was generated from."""
    found = _schemas.get(cls)
    if found is None:
        found = _schemas[cls] = parse(cls.SCHEMA)[0]
    return found


def _plan(cls: type[Message], version: int) -> Plan:
    if version not in cls.VERSIONS:
        first, last = cls.VERSIONS[0], cls.VERSIONS[-1]
        raise UnsupportedVersion(f"{cls.NAME} has no version {version}; versions {first} to {last} exist.")
    return Plan(schema(cls), version)


def _compiled(cls: type[Message], name: str, grown: DecoderSource | EncoderSource) -> Callable[..., Any]:
    text, schema = grown.text(), grown.plan.schema
    names: dict[str, Any] = {
        "LayoutError": layout_error,
        "MalformedMessage": MalformedMessage,
        "ONE_BYTE": primitives.ONE_BYTE,
        "outer": cls,
        "UnencodableMessage": UnencodableMessage,
        "ZERO": ZERO,
        "new": object.__new__,
    }
    for helper in _HELPERS:
        names[helper.__name__] = helper
    for struct in schema.structs:
        names[struct] = getattr(cls, struct)
    for letter in grown.short_arrays:
        layouts = [primitives.layout(f"{count}{letter}") for count in range(SHORT_ARRAY + 1)]
        names[short_packers(letter)] = [layout.pack for layout in layouts]
        names[short_unpackers(letter)] = [layout.unpack_from for layout in layouts]
    for letters in grown.layouts:
        layout = primitives.layout(letters)
        names[packer(letters)] = layout.pack
        names[unpacker(letters)] = layout.unpack_from
    exec(compile(text, f"<{name} {cls.NAME} version {grown.plan.version}>", "exec"), names)
    function: Callable[..., Any] = names[name]
    return function


_HELPERS: tuple[Callable[..., Any], ...] = (
    primitives.check_tag_count,
    primitives.check_uuid,
    primitives.fixed_array,
    primitives.long_length,
    primitives.long_text,
    primitives.long_varint,
    primitives.read_fixed_array,
    primitives.read_unknown_tags,
    primitives.read_unsigned_varint,
    primitives.refuse_count,
    primitives.refuse_field,
    primitives.refuse_memory,
    primitives.refuse_null,
    primitives.refuse_tags,
    primitives.tag_section,
    primitives.text_varint,
    primitives.unsigned_varint,
    primitives.uuid_array,
)
