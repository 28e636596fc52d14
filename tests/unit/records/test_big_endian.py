"""Integers of a fixed size, against `struct`. Compiled modules use the same functions as C."""

from __future__ import annotations

from struct import pack, unpack_from

from hypothesis import given
from hypothesis import strategies as st

from ottla.records.big_endian import int_at, long_at, put_int, put_long, short_at, unsigned_int_at


@given(data=st.binary(min_size=12, max_size=12), at=st.integers(0, 4))
def test_numbers_are_read_as_struct_reads_them(data: bytes, at: int) -> None:
    assert short_at(data, at) == unpack_from(">h", data, at)[0]
    assert int_at(data, at) == unpack_from(">i", data, at)[0]
    assert unsigned_int_at(data, at) == unpack_from(">I", data, at)[0]
    assert long_at(data, at) == unpack_from(">q", data, at)[0]


@given(value=st.integers(-(2**63), 2**63 - 1), number=st.integers(-(2**31), 2**31 - 1))
def test_numbers_are_written_as_struct_writes_them(value: int, number: int) -> None:
    out = bytearray(14)
    assert put_int(out, put_long(out, 1, value), number) == 13
    assert out == b"\0" + pack(">qi", value, number) + b"\0"
