"""Lengths of time and moments as people type them: `15m`, `7d`, `2026-01-31T12:00`."""

from __future__ import annotations

import re
from datetime import datetime

from ottla.cli.errors import Misuse

_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")


def duration_ms(text: str, flag: str) -> int:
    """`90s`, `15m`, `1d12h` in milliseconds."""
    compact = text.strip().lower()
    parts = _PART.findall(compact)
    if not parts or _PART.sub("", compact).strip():
        raise Misuse(
            f"{flag} {text} is no length of time: take a number and ms, s, m, h, d or w, such as 15m."
        )
    return round(sum(float(count) * _SECONDS[unit] for count, unit in parts) * 1000)


def moment_ms(text: str, flag: str) -> int:
    """`2026-01-31T12:00`, local unless it names its zone, or `@` and milliseconds since 1970."""
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:])
    try:
        return round(datetime.fromisoformat(text.removeprefix("@")).timestamp() * 1000)
    except ValueError:
        raise Misuse(
            f"{flag} {text} is no time: take one such as 2026-01-31T12:00, or @ and milliseconds."
        ) from None
