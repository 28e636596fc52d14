r"""kcat's format strings: `-f '%t [%p] at %o: %k = %s\n'`.

    %s value   %S its size (-1: null)   %R its size in four bytes   %k key   %K its size   %h headers
    %t topic   %p partition   %o offset   %T timestamp in ms   %% a percent sign   \n \r \t \e \xHH characters

Rule: values are printed as the bytes in the record (or as their kind prints them), so that a
format gives the same output as in kcat.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import TypeAlias

from ottla.cli.records.values import TEXT, Kind
from ottla.records.consumer_record import ConsumerRecord

Record: TypeAlias = ConsumerRecord[bytes | None, bytes | None]
Part: TypeAlias = Callable[[Record], bytes]
Formatter: TypeAlias = Callable[[Record], bytes]

_SIZE = struct.Struct(">i")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{1,2}|0[0-7]{0,3}|.)", re.DOTALL)
_PLAIN_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"e": b"\x1b", b"a": b"\a"}


class BadFormat(ValueError):
    """An invalid format; the message has no full stop."""


def unescape(text: str) -> bytes:
    """The bytes of a delimiter or a format fragment, with escapes replaced."""
    return _ESCAPE.sub(_unescaped, text.encode(errors="surrogateescape"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    code: bytes = match[1]
    if code[:1] == b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[:1] == b"0":
        return bytes([int(code, 8) & 0xFF])
    return _PLAIN_ESCAPES.get(code, code)


def formatter(text: str, key: Kind = TEXT, value: Kind = TEXT, null: bytes = b"") -> Formatter:
    """A function that formats a record; `null` replaces a null or empty key or value."""
    tokens: dict[str, Part] = {
        "s": lambda record: value.shown(record.value) if record.value else null,
        "S": lambda record: b"%d" % _size(record.value),
        "R": lambda record: _SIZE.pack(_size(record.value)),
        "k": lambda record: key.shown(record.key) if record.key else null,
        "K": lambda record: b"%d" % _size(record.key),
        "h": headers_text,
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "T": lambda record: b"%d" % record.timestamp,
    }
    parts = _parts(text, tokens)
    return lambda record: b"".join([part if isinstance(part, bytes) else part(record) for part in parts])


def _parts(text: str, tokens: dict[str, Part]) -> list[bytes | Part]:
    parts: list[bytes | Part] = []
    at = 0
    while at < len(text):
        percent = text.find("%", at)
        if percent < 0:
            parts.append(unescape(text[at:]))
            break
        if percent > at:
            parts.append(unescape(text[at:percent]))
        letter = text[percent + 1 : percent + 2]
        if letter == "%":
            parts.append(b"%")
        elif letter in tokens:
            parts.append(tokens[letter])
        elif letter:
            known = " ".join(f"%{one}" for one in (*tokens, "%"))
            raise BadFormat(f"%{letter} is not a format token; known tokens are {known}")
        else:
            raise BadFormat("the format ends with a single %: write %% for a percent sign")
        at = percent + 2
    return parts


def headers_text(record: Record) -> bytes:
    """name=value,name=value; NULL if a header has no value."""
    return b",".join(
        name.encode() + b"=" + (b"NULL" if content is None else content) for name, content in record.headers
    )


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
