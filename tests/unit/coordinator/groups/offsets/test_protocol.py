"""Offsets of groups: what is committed is fetched, by the right member, and goes when it is to go."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.groups.shards import MINUTE_MS, START_MS, ShardOfTests, topic_id_of

from ottla.coordinator.groups.shard import GroupFilter
from ottla.coordinator.result import Record, StopTimer
from ottla.wire.errors import (
    ErrorCode,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    UnknownMemberId,
)
from ottla.wire.messages.group_records import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


@pytest.fixture
def tests() -> ShardOfTests:
    return ShardOfTests(a=2, b=1)


# Committing and fetching


def test_a_committed_offset_is_fetched_as_it_was_committed(tests: ShardOfTests) -> None:
    assert tests.commit("g", {A0: 5}, committed_leader_epoch=7, committed_metadata="here") == {A0: 0}
    found = tests.fetch_partitions("g", A0)[A0]
    assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (5, 7, "here")


def test_the_last_commit_counts_also_within_one_request(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5})
    tests.commit("g", {A0: 3})
    assert tests.fetch("g", A0) == {A0: 3}


def test_a_partition_without_an_offset_has_minus_one(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5})
    assert tests.fetch("g", A1, B0) == {A1: -1, B0: -1}
    found = tests.fetch_partitions("g", A1)[A1]
    assert (found.committed_leader_epoch, found.metadata, found.error_code) == (-1, "", 0)


def test_a_group_that_is_not_there_has_no_offsets_and_no_error(tests: ShardOfTests) -> None:
    assert tests.fetch("g", A0) == {A0: -1}
    assert tests.fetch("g") == {}


def test_all_offsets_of_a_group_are_fetched_when_no_topic_is_named(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5, A1: 6, B0: 7})
    tests.commit("other", {A0: 1})
    assert tests.fetch("g") == {A0: 5, A1: 6, B0: 7}


def test_offsets_of_an_earlier_topic_of_the_same_name_are_not_those_of_the_later(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5}, life=0)
    (found,) = tests.fetch_partitions("g", A0, topic_id=topic_id_of("a", 1)).values()
    assert found.committed_offset == -1
    (found,) = tests.fetch_partitions("g", A0, topic_id=topic_id_of("a", 0)).values()
    assert found.committed_offset == 5
    assert tests.fetch("g", A0) == {A0: 5}  # asked for by name


def test_records_are_written_in_the_version_that_kafka_writes(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5}, committed_leader_epoch=2)
    tests.commit("g", {A1: 6}, committed_metadata="m", retention_ms=1000)
    first, second = tests.records
    assert first == Record(
        OffsetCommitKey(group="g", topic="a", partition=0),
        OffsetCommitValue(offset=5, leader_epoch=2, commit_timestamp=START_MS, topic_id=topic_id_of("a")),
        4,
    )
    assert second == Record(
        OffsetCommitKey(group="g", topic="a", partition=1),
        OffsetCommitValue(
            offset=6, metadata="m", commit_timestamp=START_MS, expire_timestamp=START_MS + 1000
        ),
        1,
    )


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        (None, 0),
        ("", 0),
        ("x" * 10, 0),
        ("x" * 11, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\U0001f600" * 5, 0),
        ("\U0001f600" * 6, ErrorCode.OFFSET_METADATA_TOO_LARGE),  # two units each, as Java counts
    ],
)
def test_metadata_is_bounded_for_each_partition(metadata: str | None, code: int) -> None:
    tests = ShardOfTests({"offset.metadata.max.bytes": "10"}, a=2)
    assert tests.commit("g", {A0: 1}, committed_metadata=metadata) == {A0: code}
    assert tests.fetch("g", A0) == {A0: -1 if code else 1}
    assert tests.listed() == ([] if code else ["g"])


def test_the_empty_group_id_keeps_offsets_too(tests: ShardOfTests) -> None:
    assert tests.commit("", {A0: 1}) == {A0: 0}
    assert tests.fetch("", A0) == {A0: 1}


def test_a_retention_without_end_does_not_end_at_once(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1}, retention_ms=(1 << 63) - 1)
    tests.sweep()
    assert tests.fetch("g") == {A0: 1}


# Who may commit


def test_a_commit_without_a_member_makes_a_simple_group(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    (group,) = tests.shard.list_groups(["g", "gone"], GroupFilter())
    assert (group.group_id, group.group_state, group.group_type, group.protocol_type) == (
        "g",
        "Empty",
        "classic",
        "",
    )


@pytest.mark.parametrize(("version", "error"), [(8, IllegalGeneration), (9, GroupIdNotFound)])
def test_a_generation_of_a_group_that_is_not_there_is_refused(
    tests: ShardOfTests, version: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        tests.commit("g", {A0: 1}, epoch=3, member_id="m", version=version)
    assert tests.log == []


def test_only_members_of_the_generation_commit(tests: ShardOfTests) -> None:
    tests.add_members("g", "m", topics=["a"])
    assert tests.commit("g", {A0: 1}, member_id="m", epoch=3) == {A0: 0}
    with pytest.raises(IllegalGeneration):
        tests.commit("g", {A0: 2}, member_id="m", epoch=2)
    with pytest.raises(UnknownMemberId):
        tests.commit("g", {A0: 2}, member_id="n", epoch=3)
    with pytest.raises(UnknownMemberId):
        tests.commit("g", {A0: 2})
    assert tests.fetch("g") == {A0: 1}


def test_a_commit_keeps_the_session_of_its_member(tests: ShardOfTests) -> None:
    tests.add_members("g", "m", topics=["a"])
    before = set(tests.timers)
    tests.commit("g", {A0: 1}, member_id="m", epoch=3)
    (key,) = set(tests.timers) - before
    assert "m" in key
    assert tests.timers[key].delay_ms == 10_000


# Transactions


def test_a_transactional_commit_holds_only_after_its_marker(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    assert tests.commit_in_transaction(7, "g", {A0: 5}, committed_metadata="m") == {A0: 0}
    assert tests.fetch("g", A0) == {A0: 1}
    tests.end_transaction(7, is_commit=True)
    found = tests.fetch_partitions("g", A0)[A0]
    assert (found.committed_offset, found.metadata) == (5, "m")


def test_an_aborted_commit_leaves_no_trace(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    tests.commit_in_transaction(7, "g", {A0: 5, A1: 6})
    tests.end_transaction(7, is_commit=False)
    assert tests.fetch("g", A0, A1, stable=True) == {A0: 1, A1: -1}


def test_an_open_transaction_makes_its_partitions_unstable(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1, A1: 2})
    tests.commit_in_transaction(7, "g", {A0: 5, B0: 6})
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert tests.fetch("g", A0, A1, B0, stable=True) == {A0: unstable, A1: 2, B0: unstable}
    assert tests.fetch("g", stable=True) == {A0: unstable, A1: 2}
    assert tests.fetch("g", A0, A1, B0) == {A0: 1, A1: 2, B0: -1}


def test_a_later_commit_outside_wins_over_the_transaction(tests: ShardOfTests) -> None:
    tests.commit_in_transaction(7, "g", {A0: 5, A1: 6})
    tests.commit("g", {A0: 9})
    assert tests.fetch("g", A0, stable=True) == {A0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    tests.end_transaction(7, is_commit=True)
    assert tests.fetch("g", A0, A1, stable=True) == {A0: 9, A1: 6}


@pytest.mark.parametrize("fast", [False, True])
def test_a_load_knows_which_commit_came_later(tests: ShardOfTests, fast: bool) -> None:
    tests.commit("g", {A0: 1, A1: 1})
    tests.commit_in_transaction(7, "g", {A0: 5, A1: 6})
    tests.commit("g", {A0: 9})
    loaded = tests.reload(fast=fast)
    loaded.end_transaction(7, is_commit=True)
    assert loaded.fetch("g", stable=True) == {A0: 9, A1: 6}


def test_of_two_transactions_the_later_commit_wins_whichever_ends_first(tests: ShardOfTests) -> None:
    tests.commit_in_transaction(7, "g", {A0: 5, A1: 5})
    tests.commit_in_transaction(8, "g", {A0: 6, A1: 6})
    tests.commit_in_transaction(7, "g", {A1: 7})
    tests.end_transaction(8, is_commit=True)
    tests.end_transaction(7, is_commit=True)
    assert tests.fetch("g", A0, A1) == {A0: 6, A1: 7}


def test_a_marker_of_a_transaction_without_offsets_changes_nothing(tests: ShardOfTests) -> None:
    tests.end_transaction(7, is_commit=True)
    assert tests.listed() == []


def test_a_transactional_commit_needs_the_generation_that_it_names(tests: ShardOfTests) -> None:
    with pytest.raises(IllegalGeneration):
        tests.commit_in_transaction(7, "g", {A0: 1}, generation=3, member_id="m")
    tests.add_members("g", "m", topics=["a"])
    with pytest.raises(IllegalGeneration):
        tests.commit_in_transaction(7, "g", {A0: 1}, generation=2, member_id="m")
    assert tests.commit_in_transaction(7, "g", {A0: 1}, generation=3, member_id="m") == {A0: 0}
    assert tests.commit_in_transaction(7, "g", {A1: 1}) == {A1: 0}  # a client that knows no generations


def test_metadata_of_a_transactional_commit_is_bounded_too() -> None:
    tests = ShardOfTests({"offset.metadata.max.bytes": "3"}, a=2)
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert tests.commit_in_transaction(7, "g", {A0: 1}, committed_metadata="long") == {A0: code}


# Deleting offsets


def test_offsets_are_deleted_one_by_one(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5, A1: 6})
    assert tests.delete_offsets("g", A0, B0) == {A0: 0, B0: 0}
    assert tests.fetch("g") == {A1: 6}
    assert [record.key for record in tests.records if record.value is None] == [
        OffsetCommitKey(group="g", topic="a", partition=0)
    ]


def test_offsets_of_topics_that_members_read_stay(tests: ShardOfTests) -> None:
    tests.add_members("g", "m", topics=["a"])
    tests.commit("g", {A0: 5, B0: 6}, member_id="m", epoch=3)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert tests.delete_offsets("g", A0, B0) == {A0: subscribed, B0: 0}
    assert tests.fetch("g") == {A0: 5}


def test_offsets_of_no_group_cannot_be_deleted(tests: ShardOfTests) -> None:
    with pytest.raises(GroupIdNotFound):
        tests.delete_offsets("g", A0)


def test_deleting_an_offset_takes_pending_ones_along(tests: ShardOfTests) -> None:
    tests.commit_in_transaction(7, "g", {A0: 5})
    tests.delete_offsets("g", A0)
    tests.end_transaction(7, is_commit=True)
    assert tests.fetch("g", A0, stable=True) == {A0: -1}


# Groups


def test_a_group_is_deleted_with_its_offsets(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5, B0: 6})
    tests.commit_in_transaction(7, "g", {A0: 8, A1: 9})
    assert tests.delete_groups("g", "missing") == {"g": 0, "missing": ErrorCode.GROUP_ID_NOT_FOUND}
    tests.end_transaction(7, is_commit=True)
    assert tests.listed() == []
    assert tests.fetch("g", A0, A1, B0) == {A0: -1, A1: -1, B0: -1}
    tombstones = [record.key for record in tests.records if record.value is None]
    assert sum(isinstance(key, OffsetCommitKey) for key in tombstones) == 3
    assert tombstones[-1] == GroupMetadataKey(group="g")


def test_a_group_with_members_is_not_deleted(tests: ShardOfTests) -> None:
    tests.add_members("g", "m", topics=["a"])
    tests.commit("g", {A0: 5}, member_id="m", epoch=3)
    assert tests.delete_groups("g") == {"g": ErrorCode.NON_EMPTY_GROUP}
    assert tests.fetch("g") == {A0: 5}


def test_timers_of_a_deleted_group_are_stopped(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 5})
    result = tests.shard.delete_groups(["g"])
    assert all(isinstance(timer, StopTimer) for timer in result.timers)


def test_groups_are_listed_by_state_and_type_whatever_the_case(tests: ShardOfTests) -> None:
    tests.commit("simple", {A0: 1})
    tests.add_members("full", "m", topics=["a"])
    assert tests.listed() == ["full", "simple"]
    assert tests.listed(states=[" sTable"]) == ["full"]
    assert tests.listed(states=["EMPTY", "stable"]) == ["full", "simple"]
    assert tests.listed(states=["Nonsense"]) == []
    assert tests.listed(types=["CLASSIC"]) == ["full", "simple"]
    assert tests.listed(types=["consumer"]) == []
    assert tests.listed(types=["nonsense"]) == []
    assert tests.listed(states=["empty"], types=["classic"]) == ["simple"]


def test_a_classic_group_is_described_with_its_members(tests: ShardOfTests) -> None:
    tests.add_members("g", "m", topics=["a"])
    described = tests.shard.describe_classic("g", 6)
    assert (described.error_code, described.group_state) == (0, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host, member.member_assignment) == (
        "m",
        "client",
        "/127.0.0.1",
        b"assigned",
    )


def test_a_group_that_is_not_there_is_dead_and_newer_clients_hear_why(tests: ShardOfTests) -> None:
    described = tests.shard.describe_classic("g", 5)
    assert (described.group_state, described.error_code, described.error_message) == ("Dead", 0, None)
    described = tests.shard.describe_classic("g", 6)
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert described.error_message == "Group g not found."


def test_a_group_without_the_consumer_protocol_keeps_its_offsets_while_it_has_members(
    tests: ShardOfTests,
) -> None:
    tests.add_members("g", "m", topics=["a"])
    group = tests.shard.groups["g"]
    group.protocol_type = "connect"  # type: ignore[misc]
    with pytest.raises(NonEmptyGroup):
        tests.delete_offsets("g", A0)


# Records of others


def test_offsets_of_the_oldest_format_are_loaded(tests: ShardOfTests) -> None:
    tests.replay(
        Record(
            LegacyOffsetCommitKey(group="g", topic="a", partition=0),
            LegacyOffsetCommitValue(offset=4, metadata="m", commit_timestamp=START_MS),
        )
    )
    found = tests.fetch_partitions("g", A0)[A0]
    assert (found.committed_offset, found.metadata, found.committed_leader_epoch) == (4, "m", -1)
    tests.replay(Record(LegacyOffsetCommitKey(group="g", topic="a", partition=0), None))
    assert tests.fetch("g") == {}


@pytest.mark.parametrize("version", OffsetCommitValue.VERSIONS)
@pytest.mark.parametrize("fast", [False, True])
def test_every_version_of_a_committed_offset_is_read(
    tests: ShardOfTests, version: int, *, fast: bool
) -> None:
    value = OffsetCommitValue(offset=4, metadata="m", commit_timestamp=START_MS)
    tests.replay(Record(OffsetCommitKey(group="g", topic="a", partition=0), value, version))
    assert tests.fetch_partitions("g", A0)[A0].metadata == "m"
    assert tests.reload(fast=fast).fetch("g") == {A0: 4}


def test_the_load_returns_an_offset_of_an_unknown_version(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    _producer_id, key, value = tests.log[0]
    unknown = (key, b"\x00\x63" + value[2:])
    assert tests.shard.load([unknown]) == [unknown]
    assert tests.shard.load([(key, value), unknown]) == [unknown]


@pytest.mark.parametrize("key", [b"\0\1", b"\0\1\0\1g\0\1a\0", b"\0\1\0\x7fg\0\1a\0\0\0\0"])
def test_the_load_returns_a_record_with_a_damaged_key(tests: ShardOfTests, key: bytes) -> None:
    assert tests.shard.load([(key, b"\0\4")]) == [(key, b"\0\4")]


def test_records_that_are_not_offsets_come_back_from_the_load(tests: ShardOfTests) -> None:
    others = [(None, b"v"), (b"", None), (b"\0\2\0\1g", None), (b"\0\1", b"")]
    assert tests.shard.load(others) == others


def test_groups_of_other_kinds_are_left_alone(tests: ShardOfTests) -> None:
    tests.replay(Record(ShareGroupMetadataKey(group_id="s"), ShareGroupMetadataValue(epoch=1)))
    assert tests.listed() == []
    assert tests.reload(fast=True).listed() == []


# Expiry

WEEK_MS = 7 * 24 * 60 * MINUTE_MS


def test_offsets_of_a_simple_group_go_when_their_time_is_over(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    tests.clock.value_ms += WEEK_MS - 1
    tests.commit("g", {A1: 2})
    tests.sweep()
    assert tests.fetch("g") == {A0: 1, A1: 2}
    tests.clock.value_ms += 1
    tests.sweep()
    assert tests.fetch("g") == {A1: 2}
    tests.clock.value_ms += WEEK_MS
    tests.sweep()
    assert tests.listed() == []
    assert tests.reload(fast=True).listed() == []


def test_an_expiry_time_of_the_commit_itself_counts_instead(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1}, retention_ms=5)
    tests.commit("g", {A1: 1}, retention_ms=2 * WEEK_MS)
    tests.clock.value_ms += 5
    tests.sweep()
    assert tests.fetch("g") == {A1: 1}
    tests.clock.value_ms += WEEK_MS
    tests.sweep()
    assert tests.fetch("g") == {A1: 1}


def test_offsets_of_an_empty_group_count_from_when_it_became_empty(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    tests.clock.value_ms += WEEK_MS // 2
    tests.add_members("g", topics=[])
    tests.clock.value_ms += WEEK_MS - 1
    tests.sweep()
    assert tests.fetch("g") == {A0: 1}
    tests.clock.value_ms += 1
    tests.sweep()
    assert tests.listed() == []


def test_a_group_with_members_loses_only_offsets_of_topics_without_subscribers(tests: ShardOfTests) -> None:
    tests.add_members("g", "m", topics=["a"])
    tests.commit("g", {A0: 1, B0: 2}, member_id="m", epoch=3)
    tests.clock.value_ms += WEEK_MS
    tests.sweep()
    assert tests.fetch("g") == {A0: 1}
    assert tests.listed() == ["g"]


def test_a_pending_commit_keeps_the_offset_before_it_and_the_group(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    tests.commit_in_transaction(7, "g", {A0: 2})
    tests.commit_in_transaction(8, "only-pending", {A0: 2})
    tests.clock.value_ms += WEEK_MS
    tests.sweep()
    assert tests.fetch("g") == {A0: 1}
    assert tests.listed() == ["g", "only-pending"]
    tests.end_transaction(7, is_commit=False)
    tests.end_transaction(8, is_commit=False)
    tests.sweep()
    assert tests.listed() == []


def test_the_next_sweep_comes_after_the_check_interval(tests: ShardOfTests) -> None:
    assert tests.timers["offset-expiry"].delay_ms == 10 * MINUTE_MS
    tests.sweep()
    assert tests.timers["offset-expiry"].delay_ms == 10 * MINUTE_MS


def test_a_sweep_over_many_offsets_is_cut_into_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.coordinator.groups import expiration

    monkeypatch.setattr(expiration, "OFFSETS_PER_SLICE", 20)
    monkeypatch.setattr(expiration, "_OFFSETS_PER_STEP", 7)
    tests = ShardOfTests(a=100, b=1)
    for group_id in ("g", "h"):
        tests.commit(group_id, {("a", index): index for index in range(100)})
    tests.clock.value_ms += WEEK_MS
    tests.commit("h", {B0: 1})
    tests.fire("offset-expiry")
    assert 0 < len(tests.fetch("g")) < 100
    tests.commit("g", {("a", 99): 7})  # between two slices
    while tests.timers["offset-expiry"].delay_ms == 0:
        before = len(tests.log)
        tests.fire("offset-expiry")
        assert len(tests.log) - before <= 30
    assert tests.fetch("g") == {("a", 99): 7}
    assert tests.fetch("h") == {B0: 1}
    tests.clock.value_ms += WEEK_MS
    tests.sweep()
    assert tests.listed() == []


def test_a_group_goes_with_its_last_offset_also_where_a_slice_ends_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ottla.coordinator.groups import expiration

    monkeypatch.setattr(expiration, "OFFSETS_PER_SLICE", 5)
    tests = ShardOfTests(a=5)
    tests.commit("g", {("a", index): index for index in range(5)})
    tests.clock.value_ms += WEEK_MS
    tests.sweep()
    assert tests.listed() == []


def test_a_sweep_bears_what_is_deleted_between_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.coordinator.groups import expiration

    monkeypatch.setattr(expiration, "OFFSETS_PER_SLICE", 2)
    monkeypatch.setattr(expiration, "_OFFSETS_PER_STEP", 2)
    tests = ShardOfTests(a=6)
    tests.commit("g", {("a", index): index for index in range(6)})
    tests.commit("h", {A0: 1})
    tests.clock.value_ms += WEEK_MS
    tests.fire("offset-expiry")
    tests.delete_offsets("g", ("a", 4))
    tests.fire("offset-expiry")
    tests.delete_groups("h")
    tests.sweep()
    assert tests.listed() == []


# Deleted topics


def test_offsets_of_a_deleted_topic_go(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1, A1: 2, B0: 3})
    tests.commit("h", {A0: 4})
    tests.commit_in_transaction(7, "i", {A0: 5, B0: 6})
    tests.delete_topic("a")
    tests.end_transaction(7, is_commit=True)
    assert tests.fetch("g") == {B0: 3}
    assert tests.fetch("h") == {}
    assert tests.fetch("i") == {B0: 6}


def test_an_offset_with_a_pending_one_is_deleted_once(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1})
    tests.commit_in_transaction(7, "g", {A0: 5})
    written = len(tests.log)
    tests.delete_topic("a")
    assert len(tests.log) == written + 1


def test_offsets_of_a_later_topic_of_the_same_name_stay_when_the_earlier_goes(tests: ShardOfTests) -> None:
    tests.commit("g", {A0: 1}, life=1)
    tests.commit("g", {A1: 2}, life=0)
    tests.delete_topic("a", life=0)
    assert tests.fetch("g") == {A0: 1}


def test_many_offsets_of_a_deleted_topic_go_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.coordinator.groups import expiration

    monkeypatch.setattr(expiration, "OFFSETS_PER_SLICE", 10)
    tests = ShardOfTests(a=35)
    tests.commit("g", {("a", index): index for index in range(35)})
    tests.delete_topic("a")
    assert len(tests.fetch("g")) == 25
    while deletions := [key for key in tests.timers if key[0] == "offsets-of-deleted-topics"]:
        tests.fire(deletions[0])
    assert tests.fetch("g") == {}
