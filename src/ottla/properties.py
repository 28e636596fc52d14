"""The syntax of Java's .properties files, read and written as Kafka's tools do.

Every entry has the number of its first line, so that an error in its value can name the line. Rule: `parse`
reads back the keys and values that `format` writes, whatever characters they contain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_BLANKS = " \t\f"
_COMMENT_MARKS = "#!"
_READ_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITE_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"} | {
    mark: "\\" + mark for mark in "\\=:#!"
}
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class Property(NamedTuple):
    """One entry, and the number of its first line, which counts from 1."""

    key: str
    value: str
    line: int


class PropertiesError(ValueError):
    """Invalid syntax; `line` is its place."""

    def __init__(self, line: int, cause: str) -> None:
        super().__init__(f"line {line}: {cause}")
        self.line = line


def decode(data: bytes) -> str:
    """Decode a file: UTF-8, or Latin-1 (Java's old rule for these files) if it is not valid UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse(text: str) -> list[Property]:
    """All entries in order. If a key occurs twice, the later one counts."""
    return [_entry(line, number) for number, line in _logical_lines(text)]


def as_dict(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse(text)}


def format(entries: Mapping[str, str], comments: Sequence[str] = ()) -> str:
    lines = [f"#{comment}\n" for comment in comments]
    lines += [f"{_escape(key, is_key=True)}={_escape(value)}\n" for key, value in entries.items()]
    return "".join(lines)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones, with continued lines joined; numbered by their first line."""
    joined: list[str] = []
    began = 0
    for number, raw in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = raw.lstrip(_BLANKS)
        if not any(joined):
            joined = []
            if not line or line[0] in _COMMENT_MARKS:
                continue
            began = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined.append(line[:-1])
            continue
        yield began, "".join(joined) + line
        joined = []
    if any(joined):
        yield began, "".join(joined)


def _entry(line: str, number: int) -> Property:
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANKS:
        end += 2 if line[end] == "\\" else 1
    end = min(end, len(line))
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return Property(_unescape(line[:end], number), _unescape(rest, number), number)


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text
    pieces: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character != "\\":
            pieces.append(character)
            continue
        escaped = text[at : at + 1]
        at += 1
        if escaped != "u":
            pieces.append(_READ_ESCAPES.get(escaped, escaped))
            continue
        digits = text[at : at + 4]
        at += 4
        if len(digits) < 4 or not _HEX_DIGITS.issuperset(digits):
            raise PropertiesError(number, f"\\u must be followed by four hexadecimal digits, not {digits!r}")
        pieces.append(chr(int(digits, 16)))
    # Java writes a character beyond 16 bits as two \u escapes: join such pairs, keep a lone half as it is.
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _escape(text: str, *, is_key: bool = False) -> str:
    pieces = []
    for at, character in enumerate(text):
        if character == " ":
            pieces.append("\\ " if is_key or at == 0 else " ")
        else:
            pieces.append(_WRITE_ESCAPES.get(character, character))
    return "".join(pieces)
