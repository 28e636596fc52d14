"""The partition of an internal topic that holds the state of a group or a transactional id."""

from __future__ import annotations

from functools import lru_cache

REMEMBERED = 10_000
"""How many keys are cached: each request of a group looks up its partition."""


def text_hash(text: str) -> int:
    """Java's hash of a string: 31 to the n over its UTF-16 units, as a signed 32 bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value & 0x8000_0000 else value


@lru_cache(REMEMBERED)
def partition_for(key: str, partition_count: int) -> int:
    value = text_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partition_count
