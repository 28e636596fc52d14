"""Which commits and fetches of offsets a consumer group lets through."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.groups.consumer.consumer_world import Consumer, World, settle
from tests.unit.coordinator.groups.shards import topic_id_of

from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.wire import errors

A = topic_id_of("a")


def check(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    *,
    is_transactional: bool = False,
    version: int = 9,
) -> object:
    return group.check_offset_commit(
        member_id, None, epoch, is_transactional=is_transactional, version=version
    )


def test_anybody_without_a_member_may_commit_while_the_group_is_empty() -> None:
    world = World(a=1)
    member = Consumer(world, "m1", ["a"])
    settle([member])
    with pytest.raises(errors.UnknownMemberId):
        check(world.group(), "", -1)
    member.leave()
    assert check(world.group(), "", -1) is None


def test_a_member_commits_with_its_epoch_and_from_version_9_on() -> None:
    world = World(a=1)
    member = Consumer(world, "m1", ["a"])
    settle([member])
    assert check(world.group(), "m1", member.epoch) is None
    with pytest.raises(errors.UnsupportedVersion):
        check(world.group(), "m1", member.epoch, version=8)
    assert check(world.group(), "m1", member.epoch, version=3, is_transactional=True) is None


def test_a_newer_epoch_than_the_members_is_stale() -> None:
    world = World(a=1)
    settle([Consumer(world, "m1", ["a"])])
    with pytest.raises(errors.StaleMemberEpoch):
        check(world.group(), "m1", 9)


def test_an_older_epoch_is_taken_for_partitions_that_the_member_has_had_since_then() -> None:
    world = World(a=2, b=1)
    member = Consumer(world, "m1", ["a"])
    settle([member])
    old = member.epoch
    member.subscribe(["a", "b"])
    settle([member])
    assert member.epoch > old
    of_partition = world.group().check_offset_commit("m1", None, old, is_transactional=False, version=9)
    assert of_partition is not None
    of_partition("a", A, 0)
    with pytest.raises(errors.StaleMemberEpoch, match="older than assignment epoch"):
        of_partition("b", topic_id_of("b"), 0)
    with pytest.raises(errors.StaleMemberEpoch, match="not assigned or pending revocation"):
        of_partition("a", A, 7)


def test_what_a_member_is_giving_up_it_may_still_commit() -> None:
    world = World(a=2)
    first, second = Consumer(world, "m1", ["a"]), Consumer(world, "m2", ["a"])
    settle([first])
    second.beat()
    first.beat()
    (pending,) = world.group().members["m1"].pending_revocation[A]
    of_partition = world.group().check_offset_commit("m1", None, 1, is_transactional=False, version=9)
    assert of_partition is not None
    with pytest.raises(errors.StaleMemberEpoch):
        of_partition("a", A, pending)  # it has them since epoch 2
    first.epoch = 2
    assert check(world.group(), "m1", 2) is None


def test_a_transaction_without_a_member_commits_unchecked() -> None:
    world = World(a=1)
    settle([Consumer(world, "m1", ["a"])])
    assert check(world.group(), "", -1, is_transactional=True) is None


def test_a_fetch_of_offsets_is_checked_only_when_it_names_a_member() -> None:
    world = World(a=1)
    member = Consumer(world, "m1", ["a"])
    settle([member])
    group = world.group()
    group.check_offset_fetch(None, -1)
    group.check_offset_fetch("m1", member.epoch)
    with pytest.raises(errors.StaleMemberEpoch):
        group.check_offset_fetch("m1", member.epoch - 1)
    with pytest.raises(errors.UnknownMemberId):
        group.check_offset_fetch("other", member.epoch)


def test_only_an_empty_group_is_deleted() -> None:
    world = World(a=1)
    member = Consumer(world, "m1", ["a"])
    settle([member])
    with pytest.raises(errors.NonEmptyGroup):
        world.group().check_delete()
    member.leave()
    world.group().check_delete()
    for record in world.group().tombstones():
        world.replay(record)
    assert world.shard.groups == {}
    assert world.reload(fast=False).shard.groups == {}


def test_a_group_is_subscribed_to_topics_by_name_and_by_expression() -> None:
    world = World(a=1, b=1, c=1)
    settle([Consumer(world, "m1", ["a"]), Consumer(world, "m2", regex="b|x")])
    group = world.group()
    assert [name for name in "abcx" if group.is_subscribed_to(name)] == ["a", "b"]
