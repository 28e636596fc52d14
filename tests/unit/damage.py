"""Damages the bytes of a file, for tests of code that reads files: see `damaged`."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import strategies as st

_NUMBERS = (
    *(b"-1", b"0", b"7", b"2147483647", b"2147483648", b"9223372036854775807", b"9223372036854775808"),
    *(b"-9223372036854775808", b"1" + b"0" * 400, b"9" * 5000, b"1_0", b"+1", b"1.0", b"1e9", b"true"),
    *("٣".encode(), b"", b" 1 ", b"0x10", b"null", b"[1]"),
)
_NUMBER = re.compile(rb"-?\d+")

_SPARE_BYTES = 512 * 1024
_FACTOR = 100


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Variants of a file: shorter, longer, other bytes, other numbers, or unrelated content."""
    ways = ["cut", "flip", "overwrite", "extend", "repeat", "zeros", "anything"]
    if _NUMBER.search(content):
        ways += ["number"] * 3
    way = draw(st.sampled_from(ways))
    at = draw(st.integers(0, len(content)))
    if way == "cut":
        return content[:at]
    if way == "flip" and content:
        changed = bytearray(content)
        for _ in range(draw(st.integers(1, 4))):
            changed[draw(st.integers(0, len(content) - 1))] ^= 1 << draw(st.integers(0, 7))
        return bytes(changed)
    if way == "overwrite":
        other = draw(
            st.binary(min_size=1, max_size=16) | st.sampled_from([b"\xff" * 8, b"\x7f" + b"\xff" * 7])
        )
        return content[:at] + other + content[at + len(other) :]
    if way == "extend":
        return content + draw(st.binary(min_size=1, max_size=80))
    if way == "repeat":
        return content[:at] + content[draw(st.integers(0, at)) :]
    if way == "zeros":
        return content[:at] + bytes(len(content) - at)
    if way == "number":
        found = draw(st.sampled_from(list(_NUMBER.finditer(content))))
        return content[: found.start()] + draw(st.sampled_from(_NUMBERS)) + content[found.end() :]
    return draw(
        st.binary(max_size=200) | st.sampled_from([b"", b"\n", b"{}", b"[" * 100_000, b"\xef\xbb\xbf"])
    )


@contextmanager
def within_memory(size_bytes: int) -> Iterator[None]:
    """Check that memory stays proportional to `size_bytes`, whatever the bytes contain."""
    is_outermost = not tracemalloc.is_tracing()
    if is_outermost:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        yield
        taken = tracemalloc.get_traced_memory()[1] - before
        assert taken < _SPARE_BYTES + _FACTOR * size_bytes, f"{taken} bytes for {size_bytes}"
    finally:
        if is_outermost:
            tracemalloc.stop()
