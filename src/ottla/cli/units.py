"""Parses durations, times and sizes as people type them: `15m`, `2026-01-31T12:00`, `50MB`."""

from __future__ import annotations

import re
from datetime import datetime

from ottla.cli.errors import Misuse
from ottla.units import MILLISECONDS

_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


def size_bytes(text: str, flag: str) -> int:
    """`1048576`, `50MB`, `1.5GiB` in bytes: a MB is a million of them, a MiB 1024 * 1024."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[3] and not found[2]):
        raise Misuse(
            f"{flag} {text} is not a size. Use a number of bytes, or a number with kB, MB, MiB or GiB."
        )
    unit: int = (1024 if found[3] else 1000) ** " kmgt".index(found[2].lower() or " ")
    return round(float(found[1]) * unit)


def duration_ms(text: str, flag: str) -> int:
    """`90s`, `15m`, `1d12h` in milliseconds."""
    compact = text.strip().lower()
    parts = _PART.findall(compact)
    if not parts or _PART.sub("", compact).strip():
        raise Misuse(f"{flag} {text} is not a duration. Use a number with ms, s, m, h, d or w, such as 15m.")
    seconds = sum(float(count) * (MILLISECONDS[unit] / 1000) for count, unit in parts)
    return round(seconds * 1000)


def moment_ms(text: str, flag: str) -> int:
    """`2026-01-31T12:00`, local unless it names its zone, or `@` and milliseconds since 1970."""
    if text.startswith("@") and text[1:].isdigit():
        return int(text[1:])
    try:
        return round(datetime.fromisoformat(text.removeprefix("@")).timestamp() * 1000)
    except ValueError:
        raise Misuse(
            f"{flag} {text} is not a time. Use the form 2026-01-31T12:00, or @ and milliseconds."
        ) from None
