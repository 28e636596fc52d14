"""Records for a terminal: time, position, key, value, headers; in colour if supported.

Rule: no record can move the cursor or change colours: control characters are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from ottla.cli.records.formats import Record
from ottla.cli.records.values import TEXT, Kind

_DIM, _PLACE, _KEY, _RESET = "\x1b[2m", "\x1b[36m", "\x1b[33m", "\x1b[0m"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(data: bytes) -> str:
    """Bytes as one line of text that is safe for a terminal."""
    return _CONTROL.sub(_escaped, data.decode(errors="backslashreplace"))


def _escaped(match: re.Match[str]) -> str:
    letter = match[0]
    return _NAMED.get(letter) or (f"\\x{ord(letter):02x}" if ord(letter) < 256 else f"\\u{ord(letter):04x}")


def time_text(timestamp_ms: int) -> str:
    """A time in UTC, to the millisecond."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def line_formatter(
    *, key: Kind = TEXT, value: Kind = TEXT, is_coloured: bool, names_topic: bool
) -> Callable[[Record], bytes]:
    """A function that formats a record as one line."""

    def coloured(colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if is_coloured else text

    def show(record: Record) -> bytes:
        place = f"{record.partition}:{record.offset}"
        if names_topic:
            place = f"{record.topic} {place}"
        words = [coloured(_DIM, time_text(record.timestamp)), coloured(_PLACE, f"{place:<8}")]
        if record.key is not None:
            words.append(coloured(_KEY, printable(key.shown(record.key))))
        if record.value is None:
            words.append(coloured(_DIM, "null"))
        else:
            words.append(printable(value.shown(record.value)))
        if record.headers:
            pairs = ", ".join(
                f"{printable(name.encode())}={'null' if content is None else printable(content)}"
                for name, content in record.headers
            )
            words.append(coloured(_DIM, f"{{{pairs}}}"))
        return ("  ".join(words) + "\n").encode()

    return show
