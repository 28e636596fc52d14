"""Groups of consumers: sharing, rebalances and what is told of them, beside members that we did not write."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any, Literal

import pytest

from ottla import Consumer, TopicPartition
from ottla.client.errors import CommitFailed
from ottla.wire.errors import FencedInstanceId, KafkaError
from tests.interop.library.consuming import (
    PROTOCOLS,
    WAIT_SECONDS,
    confluent_member,
    fill,
    numbers_of,
    read,
    read_until,
)
from tests.interop.library.support import LibraryCluster, make_topic, unique

PARTITIONS = 4


class Member:
    """A consumer of a group that notes what it is told, and holds it against what it knows."""

    def __init__(self, cluster: LibraryCluster, group: str, topic: str, **settings: Any) -> None:
        defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 100}
        if settings.get("group_protocol", "classic") == "classic":
            defaults |= {"heartbeat_interval_ms": 300}
        self.told: list[tuple[str, int]] = []
        self.owned: set[TopicPartition] = set()
        self.consumer: Consumer[Any, Any] = Consumer(
            cluster.bootstrap, group_id=group, **{**defaults, **settings}
        )
        self.consumer.subscribe([topic], listener=self)

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        assert not self.owned & set(partitions), "assigned what it has"
        self.owned |= set(partitions)
        self.told.append(("assigned", len(partitions)))

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        assert self.owned >= set(partitions), "revoked what it has not"
        assert self.consumer.assignment >= set(partitions), "revoked before the user was told"
        self.owned -= set(partitions)
        self.told.append(("revoked", len(partitions)))

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.owned -= set(partitions)
        self.told.append(("lost", len(partitions)))

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()


def strategies(protocol: str) -> dict[str, Any]:
    """Settings of a group: `protocol` is classic, consumer or cooperative."""
    if protocol == "cooperative":
        return {"partition_assignment_strategy": "cooperative-sticky"}
    return {"group_protocol": protocol}


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "cooperative"])
def test_members_share_and_take_over_without_loss_or_doubles(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "shared", PARTITIONS)
    group = unique("g")
    fill(cluster.bootstrap, topic, range(200), partitions=PARTITIONS)
    settings = strategies(protocol)
    seen: list[Any] = []
    with Member(cluster, group, topic, **settings) as first:
        read_until([first.consumer], lambda: len(seen) >= 200, "all records", seen)
        with Member(cluster, group, topic, **settings) as second:
            both = [first.consumer, second.consumer]
            read_until(both, lambda: len(first.owned) == len(second.owned) == 2, "equal shares", seen)
            fill(cluster.bootstrap, topic, range(200, 400), partitions=PARTITIONS)
            read_until(both, lambda: len(seen) >= 400, "all records", seen)
        assert second.told[-1] == ("revoked", 2)
        read_until([first.consumer], lambda: len(first.owned) == PARTITIONS, "what the other had", seen)
        fill(cluster.bootstrap, topic, range(400, 500), partitions=PARTITIONS)
        read_until([first.consumer], lambda: len(seen) >= 500, "all records", seen)
    assert sorted(numbers_of(seen)) == list(range(500))
    assert first.told[-1] == ("revoked", PARTITIONS)
    assert not any(change == "lost" for change, _ in first.told)
    if protocol == "classic":  # an eager member gives all back each time
        assert ("revoked", PARTITIONS) in first.told[:-1]
    else:
        assert all(count <= 2 for change, count in first.told[:-1] if change == "revoked")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_can_have_members_of_other_clients(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "mixed", PARTITIONS)
    group = unique("g")
    settings: dict[str, Any] = {"group.protocol": protocol}
    if protocol == "classic":
        settings |= {"heartbeat.interval.ms": 300, "partition.assignment.strategy": "range"}
    other = confluent_member(cluster.bootstrap, group, topic, **settings)
    theirs: list[int] = []
    mine: list[Any] = []
    try:
        with Member(cluster, group, topic, **strategies(protocol)) as member:

            def balanced() -> bool:
                for message in other.consume(100, 0.05):
                    if message.error() is None:
                        theirs.append(int(message.value()))
                return len(member.owned) == len(other.assignment()) == 2

            read_until([member.consumer], balanced, "equal shares", mine)
            fill(cluster.bootstrap, topic, range(100), partitions=PARTITIONS)

            def complete() -> bool:
                balanced()
                return len(mine) + len(theirs) >= 100

            read_until([member.consumer], complete, "all records", mine)
            assert sorted(numbers_of(mine) + theirs) == list(range(100))
            assert len(mine) == len(theirs) == 50
    finally:
        other.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_that_comes_back_finds_its_place(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "static", PARTITIONS)
    group = unique("g")
    settings = strategies(protocol)
    with (
        Member(cluster, group, topic, **settings) as other,
        Member(cluster, group, topic, group_instance_id="one", **settings) as static,
    ):
        both = [other.consumer, static.consumer]
        read_until(both, lambda: len(other.owned) == len(static.owned) == 2, "equal shares")
        had, told = set(static.owned), list(other.told)
        static.consumer.close()
        with Member(cluster, group, topic, group_instance_id="one", **settings) as back:
            read_until([other.consumer, back.consumer], lambda: back.owned == had, "its partitions")
            fill(cluster.bootstrap, topic, range(40), partitions=PARTITIONS)
            seen = read_until([back.consumer], lambda: back.consumer.metrics()["records"] >= 20, "its share")
            assert {TopicPartition(record.topic, record.partition) for record in seen} <= had
            assert other.told == told  # no rebalance for the others


def test_two_static_members_of_one_name_are_told_apart(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "twins", 1)
    group = unique("g")
    with Member(cluster, group, topic, group_instance_id="one") as first:
        read_until([first.consumer], lambda: len(first.owned) == 1, "its partition")
        with Member(cluster, group, topic, group_instance_id="one") as second:
            with pytest.raises(FencedInstanceId):
                read_until([first.consumer, second.consumer], lambda: False, "an error")
            assert first.told[-1] == ("lost", 1)
            read_until([second.consumer], lambda: len(second.owned) == 1, "its partition")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_does_not_poll_loses_its_partitions_and_may_come_back(
    cluster: LibraryCluster, protocol: str
) -> None:
    topic = make_topic(cluster, "lazy", 2)
    group = unique("g")
    settings = {**strategies(protocol), "enable_auto_commit": False}
    fill(cluster.bootstrap, topic, range(10), partitions=2)
    with Member(cluster, group, topic, max_poll_interval_ms=1500, **settings) as lazy:
        read(lazy.consumer, 10)
        with Member(cluster, group, topic, **settings) as eager:
            read_until([eager.consumer], lambda: len(eager.owned) == 2, "what the lazy one had")
            with pytest.raises((CommitFailed, KafkaError)):
                lazy.consumer.commit()
            both = [lazy.consumer, eager.consumer]
            read_until(both, lambda: len(lazy.owned) == len(eager.owned) == 1, "equal shares")
            assert sum(count for change, count in lazy.told if change == "lost") >= 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_heartbeats_go_on_while_user_code_works(cluster: LibraryCluster, protocol: str) -> None:
    topic = make_topic(cluster, "busy", 2)
    with Member(cluster, unique("g"), topic, **strategies(protocol)) as member:
        read_until([member.consumer], lambda: len(member.owned) == 2, "its partitions")
        told = list(member.told)
        until = member.consumer.metrics()["heartbeat_requests"] + 4
        deadline = time.monotonic() + WAIT_SECONDS
        while member.consumer.metrics()["heartbeat_requests"] < until:
            assert time.monotonic() < deadline, "no heartbeats while the user does not poll"
            time.sleep(0.05)
        fill(cluster.bootstrap, topic, range(10), partitions=2)
        assert len(read(member.consumer, 10)) == 10
        assert member.told == told


def test_a_subscription_can_change_and_end(cluster: LibraryCluster) -> None:
    one, two = make_topic(cluster, "one"), make_topic(cluster, "two")
    fill(cluster.bootstrap, one, [1])
    fill(cluster.bootstrap, two, [2])
    with Member(cluster, unique("g"), one) as member:
        consumer = member.consumer
        assert numbers_of(read(consumer, 1)) == [1]
        consumer.subscribe([two], listener=member)
        assert numbers_of(read(consumer, 1)) == [2]
        assert consumer.assignment == {TopicPartition(two, 0)}
        consumer.unsubscribe()
        assert (consumer.assignment, member.owned) == (frozenset(), set())
        assert consumer.poll(0) == []
        consumer.assign([(one, 0)])
        consumer.seek((one, 0), 0)
        assert numbers_of(read(consumer, 1)) == [1]
        with pytest.raises(ValueError, match="assigned manually"):
            consumer.subscribe([two])


def test_an_error_of_a_listener_reaches_the_user_and_the_rebalance_goes_on(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "listener")
    fill(cluster.bootstrap, topic, [1])

    def stumble(partitions: list[TopicPartition]) -> None:
        raise LookupError("no such thing")

    consumer: Consumer[Any, Any] = Consumer(
        cluster.bootstrap, group_id=unique("g"), auto_offset_reset="earliest"
    )
    with consumer:
        consumer.subscribe([topic], on_assigned=stumble)
        with pytest.raises(LookupError):
            read(consumer, 1)
        assert numbers_of(read(consumer, 1)) == [1]


class OldestTakesAll:
    """An own assignor: the member that sorts first gets everything."""

    name = "oldest-takes-all"
    protocol: Literal["eager"] = "eager"

    def __init__(self) -> None:
        self.got: list[frozenset[TopicPartition]] = []

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return b"note"

    def assign(self, view: Any, members: Mapping[str, Any]) -> dict[str, list[TopicPartition]]:
        assert {member.user_data for member in members.values()} == {b"note"}
        topics = {topic for member in members.values() for topic in member.topics}
        everything = [TopicPartition(t, one.index) for t in topics for one in view.topics[t].partitions]
        return {member: everything if member == min(members) else [] for member in members}

    def on_assignment(self, partitions: Any, user_data: bytes | None, generation: int) -> None:
        self.got.append(frozenset(partitions))


def test_an_own_assignor_decides(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "own", 2)
    group = unique("g")
    assignors = [OldestTakesAll(), OldestTakesAll()]
    with (
        Member(cluster, group, topic, partition_assignment_strategy=[assignors[0]]) as first,
        Member(cluster, group, topic, partition_assignment_strategy=[assignors[1]]) as second,
    ):
        both = [first, second]

        def settled() -> bool:
            last = [assignor.got[-1] if assignor.got else None for assignor in assignors]
            shares = sorted(len(member.owned) for member in both)
            return shares == [0, 2] and all(
                given is not None and given == frozenset(member.owned)
                for given, member in zip(last, both, strict=True)
            )

        read_until([member.consumer for member in both], settled, "all for one")


def test_a_listener_may_seek(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "seek")
    fill(cluster.bootstrap, topic, range(10))
    consumer: Consumer[Any, Any] = Consumer(cluster.bootstrap, group_id=unique("g"))

    def seek(partitions: list[TopicPartition]) -> None:
        for one in partitions:
            consumer.seek(one, 7)

    with consumer:
        consumer.subscribe([topic], on_assigned=seek)
        assert numbers_of(read(consumer, 3)) == [7, 8, 9]
