"""Start and stop positions: `-o beginning`, `-o end`, `-o 123`, `-o -100`, `-o @2026-01-01T00:00`.

Times without a zone are in UTC. `@` before an integer means milliseconds since 1970, `@-15m` means 15 minutes
ago, and `e@` sets the stop: the first record that is not older.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from ottla.units import MILLISECONDS

_AGO = re.compile(r"-(\d{1,9})(ms|s|m|h|d|w)")
_OFFSET_MAX = 2**63 - 1

_WORDS = {
    "beginning": "BEGINNING",
    "earliest": "BEGINNING",
    "start": "BEGINNING",
    "end": "END",
    "latest": "END",
    "stored": "STORED",
}


class At(Enum):
    """The kinds of positions."""

    BEGINNING = "beginning"
    END = "end"
    STORED = "stored"
    OFFSET = "offset"
    BEFORE_END = "before the end"
    TIME = "time"
    STOP_TIME = "stop at a time"


class InvalidPosition(ValueError):
    """An invalid position; the message has no full stop."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a partition: `number` is an offset, a count or a time in ms."""

    at: At
    number: int = 0


def parse_place(text: str, now_ms: int) -> Position:
    """Parse the value of -o."""
    word = text.strip()
    if word.lower() in _WORDS:
        return Position(At[_WORDS[word.lower()]])
    if word.startswith(("e@", "s@", "@")):
        mark, _, time = word.partition("@")
        return Position(At.STOP_TIME if mark == "e" else At.TIME, parse_time(time, now_ms))
    digits = word[1:] if word[:1] in ("-", "+") else word
    if not (digits.isascii() and digits.isdigit()) or int(digits) > _OFFSET_MAX:
        raise InvalidPosition(
            f"{text!r:.60} is not an offset. Use beginning, end, a number, -100 for the last 100, or "
            "@2026-01-01T00:00 for a time"
        )
    return Position(At.BEFORE_END if word.startswith("-") else At.OFFSET, int(digits))


def parse_time(text: str, now_ms: int) -> int:
    """A time in ms since 1970: a number of ms, a date and perhaps a time, `-15m`, `now`."""
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(now_ms - int(ago[1]) * MILLISECONDS[ago[2]], 0)
    try:
        moment = datetime.fromisoformat(text)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(round(zoned.timestamp() * 1000), 0)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidPosition(
            f"{text!r:.60} is not a time. Use 2026-01-31, 2026-01-31T12:00 (UTC), 2026-01-31T12:00+02:00, "
            "-15m or milliseconds since 1970"
        ) from error


def parse_partitions(texts: list[str]) -> list[int]:
    """The partitions in `0`, `0,2` and `3-5`."""
    found: list[int] = []
    for word in (word.strip() for text in texts for word in text.split(",")):
        first, dash, last = word.partition("-")
        if not all(one.isascii() and one.isdigit() and len(one) <= 10 for one in (first, last or first)):
            raise InvalidPosition(f"{word!r:.60} is not a partition. Use numbers, such as 0 or 0,2 or 3-5")
        low, high = int(first), int(last or first)
        if high < low or high - low > 100_000 or (dash and not last):
            raise InvalidPosition(f"{word!r:.60} is not a range of partitions. Use numbers, such as 3-5")
        found += range(low, high + 1)
    return list(dict.fromkeys(found))
