"""Open transactions, and the transaction index."""

from __future__ import annotations

import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.host import HostDisk
from ottla.log.transactions import (
    AbortedIndex,
    AbortedTransaction,
    CompletedTransaction,
    OpenTransactions,
    aborted_problem,
    encode_aborted,
)


def ended(producer_id: int, first: int, last: int, *, aborted: bool = False) -> CompletedTransaction:
    return CompletedTransaction(producer_id, first, last, aborted)


def test_the_oldest_open_transaction_bounds_the_stable_offsets() -> None:
    book = OpenTransactions()
    assert book.first_unstable_offset is None
    book.begin(1, 10)
    book.begin(2, 20)
    assert book.first_unstable_offset == 10
    assert book.first_undecided_offset == 10


def test_an_ended_transaction_stays_unstable_until_its_marker_is_replicated() -> None:
    book = OpenTransactions()
    book.begin(1, 10)
    book.begin(2, 20)
    book.complete(ended(1, 10, 30))
    assert book.first_undecided_offset == 20
    assert book.first_unstable_offset == 10
    book.forget_below(30)
    assert book.first_unstable_offset == 10
    book.forget_below(31)
    assert book.first_unstable_offset == 20
    book.complete(ended(2, 20, 40))
    book.forget_below(41)
    assert book.first_unstable_offset is None


def test_the_stable_offset_of_an_index_entry_is_the_next_open_transaction_of_another_producer() -> None:
    book = OpenTransactions()
    book.begin(1, 10)
    assert book.last_stable_offset_after(ended(1, 10, 30)) == 31
    book.begin(2, 20)
    assert book.last_stable_offset_after(ended(1, 10, 30)) == 20
    assert book.last_stable_offset_after(ended(2, 20, 30)) == 10


def test_restored_transactions_are_in_order() -> None:
    book = OpenTransactions()
    book.begin(9, 1)
    book.restore({30: 3, 20: 2})
    assert book.first_unstable_offset == 20
    book.clear()
    assert book.first_unstable_offset is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=40))
def test_the_first_unstable_offset_is_the_least_of_all(steps: list[tuple[bool, int]]) -> None:
    book = OpenTransactions()
    open_by_producer: dict[int, int] = {}
    unreplicated: dict[int, int] = {}
    for offset, (is_end, producer_id) in enumerate(steps):
        if producer_id in open_by_producer and is_end:
            first = open_by_producer.pop(producer_id)
            book.complete(ended(producer_id, first, offset))
            unreplicated[first] = offset
        elif producer_id not in open_by_producer:
            open_by_producer[producer_id] = offset
            book.begin(producer_id, offset)
        if offset % 5 == 4:
            book.forget_below(offset - 2)
            unreplicated = {first: last for first, last in unreplicated.items() if last >= offset - 2}
        expected = [*open_by_producer.values(), *unreplicated]
        assert book.first_unstable_offset == min(expected, default=None)
        assert book.first_undecided_offset == min(open_by_producer.values(), default=None)


def index_of(path: Path, *entries: AbortedTransaction) -> AbortedIndex:
    index = AbortedIndex(HostDisk(threads=1), str(path / "0.txnindex"), is_new=True)
    for entry in entries:
        index.append(entry)
    return index


def test_an_index_entry_is_kafkas_34_bytes(tmp_path: Path) -> None:
    entry = AbortedTransaction(7, 10, 20, 15)
    index = index_of(tmp_path, entry)
    assert Path(index.path).read_bytes() == struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    assert list(AbortedIndex(HostDisk(threads=1), index.path, is_new=False).entries()) == [entry]


def test_an_index_without_entries_has_no_file(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    assert not Path(index.path).exists()
    again = AbortedIndex(HostDisk(threads=1), index.path, is_new=False)
    assert again.size_bytes == 0


def test_collecting_stops_where_later_entries_cannot_matter(tmp_path: Path) -> None:
    first, second = AbortedTransaction(1, 0, 10, 11), AbortedTransaction(2, 5, 20, 21)
    index = index_of(tmp_path, first, second)
    assert index.collect(0, 5) == ([first], True)
    assert index.collect(0, 15) == ([first, second], True)
    assert index.collect(11, 40) == ([second], False)
    assert index.collect(21, 40) == ([], False)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30), st.integers(0, 30)), max_size=30),
    st.integers(0, 300),
    st.integers(1, 100),
)
def test_collecting_finds_what_a_look_at_every_entry_finds(
    steps: list[tuple[int, int, int]], first_offset: int, length: int
) -> None:
    entries: list[AbortedTransaction] = []
    marker = 0
    for step, size, behind in steps:
        marker += step
        entries.append(
            AbortedTransaction(1, max(0, marker - size), marker, max(0, marker + 1 - max(size, behind)))
        )
    index = AbortedIndex(HostDisk(threads=1), "unused", is_new=True)
    index.data.extend(b"".join(map(encode_aborted, entries)))
    upper = first_offset + length
    expected: list[AbortedTransaction] = []
    is_complete = False
    for entry in entries:
        if entry.last_offset >= first_offset and entry.first_offset < upper:
            expected.append(entry)
        if entry.last_stable_offset >= upper:
            is_complete = True
            break
    assert index.collect(first_offset, upper) == (expected, is_complete)


def test_truncation_drops_markers_at_or_after_the_offset(tmp_path: Path) -> None:
    first, second = AbortedTransaction(1, 0, 10, 11), AbortedTransaction(2, 5, 20, 21)
    index = index_of(tmp_path, first, second)
    index.truncate_to(20)
    assert list(index.entries()) == [first]
    assert Path(index.path).stat().st_size == 34
    third = AbortedTransaction(3, 11, 30, 31)
    index.append(third)
    assert list(AbortedIndex(HostDisk(threads=1), index.path, is_new=False).entries()) == [first, third]


def test_entries_that_do_not_follow_each_other_are_a_problem() -> None:
    sound = encode_aborted(AbortedTransaction(1, 0, 10, 11)) + encode_aborted(
        AbortedTransaction(2, 5, 20, 21)
    )
    assert aborted_problem(sound, 0) is None
    assert aborted_problem(sound, 11) is not None
    assert aborted_problem(sound[:-1], 0) is not None
    assert aborted_problem(sound[34:] + sound[:34], 0) is not None
    assert aborted_problem(b"\x00\x01" + sound[2:], 0) is not None
