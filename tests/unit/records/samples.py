"""Sample batches: some fixed, some from hypothesis, and functions that damage them."""

from __future__ import annotations

from hypothesis import strategies as st

from ottla.records.batch import BatchHeader, Codec, read_header, write_header
from ottla.records.record import Record, build_batch

NOW = 1_700_000_000_000

NAMES = st.text(max_size=8)
VALUES = st.none() | st.binary(max_size=60)
RECORDS = st.lists(
    st.builds(
        Record,
        st.just(0),
        st.integers(-1, 2**41),
        VALUES,
        VALUES,
        st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def simple_records(count: int, timestamp: int = NOW, key: bytes | None = b"key") -> list[Record]:
    return [Record(index, timestamp + index, key, b"value-%d" % index) for index in range(count)]


def batch_of(count: int = 3, codec: Codec = Codec.NONE) -> bytearray:
    return build_batch(simple_records(count), codec=codec)


def with_header(batch: bytes | bytearray, **changes: int) -> bytearray:
    """The batch with other header fields and a matching CRC."""
    changed = bytearray(batch)
    write_header(changed, 0, read_header(changed)._replace(**changes))
    return changed


def with_body(batch: bytes | bytearray, body: bytes | bytearray) -> bytearray:
    """The header of `batch` in front of other records, with matching length and CRC."""
    changed = bytearray(batch[:61]) + body
    header: BatchHeader = read_header(batch)
    write_header(changed, 0, header._replace(length=len(changed) - 12))
    return changed


def mutations(data: st.DataObject, original: bytes, changes_max: int = 3) -> bytearray:
    """`original` with a few bytes changed, deleted or inserted."""
    mutated = bytearray(original)
    for _ in range(data.draw(st.integers(1, changes_max))):
        kind = data.draw(st.sampled_from(["set", "cut", "insert"]))
        at = data.draw(st.integers(0, max(0, len(mutated) - 1)))
        if kind == "set" and mutated:
            mutated[at] = data.draw(st.sampled_from([0x00, 0x01, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        elif kind == "cut":
            del mutated[at : at + data.draw(st.integers(1, 8))]
        else:
            mutated[at:at] = data.draw(st.binary(min_size=1, max_size=8))
    return mutated
