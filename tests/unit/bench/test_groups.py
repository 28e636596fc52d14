"""The group rows: the requests of their generators, and the evaluation of responses."""

from __future__ import annotations

import asyncio

import pytest
from bench.generators import GeneratorFailed
from bench.groups import check_commits, commit_frame
from bench.hold import CHANGES, MEMBERS, PARTITIONS, Held, measure, measure_group, specs, with_owners
from bench.members import ClassicMembers
from bench.offset_batches import PARTITIONS as PARTITIONS_OF_A_GROUP
from bench.offset_batches import RECORDS_OF_A_BATCH, commit_batches
from bench.plain_client import Fleet

from ottla.coordinator.groups.assignors.uniform import UniformAssignor
from ottla.coordinator.records import decode, kinds_of
from ottla.coordinator.slices import Slices
from ottla.host import HostClock
from ottla.records.record import read_records
from ottla.wire.frame import read_request, response_frame
from ottla.wire.messages import group_records
from ottla.wire.messages.offset_commit import OffsetCommitResponse


def _told(error_code: int, different: int) -> dict[str, object]:
    partition = OffsetCommitResponse.OffsetCommitResponsePartition(error_code=error_code)
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="news", partitions=[partition])
    first = response_frame(OffsetCommitResponse(topics=[topic]), 9, 1)
    return {"first": first.hex(), "different": different, "requests": 10}


def test_the_commit_frame_comes_from_a_non_member() -> None:
    frame = commit_frame("readers", "news")
    key, version, _, _, request = read_request(memoryview(frame)[4:])
    assert (key, version, request.group_id) == (8, 9, "readers")
    assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)
    assert [(topic.name, len(topic.partitions)) for topic in request.topics] == [("news", 1)]


def test_commits_count_if_all_were_accepted() -> None:
    check_commits(_told(error_code=0, different=0))


@pytest.mark.parametrize(("error_code", "different"), [(16, 0), (0, 1)])
def test_a_refused_commit_aborts_the_run(error_code: int, different: int) -> None:
    with pytest.raises(GeneratorFailed):
        check_commits(_told(error_code, different))


def test_frames_of_members_differ_only_by_member_id() -> None:
    members = ClassicMembers(Fleet(0, 0, 1.0), 0, "readers", 1.0)
    members._ids = ["", "bench-one", "bench-two"]
    members._generation = 7
    joins = [read_request(memoryview(members._join_frame(place))[4:])[4] for place in range(3)]
    assert [join.member_id for join in joins] == members._ids
    assert joins[1].protocols == joins[0].protocols
    leader, follower = (read_request(memoryview(frame)[4:])[4] for frame in members._sync_frames([1, 2]))
    assert (leader.member_id, follower.member_id) == ("bench-one", "bench-two")
    assert (leader.generation_id, follower.generation_id) == (7, 7)
    assert [one.member_id for one in leader.assignments] == ["bench-one", "bench-two"]
    assert follower.assignments == []
    leave = read_request(memoryview(members._leave_frame([1, 2]))[4:])[4]
    assert [one.member_id for one in leave.members] == ["bench-one", "bench-two"]


def test_offsets_to_load_have_the_coordinators_record_format() -> None:
    count = PARTITIONS_OF_A_GROUP + 3
    kinds = kinds_of(group_records)
    batches = list(commit_batches(count, 1234))
    assert [len(list(read_records(batch))) for _, batch in batches] == [RECORDS_OF_A_BATCH] * 10 + [3]
    offsets = {}
    for group, batch in batches:
        for stored in read_records(batch):
            record = decode(kinds, stored.key, stored.value)
            assert record is not None
            key, value = record.key, record.value
            assert isinstance(key, group_records.OffsetCommitKey)
            assert isinstance(value, group_records.OffsetCommitValue)
            assert (key.group, record.version, value.commit_timestamp) == (group, 4, 1234)
            offsets[key.group, key.topic, key.partition] = value.offset
    assert len(offsets) == count
    assert offsets["group-00001", "orders", 2] == count - 1


def test_the_probe_measures_holds_during_a_full_assignment() -> None:
    spec = specs()["ten topics"]
    held = Held()
    slices = Slices(HostClock())
    assignment = asyncio.run(measure(slices, UniformAssignor(), spec, held))
    assert len(assignment) == MEMBERS
    assert sum(len(indexes) for share in assignment.values() for indexes in share.values()) == PARTITIONS
    assert held.cpu_ms > 0
    assert held.wall_ms > 0
    assert len(with_owners(spec, assignment, left_out=1).members) == MEMBERS - 1


def test_joins_and_leaves_trigger_a_full_assignment() -> None:
    held = Held()
    asyncio.run(measure_group(CHANGES + 5, {"news": 30, "mail": 7}, "range", held))
    assert held.cpu_ms > 0
