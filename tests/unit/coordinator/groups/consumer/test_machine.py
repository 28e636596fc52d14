"""Random lives of a consumer group: whatever happens, no partition ever has two owners, and all settles.

Clients here do as real ones do: they own what they were told to own, give up before they take on, repeat what
was not answered, and begin anew when they are fenced.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.coordinator.groups.classic.classic_consumer import ClassicConsumer
from tests.unit.coordinator.groups.consumer.consumer_world import Consumer, World

from ottla.coordinator.groups.consumer import target_assignment
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.wire.errors import ErrorCode

TOPICS = ("a", "b", "ab")
REGEXES = ("a.*", "b|ab", ".*")
subscriptions = st.sets(st.sampled_from(TOPICS), max_size=3).map(sorted)


def state_of(group: ConsumerGroup) -> dict[str, Any]:
    """All that the log keeps, and all that is counted from it."""
    fields = (
        *("epoch", "metadata_hash", "members", "static_members", "target", "target_epoch"),
        *("target_timestamp_ms", "partition_epochs", "names", "matched", "regexes", "resolved"),
        *("assignors", "classic_count", "classic_protocols"),
    )
    return {name: getattr(group, name) for name in fields}


class GroupLife(RuleBasedStateMachine):
    @initialize(inline=st.sampled_from([0, 400]), interval_ms=st.sampled_from([0, 1000]))
    def begin(self, inline: int, interval_ms: int) -> None:
        self.inline = target_assignment.INLINE_WORK
        target_assignment.INLINE_WORK = inline
        # Groups that go back to the classic protocol need a leader that assigns: not here.
        texts = {
            "group.consumer.assignment.interval.ms": str(interval_ms),
            "group.consumer.migration.policy": "upgrade",
        }
        self.world = World(texts, a=3, b=2)
        self.classics: list[ClassicConsumer] = []
        self.clients: list[Consumer] = []
        self.away: list[Consumer] = []  # static members that left for a while
        self.count = 0
        self.epoch = 0

    def teardown(self) -> None:
        if not hasattr(self, "inline"):
            return
        try:
            self.settle()
            self.check_settled()
        finally:
            target_assignment.INLINE_WORK = self.inline

    def pick(self, number: int) -> Consumer:
        return self.clients[number % len(self.clients)]

    # Clients

    @precondition(lambda self: len(self.clients) < 6)
    @rule(topics=subscriptions, regex=st.none() | st.sampled_from(REGEXES), is_static=st.booleans())
    def join(self, topics: list[str], regex: str | None, is_static: bool) -> None:
        self.count += 1
        instance_id = f"i{self.count}" if is_static else None
        client = Consumer(self.world, f"m{self.count}", topics, regex=regex, instance_id=instance_id)
        self.clients.append(client)
        client.beat()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5), lost=st.booleans(), rounds=st.integers(1, 3))
    def beat(self, number: int, lost: bool, rounds: int) -> None:
        client = self.pick(number)
        client.beat(answer_is_lost=lost)
        for _ in range(rounds - 1):
            client.reconcile()
            client.beat()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5), only_give_up=st.booleans())
    def reconcile(self, number: int, only_give_up: bool) -> None:
        client = self.pick(number)
        client.revoke() if only_give_up else client.reconcile()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5), topics=subscriptions)
    def subscribe(self, number: int, topics: list[str]) -> None:
        client = self.pick(number)
        client.subscribe(topics)
        client.beat()

    @precondition(lambda self: self.clients)
    @rule(number=st.integers(0, 5))
    def leave(self, number: int) -> None:
        client = self.pick(number)
        client.leave()
        self.clients.remove(client)

    @precondition(lambda self: any(client.instance_id and client.epoch for client in self.clients))
    @rule()
    def leave_for_a_while(self) -> None:
        client = next(client for client in self.clients if client.instance_id and client.epoch)
        response = self.world.heartbeat(member_id=client.id, member_epoch=-2, instance_id=client.instance_id)
        assert response.error_code in (0, ErrorCode.UNKNOWN_MEMBER_ID)
        self.clients.remove(client)
        if response.error_code == 0:
            self.away.append(client)

    @precondition(lambda self: self.away)
    @rule(topics=subscriptions)
    def come_back(self, topics: list[str]) -> None:
        old = self.away.pop()
        self.count += 1
        client = Consumer(self.world, f"m{self.count}", topics, instance_id=old.instance_id, regex=old.regex)
        self.clients.append(client)
        client.beat()

    # Clients of the classic protocol

    @precondition(lambda self: len(self.classics) < 3 and self.clients and self.clients[0].epoch)
    @rule(topics=st.sets(st.sampled_from(TOPICS), min_size=1).map(sorted))
    def join_as_classic(self, topics: list[str]) -> None:
        group = self.world.shard.groups.get("g")
        if group is not None and not group.is_empty:
            client = ClassicConsumer(self.world, topics)
            assert client.join() == 0
            self.classics.append(client)

    @precondition(lambda self: self.classics)
    @rule(number=st.integers(0, 2), steps=st.integers(1, 3))
    def beat_as_classic(self, number: int, steps: int) -> None:
        self.step(self.classics[number % len(self.classics)], steps)

    def step(self, client: ClassicConsumer, steps: int) -> None:
        """A heartbeat; a join if it is told to; and a sync, which gives up and takes on."""
        code = 0
        if not client.has_joined:
            code = client.beat()
            if code == ErrorCode.REBALANCE_IN_PROGRESS and steps > 1:
                code = client.join()
        if client.has_joined and steps > 2 and code == 0:
            code = client.sync()
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                code = client.join()
        if code not in (0, ErrorCode.REBALANCE_IN_PROGRESS):
            assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
            self.classics.remove(client)

    @precondition(lambda self: self.classics)
    @rule(number=st.integers(0, 2))
    def leave_as_classic(self, number: int) -> None:
        client = self.classics.pop(number % len(self.classics))
        assert client.leave() in (0, ErrorCode.UNKNOWN_MEMBER_ID)

    @precondition(lambda self: self.world.timers)
    @rule(number=st.integers(0, 20))
    def a_timer_fires(self, number: int) -> None:
        keys = [key for key in self.world.timers if key[0].startswith("consumer-")]
        if keys:
            key = keys[number % len(keys)]
            self.world.fire(key)
            for client in self.clients:
                if client.id == key[2]:  # it has noticed by itself that its time is over
                    client.owned, client.told, client.epoch, client.has_news = {}, {}, 0, False
            self.classics = [client for client in self.classics if client.id != key[2]]

    # Everything else

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 6))
    def a_topic_is_made_or_grows(self, name: str, partitions: int) -> None:
        if name not in self.world.image.topics_by_name:
            self.world.make_topic(name, partitions)
        else:
            self.world.grow_topic(name, partitions)

    @rule(passed_ms=st.sampled_from([1, 1000, 11_000, 700_000]))
    def time_passes(self, passed_ms: int) -> None:
        self.world.clock.value_ms += passed_ms

    @rule()
    def tasks_take_their_time(self) -> None:
        self.world.is_busy = True

    @rule()
    def tasks_end(self) -> None:
        self.world.work()

    @precondition(lambda self: "g" in self.world.shard.groups)
    @rule()
    def another_node_takes_over(self) -> None:
        before = state_of(self.world.group())
        self.world.restart()
        assert state_of(self.world.group()) == before

    # What always holds

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: dict[tuple[bytes, int], str] = {}
        for client in getattr(self, "clients", []):
            for partition in client.may_own:
                assert partition not in owners, f"{partition} is owned by {owners[partition]} and {client.id}"
                owners[partition] = client.id
        for classic in getattr(self, "classics", []):
            for partition in classic.may_own:
                assert partition not in owners, (
                    f"{partition} is owned by {owners[partition]} and {classic.id}"
                )
                owners[partition] = classic.id

    @invariant()
    def the_group_gives_a_partition_to_one_member_only(self) -> None:
        if not hasattr(self, "world") or "g" not in self.world.shard.groups:
            return
        group = self.world.group()
        given = [
            (topic_id, partition)
            for member in group.members.values()
            for owned in (member.assigned, member.pending_revocation)
            for topic_id, partitions in owned.items()
            for partition in partitions
        ]
        assert len(given) == len(set(given))
        assert {(t, p) for t, epochs in group.partition_epochs.items() for p in epochs} == set(given)

    @invariant()
    def epochs_only_grow(self) -> None:
        if hasattr(self, "world") and "g" in self.world.shard.groups:
            group = self.world.group()
            assert group.epoch >= self.epoch
            assert group.target_epoch <= group.epoch
            self.epoch = group.epoch

    def settle(self) -> None:
        self.world.work()
        for client in self.away:
            self.end_session(client)
        for _ in range(10):
            self.world.clock.value_ms += 11_000
            for client in self.clients:
                # A static member that lost its epoch is refused until its own session has ended.
                if client.beat() == ErrorCode.UNRELEASED_INSTANCE_ID:
                    self.end_session(client)
                client.reconcile()
                self.no_partition_has_two_owners()
            for classic in list(self.classics):
                self.step(classic, 3)
                self.no_partition_has_two_owners()

    def end_session(self, client: Consumer) -> None:
        key = ("consumer-session", "g", client.id)
        if key in self.world.timers:
            self.world.fire(key)

    def check_settled(self) -> None:
        if not self.clients and not self.classics:
            return
        world, group = self.world, self.world.group()
        assert group.state_name == "Stable"
        everyone: list[Consumer | ClassicConsumer] = [*self.clients, *self.classics]
        assert group.members.keys() == {client.id for client in everyone}
        for name, topic in world.image.topics_by_name.items():
            subscribers = [
                client for client in everyone if name in group.subscribed_names(group.members[client.id])
            ]
            owners = [
                partition
                for client in subscribers
                for topic_id, partition in client.may_own
                if topic_id == topic.id
            ]
            assert sorted(owners) == (sorted(topic.partitions) if subscribers else [])
        assert not world.tasks


GroupLife.TestCase.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)
test_random_lives_of_a_group = GroupLife.TestCase
