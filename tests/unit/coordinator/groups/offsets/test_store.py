"""Any sequence of commits, deletions and transactions against a model, and what a load makes of its log."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.coordinator.groups.shards import ShardOfTests

from ottla.coordinator.groups.offsets.records import (
    OffsetRecord,
    bytes_of,
    is_sound,
    key_bytes,
    key_prefix,
    read_key,
    read_value,
    times_of,
    value_bytes,
)
from ottla.coordinator.records import encode
from ottla.coordinator.result import Record
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue

GROUPS = ("g", "h")
PLACES = [("a", 0), ("a", 1), ("b", 0)]
PRODUCERS = (7, 8)


class Model:
    """Every commit with its number; the newest one that holds is the offset."""

    def __init__(self) -> None:
        self.count = 0
        self.holding: dict[Any, tuple[int, int]] = {}
        self.pending: dict[int, dict[Any, tuple[int, int]]] = {}
        self.groups: set[str] = set()

    def commit(self, group: str, place: Any, offset: int) -> None:
        self.count += 1
        self.groups.add(group)
        self.holding[group, place] = (self.count, offset)

    def commit_in_transaction(self, producer: int, group: str, place: Any, offset: int) -> None:
        self.count += 1
        self.groups.add(group)
        self.pending.setdefault(producer, {})[group, place] = (self.count, offset)

    def end(self, producer: int, *, is_commit: bool) -> None:
        for key, commit in self.pending.pop(producer, {}).items():
            if is_commit:
                self.holding[key] = max(commit, self.holding.get(key, (0, 0)))

    def delete(self, group: str, place: Any) -> None:
        self.holding.pop((group, place), None)
        for pending in self.pending.values():
            pending.pop((group, place), None)

    def delete_group(self, group: str) -> None:
        for place in PLACES:
            self.delete(group, place)
        self.groups.discard(group)

    def offsets(self, group: str) -> dict[Any, int]:
        return {place: offset for (owner, place), (_, offset) in self.holding.items() if owner == group}

    def unstable(self, group: str) -> set[Any]:
        return {place for pending in self.pending.values() for owner, place in pending if owner == group}


ONE_GROUP = st.sampled_from(GROUPS)
ONE_PLACE = st.sampled_from(PLACES)
ONE_PRODUCER = st.sampled_from(PRODUCERS)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), ONE_GROUP, ONE_PLACE, st.integers(0, 1000)),
        st.tuples(st.just("transact"), ONE_PRODUCER, ONE_GROUP, ONE_PLACE, st.integers(0, 1000)),
        st.tuples(st.just("end"), ONE_PRODUCER, st.booleans()),
        st.tuples(st.just("delete"), ONE_GROUP, ONE_PLACE),
        st.tuples(st.just("delete_group"), ONE_GROUP),
    ),
    max_size=40,
)


def take(tests: ShardOfTests, model: Model, step: Any) -> None:
    match step:
        case ("commit", group, place, offset):
            tests.commit(group, {place: offset})
            model.commit(group, place, offset)
        case ("transact", producer, group, place, offset):
            tests.commit_in_transaction(producer, group, {place: offset})
            model.commit_in_transaction(producer, group, place, offset)
        case ("end", producer, is_commit):
            tests.end_transaction(producer, is_commit=is_commit)
            model.end(producer, is_commit=is_commit)
        case ("delete", group, place) if group in tests.shard.groups:
            tests.delete_offsets(group, place)
            model.delete(group, place)
        case ("delete_group", group):
            tests.delete_groups(group)
            model.delete_group(group)


def check(tests: ShardOfTests, model: Model) -> None:
    for group in GROUPS:
        assert tests.fetch(group) == model.offsets(group)
        stable = tests.fetch_partitions(group, *PLACES, stable=True)
        assert {place for place, found in stable.items() if found.error_code} == model.unstable(group)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_offsets_are_what_was_committed_last_and_a_load_gives_the_same(steps: list[Any]) -> None:
    tests, model = ShardOfTests(a=2, b=2), Model()
    for step in steps:
        take(tests, model, step)
    check(tests, model)
    assert tests.listed() == sorted(model.groups)
    for fast in (False, True):
        loaded = tests.reload(fast=fast)
        check(loaded, model)
        assert set(loaded.listed()) >= {group for group in model.groups if model.offsets(group)}
        # And what is still open ends the same way.
        left = Model()
        left.__dict__.update({name: value.copy() for name, value in vars(model).items() if name != "count"})
        left.pending = {producer: pending.copy() for producer, pending in model.pending.items()}
        for producer in PRODUCERS:
            loaded.shard.replay_end_transaction(producer, 0, True)
            left.end(producer, is_commit=True)
        check(loaded, left)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    TEXTS,
    TEXTS,
    st.integers(-(1 << 31), (1 << 31) - 1),
    LONGS,
    TEXTS | st.none(),
    LONGS,
    LONGS,
    st.binary(min_size=16, max_size=16),
)
def test_packed_records_are_those_that_the_codec_makes(
    group: str,
    topic: str,
    partition: int,
    offset: int,
    metadata: str | None,
    commit_ms: int,
    expire_ms: int,
    topic_id: bytes,
) -> None:
    for expiry in (-1, expire_ms):
        packed = OffsetRecord(
            group,
            topic,
            partition,
            key_bytes(key_prefix(group, topic), partition),
            value_bytes(offset, 3, metadata, commit_ms, topic_id, expiry),
        )
        with_expiry = expiry != -1
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=3,
            metadata=metadata or "",
            commit_timestamp=commit_ms,
            expire_timestamp=expiry,
            topic_id=topic_id,
        )
        version = 1 if with_expiry else 4
        key = OffsetCommitKey(group=group, topic=topic, partition=partition)
        assert encode(packed) == encode(Record(key, value, version))
        assert read_key(packed.key_bytes) == (group, topic, partition)
        assert packed.key == key
        assert packed.value_bytes is not None
        assert packed.value == read_value(packed.value_bytes)
        assert packed.version == version
        assert times_of(packed.value_bytes) == (commit_ms, expiry)


@settings(max_examples=100)
@given(
    value=st.builds(
        OffsetCommitValue,
        offset=st.integers(0, 2**62),
        leader_epoch=st.integers(-1, 5),
        metadata=st.text(max_size=140),
        commit_timestamp=st.integers(0, 2**62),
        topic_id=st.sampled_from([bytes(16), bytes(range(16))]),
    ),
    version=st.integers(0, 4),
    data=st.data(),
)
def test_a_value_that_a_load_takes_unread_can_be_read(
    value: OffsetCommitValue, version: int, data: st.DataObject
) -> None:
    stored = bytearray(bytes_of(value, version))
    whole = bytes(stored)
    if version == 4 and value.metadata.isascii() and len(value.metadata) < 127:
        assert is_sound(whole)
    stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(stored[: data.draw(st.integers(0, len(stored)))]) + data.draw(st.binary(max_size=2))
    for one in (whole, damaged):
        if is_sound(one):
            read_value(one)
            times_of(one)
    store = ShardOfTests(a=3).shard.offsets.store
    key = key_bytes(key_prefix("g", "a"), 0)
    store.load([(key, whole)])
    assert store.get("g", "a", 0) == whole
    unreadable = store.load([(key, damaged)])
    kept = store.get("g", "a", 0)
    assert kept == (whole if unreadable else damaged)
    assert kept is not None
    read_value(kept)
