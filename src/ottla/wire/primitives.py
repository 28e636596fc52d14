"""Helpers of compiled codecs for the cases that are too rare to be generated inline.

A compact length is read inline if it has one byte and is not null; all other cases come here. Every helper
raises MalformedMessage, or IndexError at the end of the bytes, which the caller translates.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct as Layout
from struct import pack, unpack_from
from typing import Final, NoReturn

from ottla.wire.errors import MalformedMessage, UnencodableMessage, UnsupportedVersion
from ottla.wire.message import Buffer

TEXT_BYTES_MAX: Final = 0x7FFF
TAGS_MAX: Final = 1000
_INT32_MAX: Final = 0x7FFFFFFF

_LAYOUTS: dict[str, Layout] = {}


def layout(letters: str) -> Layout:
    """The big-endian layout of a run of fixed-size fields, cached per run."""
    found = _LAYOUTS.get(letters)
    if found is None:
        found = _LAYOUTS[letters] = Layout(">" + letters)
    return found


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it)."""
    first = buffer[position]
    if first < 128:
        return first, position + 1
    value, more = long_varint(buffer, position + 1, first)
    return value, position + 1 + more


def long_varint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """(value, additional bytes) of a varint whose first byte says that more follow."""
    second = buffer[position]
    if second < 128:
        return first & 127 | second << 7, 1
    third = buffer[position + 1]
    value = first & 127 | (second & 127) << 7 | (third & 127) << 14
    if third < 128:
        return value, 2
    fourth = buffer[position + 2]
    value |= (fourth & 127) << 21
    if fourth < 128:
        return value, 3
    fifth = buffer[position + 3]
    value |= fifth << 28
    if value > _INT32_MAX:
        raise MalformedMessage("A varint exceeds the largest length, 2147483647.")
    return value, 4


def long_text(buffer: Buffer, position: int, first: int, name: str) -> tuple[int, int]:
    """As `long_varint`, for the length of a string: null and lengths over the limit are refused."""
    if not first:
        refuse_null(name)
    value, more = long_varint(buffer, position, first)
    if value > TEXT_BYTES_MAX + 1:
        raise MalformedMessage(
            f"The string {name} declares {value - 1} bytes; the maximum is {TEXT_BYTES_MAX}."
        )
    return value, more


def long_length(buffer: Buffer, position: int, first: int, name: str) -> tuple[int, int]:
    """As `long_varint`, for a length or count that may not be null."""
    if not first:
        refuse_null(name)
    return long_varint(buffer, position, first)


def refuse_null(name: str) -> NoReturn:
    raise MalformedMessage(f"The non-nullable field {name} is null.")


def refuse_count(name: str, count: int, remaining: int) -> NoReturn:
    raise MalformedMessage(
        f"The array {name} declares {count} elements, but {max(remaining, 0)} bytes are left."
    )


def refuse_memory(size: int) -> NoReturn:
    raise MalformedMessage(f"Its {size} bytes contain more elements than the memory limit allows.")


def read_unknown_tags(buffer: Buffer, position: int, count: int) -> tuple[dict[int, bytes], int]:
    """All tagged fields of a struct that declares none: (bytes by tag, position after them)."""
    if count > 127:
        count, more = long_varint(buffer, position, count)
        position += more
        check_tag_count(count)
    found: dict[int, bytes] = {}
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        end = position + size
        found[tag] = bytes(buffer[position:end])
        position = end
    return found, position


def check_tag_count(count: int) -> None:
    """Refuse more tagged fields than any struct will ever have: each costs time, known or not."""
    if count > TAGS_MAX:
        raise MalformedMessage(f"A struct declares {count} tagged fields; the maximum is {TAGS_MAX}.")


def read_fixed_array(buffer: Buffer, position: int, count: int, letter: str) -> list[int]:
    """Decode adjacent numbers. The caller has checked that the bytes are present."""
    return list(unpack_from(f">{count}{letter}", buffer, position))


def unsigned_varint(value: int) -> bytes:
    """Encode a varint."""
    if value < 0 or value > _INT32_MAX:
        raise UnencodableMessage(f"{value} does not fit into a varint.")
    if value < 128:
        return ONE_BYTE[value]
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


ONE_BYTE = [bytes((value,)) for value in range(128)]


def text_varint(value: int) -> bytes:
    """Encode a string's compact length, which is one more than its number of bytes."""
    if value > TEXT_BYTES_MAX + 1:
        raise UnencodableMessage(f"A string of {value - 1} bytes exceeds the maximum of {TEXT_BYTES_MAX}.")
    return unsigned_varint(value)


def fixed_array(values: Iterable[int], count: int, letter: str) -> bytes:
    """Encode adjacent numbers."""
    return pack(f">{count}{letter}", *values)


def uuid_array(values: Iterable[bytes]) -> bytes:
    """Encode adjacent ids."""
    for value in values:
        check_uuid(value)
    return b"".join(values)


def check_uuid(value: bytes) -> None:
    if len(value) != 16:
        raise UnencodableMessage(f"{value!r} is not a UUID: it must have 16 bytes.")


def tag_section(known: dict[int, bytes] | None, unknown: dict[int, bytes] | None) -> bytes:
    """The tagged fields of a struct in the order of their tags, after their count."""
    fields = dict(known or {})
    for tag, value in (unknown or {}).items():
        if tag in fields:
            raise UnencodableMessage(
                f"Tag {tag} belongs to a known field, so it cannot also be an unknown one."
            )
        fields[tag] = value
    parts = [unsigned_varint(len(fields))]
    for tag in sorted(fields):
        parts += (unsigned_varint(tag), unsigned_varint(len(fields[tag])), fields[tag])
    return b"".join(parts)


def refuse_field(message: str, name: str, version: int) -> NoReturn:
    """As in Kafka, refuse a value that a version cannot represent, unless the field is ignorable."""
    raise UnsupportedVersion(
        f"{message} version {version} has no field {name}, so {name} must keep its default."
    )


def refuse_tags(message: str, version: int) -> NoReturn:
    raise UnsupportedVersion(f"{message} version {version} does not support tagged fields, but some are set.")
