"""Leader epochs, and the text of their checkpoint."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.log.support import Bench, FaultyDisk

from ottla.log.leader_epochs import CHECKPOINT_NAME, EpochCache, EpochEntry, write_checkpoint

ENTRIES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), max_size=12)


def cache_of(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache([EpochEntry(*entry) for entry in entries])


def saved(*entries: tuple[int, int]) -> EpochCache:
    """A cache that was read from a checkpoint."""
    return EpochCache.from_text(cache_of(*entries).to_text())


def test_the_same_epoch_again_changes_nothing() -> None:
    cache = saved((1, 10))
    cache.assign(1, 10)
    cache.assign(1, 15)
    assert (cache.entries, cache.is_changed) == ([(1, 10)], False)


def test_a_cache_is_changed_until_its_checkpoint_is_written() -> None:
    changes: list[Callable[[EpochCache], None]] = [
        lambda cache: cache.assign(3, 30),
        lambda cache: cache.truncate_from_end(20),
        lambda cache: cache.truncate_from_start(15),
        lambda cache: cache.clear(),
        lambda cache: cache.copy_from(cache_of((7, 0))),
    ]
    for change in changes:
        cache = saved((1, 10), (2, 20))
        assert not cache.is_changed
        change(cache)
        assert cache.is_changed


def test_a_failed_write_leaves_the_cache_changed(faulty: Bench) -> None:
    cache = cache_of((1, 10))
    disk = faulty.disk
    assert isinstance(disk, FaultyDisk)
    disk.make_directory(faulty.directory)
    disk.fail_on("replace", CHECKPOINT_NAME)
    with pytest.raises(OSError):
        write_checkpoint(disk, faulty.directory, cache)
    assert cache.is_changed
    disk.heal()
    path = write_checkpoint(disk, faulty.directory, cache)
    assert (disk.read(path), cache.is_changed) == (b"0\n1\n1 10\n", False)


def test_a_copy_has_the_entries_of_the_other_cache_and_changes_alone() -> None:
    cache, other = saved((1, 0)), saved((1, 0), (4, 20))
    cache.copy_from(other)
    assert (cache.entries, cache.latest_epoch) == ([(1, 0), (4, 20)], 4)
    cache.assign(5, 30)
    assert other.entries == [(1, 0), (4, 20)]


def test_an_earlier_start_of_the_same_epoch_replaces_the_later_one() -> None:
    cache = cache_of((1, 10))
    cache.assign(1, 5)
    assert cache.entries == [(1, 5)]


def test_a_new_entry_removes_those_that_contradict_it() -> None:
    cache = cache_of((1, 10), (2, 20), (3, 30))
    cache.assign(2, 15)
    assert cache.entries == [(1, 10), (2, 15)]
    cache.assign(5, 12)
    assert cache.entries == [(1, 10), (5, 12)]


def test_negative_epochs_and_offsets_are_refused() -> None:
    for epoch, offset in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError):
            EpochCache().assign(epoch, offset)


def test_truncation_at_the_start_moves_the_covering_epoch() -> None:
    cache = saved((1, 0), (2, 10), (4, 20))
    cache.truncate_from_start(15)
    assert cache.entries == [(2, 15), (4, 20)]
    cache.truncate_from_start(20)
    assert cache.entries == [(4, 20)]
    cache = saved((4, 20))
    cache.truncate_from_start(20)
    cache.truncate_from_start(3)
    assert (cache.entries, cache.is_changed) == ([(4, 20)], False)


def test_truncation_at_the_end_removes_epochs_that_begin_there() -> None:
    cache = cache_of((1, 0), (2, 10), (4, 20))
    cache.truncate_from_end(10)
    assert (cache.entries, cache.latest_epoch) == ([(1, 0)], 1)
    cache = saved((1, 0))
    cache.truncate_from_end(10)
    assert not cache.is_changed
    cache.truncate_from_end(0)
    assert (cache.entries, cache.latest_epoch) == ([], -1)


def test_the_end_of_an_epoch_is_the_start_of_the_next() -> None:
    cache = cache_of((2, 10), (4, 20), (5, 30))
    assert cache.end_offset_for(-1, 99) == (-1, -1)
    assert cache.end_offset_for(1, 99) == (1, 10)
    assert cache.end_offset_for(2, 99) == (2, 20)
    assert cache.end_offset_for(3, 99) == (2, 20)
    assert cache.end_offset_for(5, 99) == (5, 99)
    assert cache.end_offset_for(6, 99) == (-1, -1)
    assert EpochCache().end_offset_for(0, 99) == (-1, -1)


def test_a_cache_knows_its_earliest_and_its_previous_epoch() -> None:
    cache = cache_of((2, 10), (4, 20))
    assert cache.earliest == (2, 10)
    assert cache.previous_epoch == 2
    assert EpochCache().earliest is None
    assert EpochCache().previous_epoch == -1


@given(ENTRIES)
def test_epochs_and_offsets_always_grow(entries: list[tuple[int, int]]) -> None:
    cache = EpochCache()
    for epoch, offset in entries:
        cache.assign(epoch, offset)
        assert cache.latest_epoch == cache.entries[-1].epoch
        for left, right in zip(cache.entries, cache.entries[1:], strict=False):
            assert left.epoch < right.epoch
            assert left.start_offset < right.start_offset


@given(ENTRIES)
def test_the_text_reads_back(entries: list[tuple[int, int]]) -> None:
    cache = cache_of(*entries)
    assert EpochCache.from_text(cache.to_text()).entries == cache.entries


def test_the_text_is_kafkas() -> None:
    assert cache_of((0, 0), (3, 120)).to_text() == "0\n2\n0 0\n3 120\n"


@pytest.mark.parametrize("text", ["", "0", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 0 0\n", "0\n1\nx y\n", "0\nx\n"])
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        EpochCache.from_text(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "0\n", "0\n1\n", "0\n1\n5 100", "1\n0\n", "0\n2\n5 100\n", "0\n1\n5\n"),
        *("0\n1\n5 -1\n", "0\n1\n2147483648 1\n", "0\n1\n5 9223372036854775808\n"),
        *("0\n1\n5 1_0\n", "0\n1\n+5 1\n", f"0\n1\n5 {'9' * 5000}\n", "0\n1\n\u0663 1\n", "0\n-1\n"),
    ],
)
def test_a_truncated_text_or_one_out_of_range_is_refused_with_a_short_error(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        EpochCache.from_text(text)
    assert len(str(caught.value)) < 200
