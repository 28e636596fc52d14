"""Subscriptions to regular expressions: checked, resolved in the background, refreshed."""

from __future__ import annotations

from tests.unit.coordinator.groups.consumer.consumer_world import Consumer, World, settle

from ottla.wire.errors import ErrorCode


def owned_names(world: World, member: Consumer) -> set[str]:
    return {name for name, _partition in world.names(member.owned)}


def test_a_member_gets_the_topics_that_its_expression_matches_whole() -> None:
    world = World(ab=1, abc=1, b=1)
    member = Consumer(world, "m1", regex="ab?")
    settle([member])
    assert owned_names(world, member) == {"ab"}
    assert world.group().resolved["ab?"].topics == {"ab"}


def test_names_and_an_expression_are_taken_together() -> None:
    world = World(ab=1, c=1, d=1)
    member = Consumer(world, "m1", ["c"], regex="a.*")
    settle([member])
    assert owned_names(world, member) == {"ab", "c"}


def test_an_expression_that_cannot_be_read_is_refused_and_nothing_is_written() -> None:
    world = World(a=1)
    response = world.join("m1", subscribed_topic_regex="a(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "SubscribedTopicRegex `a(` is not a valid regular expression" in (response.error_message or "")
    assert world.log == []


def test_a_member_has_no_topics_until_its_expression_is_resolved() -> None:
    world = World(ab=2)
    world.is_busy = True
    member = Consumer(world, "m1", regex="a.*")
    member.beat()
    assert member.told == {}
    assert world.group().epoch == 1
    world.work()
    assert world.group().epoch == 2
    settle([member])
    assert len(member.may_own) == 2


def test_expressions_are_resolved_once_at_a_time() -> None:
    world = World(ab=2)
    world.is_busy = True
    for number in range(3):
        Consumer(world, f"m{number}", regex="a.*").beat()
    assert len(world.tasks) == 1


def test_a_second_member_with_the_same_expression_needs_no_new_look_at_the_topics() -> None:
    world = World(ab=2)
    first, second = Consumer(world, "m1", regex="a.*"), Consumer(world, "m2", regex="a.*")
    settle([first])
    world.is_busy = True
    second.beat()
    assert not world.tasks
    settle([first, second])
    assert [len(first.may_own), len(second.may_own)] == [1, 1]


def test_a_new_topic_is_found_but_not_within_ten_seconds_of_the_last_look() -> None:
    world = World(ab=1)
    member = Consumer(world, "m1", regex="a.*")
    settle([member])
    world.make_topic("abc", 1)
    world.clock.value_ms += 10_000
    settle([member])
    assert owned_names(world, member) == {"ab"}
    world.clock.value_ms += 1
    settle([member])
    assert owned_names(world, member) == {"ab", "abc"}


def test_a_deleted_topic_goes_at_once() -> None:
    world = World(ab=1, ac=1)
    member = Consumer(world, "m1", regex="a.*")
    settle([member])
    world.delete_topic("ac")
    settle([member])
    assert {world.image.topics[topic_id].name for topic_id in member.owned} == {"ab"}


def test_expressions_are_looked_at_again_after_the_refresh_interval() -> None:
    world = World({"group.consumer.regex.refresh.interval.ms": "60000"}, ab=1)
    member = Consumer(world, "m1", regex="a.*")
    settle([member])
    looked_at_ms = world.group().resolved["a.*"].timestamp_ms
    world.clock.value_ms += 60_000
    member.beat()
    assert world.group().resolved["a.*"].timestamp_ms == looked_at_ms
    world.clock.value_ms += 1
    epoch = world.group().epoch
    member.beat()
    assert world.group().resolved["a.*"].timestamp_ms == world.clock.value_ms
    assert world.group().epoch == epoch  # nothing else was found


def test_an_expression_without_subscribers_is_deleted() -> None:
    world = World(ab=1, b=1)
    first, second = Consumer(world, "m1", regex="a.*"), Consumer(world, "m2", ["b"])
    settle([first, second])
    first.leave()
    assert world.group().resolved == {}
    assert world.group().matched == {}
    assert not world.group().is_subscribed_to("ab")
    reloaded = world.reload(fast=False).shard.groups["g"]
    assert not reloaded.is_subscribed_to("ab")


def test_a_member_changes_its_expression_and_then_drops_it() -> None:
    world = World(ab=1, b=1)
    member = Consumer(world, "m1", ["b"], regex="a.*")
    settle([member])
    world.clock.value_ms += 11_000
    member.subscribe_to("b.*")
    member.beat()
    assert world.group().resolved.keys() == {"b.*"}
    settle([member])
    assert owned_names(world, member) == {"b"}
    member.subscribe_to("")
    member.beat()
    assert world.group().resolved == {}
    settle([member])
    assert world.group().state_name == "Stable"


def test_after_a_change_of_node_expressions_are_looked_at_anew() -> None:
    world = World(ab=1)
    member = Consumer(world, "m1", regex="a.*")
    settle([member])
    world.add_topic("abc", 1)  # made while nobody was looking
    world.image.offset += 1
    world.restart()
    world.clock.value_ms += 11_000
    settle([member])
    assert owned_names(world, member) == {"ab", "abc"}
