"""Scripts of the consumer protocol (KIP-848): heartbeats with epochs, and both protocols in one group."""

from __future__ import annotations

from typing import Any

from tests.interop.groups_raw.ask_offsets import everything, fetch
from tests.interop.groups_raw.conversation import UNKNOWN_ID, Talk
from tests.interop.groups_raw.members import (
    LONG_MS,
    Member,
    assignment,
    commits,
    leaving,
    protocols,
    subscription,
)
from tests.interop.groups_raw.scripts import script
from tests.interop.peers import wait_until


class Modern:
    """A member that speaks the consumer protocol: it keeps its epoch and what it was told to own."""

    def __init__(self, talk: Talk, name: str, *, instance: str | None = None, **fields: Any) -> None:
        self.talk = talk.another()
        self.name = name
        self.instance = instance
        # From v1 on the member makes up its id itself.
        self.id = "" if talk.version_of("ConsumerGroupHeartbeat") == 0 else name + talk.salt
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.fields: dict[str, Any] = {
            "rebalance_timeout_ms": LONG_MS,
            "subscribed_topic_names": ["alpha"],
            "server_assignor": "uniform",
            "topic_partitions": [],
            **fields,
        }

    def _asked(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {
            "group_id": self.talk.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            **fields,
        }

    def beat(self, **fields: Any) -> Any:
        """A heartbeat, recorded. An assignment in the answer is taken as owned from now on."""
        self.talk.begin("ConsumerGroupHeartbeat", **self._asked(fields))
        return self._take(self.talk.finish(None if self.id else self.name))

    def _take(self, response: Any) -> Any:
        if response.error_code == 0:
            self.id = response.member_id
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.owned = {
                    row.topic_id: list(row.partitions) for row in response.assignment.topic_partitions
                }
        return response

    def join(self, **fields: Any) -> Any:
        self.epoch = 0
        return self.beat(**{**self.fields, **fields})

    def owns(self) -> list[dict[str, Any]]:
        return [{"topic_id": topic, "partitions": indexes} for topic, indexes in self.owned.items()]

    def acknowledge(self, **fields: Any) -> Any:
        return self.beat(topic_partitions=self.owns(), **fields)

    def settle(self, epoch: int) -> None:
        """Beat without recording until this epoch is reached and the member owns what it was told to."""

        def settled() -> bool:
            asked = self._asked({"topic_partitions": self.owns()})
            self._take(self.talk.hears("ConsumerGroupHeartbeat", **asked))
            return self.epoch >= epoch

        wait_until(settled, 20, f"{self.name} to reach epoch {epoch}")

    def leave(self, epoch: int = -1) -> Any:
        return self.talk.says("ConsumerGroupHeartbeat", **self._asked({"member_epoch": epoch}))

    def commit(self, epoch: int | None = None, **fields: Any) -> Any:
        asked = {
            "group_id": self.talk.group,
            "member_id": self.id,
            "generation_id_or_member_epoch": self.epoch if epoch is None else epoch,
            "topics": commits(self.talk, {"alpha": {0: 5}}),
            **fields,
        }
        return self.talk.says("OffsetCommit", **asked)


def described(talk: Talk) -> None:
    talk.says("ConsumerGroupDescribe", group_ids=[talk.group])


@script("ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "DescribeGroups", "ListGroups")
def a_member_comes_and_goes_by_heartbeats(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    member = Modern(talk, "A")
    member.join()
    described(talk)
    talk.says("DescribeGroups", groups=[talk.group])
    talk.says("ListGroups")
    member.acknowledge()
    member.beat()
    described(talk)
    member.beat(subscribed_topic_names=["alpha", "beta"])
    member.acknowledge()
    member.beat(subscribed_topic_names=["alpha", "beta"])
    member.beat(subscribed_topic_names=["beta"])
    member.acknowledge()
    described(talk)
    member.leave()
    described(talk)
    member.beat()
    talk.says("ListGroups")
    member.leave()


@script("ConsumerGroupHeartbeat", "ConsumerGroupDescribe")
def two_members_share_by_heartbeats(talk: Talk) -> None:
    talk.topics(alpha=3)
    first, second = Modern(talk, "A"), Modern(talk, "B")
    first.join()
    first.acknowledge()
    second.join()
    described(talk)
    first.beat()
    described(talk)
    second.beat()
    first.acknowledge()
    described(talk)
    second.beat()
    second.acknowledge()
    described(talk)
    first.beat()
    first.leave()
    second.beat()
    second.acknowledge()
    described(talk)


@script("ConsumerGroupHeartbeat")
def heartbeats_of_the_consumer_protocol_that_are_refused(talk: Talk) -> None:
    talk.topics(alpha=3)
    join = {
        "group_id": talk.group,
        "member_id": "m" + talk.salt,
        "member_epoch": 0,
        "rebalance_timeout_ms": 5000,
        "subscribed_topic_names": ["alpha"],
        "topic_partitions": [],
    }

    def say(**fields: Any) -> None:
        talk.says("ConsumerGroupHeartbeat", **{**join, **fields})

    say(group_id="")
    say(group_id="  ")
    say(member_id="", member_epoch=1)
    say(member_id=" ")
    say(member_id="x" * 37)
    say(member_id="x" * 36, group_id=talk.name("long-id"))
    say(member_epoch=-3)
    say(member_epoch=-1)
    say(member_epoch=-2)
    say(member_epoch=-2, instance_id="i")
    say(member_epoch=1)
    say(rebalance_timeout_ms=-1)
    say(topic_partitions=None)
    say(topic_partitions=[{"topic_id": UNKNOWN_ID, "partitions": [0]}])
    say(subscribed_topic_names=None)
    say(subscribed_topic_names=[])
    say(subscribed_topic_names=None, group_id=talk.name("none"))
    say(instance_id="")
    say(instance_id=" ")
    say(rack_id="")
    say(server_assignor="nobody")
    say(server_assignor="")
    say(server_assignor="Range")
    if talk.version_of("ConsumerGroupHeartbeat") >= 1:
        say(member_id="")
        say(subscribed_topic_regex="[", subscribed_topic_names=None)
        say(subscribed_topic_regex="", subscribed_topic_names=None, group_id=talk.name("no-regex"))
        say(subscribed_topic_regex="(?=x)", subscribed_topic_names=None)
        say(subscribed_topic_regex="[", group_id=talk.name("both"))
    described(talk)


@script("ConsumerGroupHeartbeat")
def wrong_epochs_and_wrong_members(talk: Talk) -> None:
    talk.topics(alpha=3)
    member = Modern(talk, "A")
    member.join()
    member.acknowledge()
    member.beat(member_epoch=member.epoch + 1)
    member.beat(member_epoch=member.epoch - 1)
    member.beat(member_epoch=member.epoch - 1, topic_partitions=member.owns())
    member.beat(member_epoch=-5)
    member.beat(member_id="unknown")
    member.beat(instance_id="unknown")
    member.leave(-2)
    member.beat(rack_id="")
    member.beat(server_assignor="nobody")
    member.beat(topic_partitions=[{"topic_id": UNKNOWN_ID, "partitions": [0]}])
    member.beat(topic_partitions=[])
    member.beat()
    described(talk)
    talk.says("ConsumerGroupDescribe", group_ids=[talk.name("none"), "", talk.group, talk.group])
    talk.says("ConsumerGroupDescribe", group_ids=[talk.group], include_authorized_operations=True)
    talk.says("ConsumerGroupDescribe", group_ids=[])
    member.join()  # with the same id: a member that lost its answer
    member.beat(member_epoch=member.epoch - 1, topic_partitions=[])


@script("ConsumerGroupHeartbeat")
def no_more_members_of_the_consumer_protocol_than_allowed(talk: Talk) -> None:
    talk.topics(alpha=3)
    members = [Modern(talk, name) for name in "ABCDE"]
    for member in members:
        member.join()
    described(talk)


@script("ConsumerGroupHeartbeat", first=1)
def assignors_are_chosen_by_votes(talk: Talk) -> None:
    talk.topics(alpha=3)  # one topic: the order of several is that of their ids
    first = Modern(talk, "A", server_assignor="range")
    second = Modern(talk, "B", server_assignor="uniform", rack_id="r1")
    third = Modern(talk, "C", server_assignor="range")
    first.join()
    described(talk)
    second.join()
    described(talk)
    third.join()
    described(talk)
    first.beat()
    first.acknowledge()
    second.beat()
    third.beat()
    described(talk)
    first.beat(server_assignor="uniform")
    described(talk)


@script("ConsumerGroupHeartbeat")
def static_members_of_the_consumer_protocol(talk: Talk) -> None:
    talk.topics(alpha=3)
    first, second = Modern(talk, "A", instance="one"), Modern(talk, "B", instance="two")
    first.join()
    first.acknowledge()
    second.join()
    first.beat()
    first.acknowledge()
    second.beat()
    second.acknowledge()
    described(talk)
    twin = Modern(talk, "new A", instance="one")
    twin.join()  # the old one has not left
    first.leave(-2)
    described(talk)
    first.beat()
    twin.join()
    described(talk)
    first.beat()
    first.join()
    twin.acknowledge()
    twin.beat(instance_id="other")
    twin.leave()
    described(talk)
    second.beat()


@script("ConsumerGroupHeartbeat", first=1)
def a_regular_expression(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2, gamma=1)
    member = Modern(talk, "A", subscribed_topic_names=None, subscribed_topic_regex="(al|ga)(pha|mma)")
    member.join()
    member.settle(2)
    member.acknowledge()
    described(talk)
    member.beat(subscribed_topic_regex="b.ta", subscribed_topic_names=["gamma"])
    member.settle(member.epoch + 1)
    member.acknowledge()
    described(talk)
    member.beat(subscribed_topic_regex="")
    member.acknowledge()
    described(talk)


@script("ConsumerGroupHeartbeat", newest_only=True)
def a_topic_appears(talk: Talk) -> None:
    talk.topics(alpha=3)
    name = talk.name("late")
    member = Modern(talk, "A", subscribed_topic_names=["alpha", name])
    member.join()
    member.acknowledge()
    talk.create("late", partitions=2)
    member.settle(member.epoch + 1)
    described(talk)
    rows = [{"name": name, "topic_id": bytes(16)}]
    talk.quietly("DeleteTopics", 6, topics=rows, timeout_ms=20_000)
    member.settle(member.epoch + 1)
    described(talk)


@script("ConsumerGroupHeartbeat", newest_only=True)
def a_subscription_to_what_is_not_there(talk: Talk) -> None:
    member = Modern(talk, "A", subscribed_topic_names=[talk.name("none"), "a b", "", talk.name("none")])
    member.join()
    described(talk)
    member.acknowledge()


@script("OffsetCommit", "OffsetFetch")
def offsets_of_members_of_the_consumer_protocol(talk: Talk) -> None:
    talk.topics(alpha=3)
    member = Modern(talk, "A")
    member.join()
    member.acknowledge()
    member.beat()
    member.commit()
    member.commit(member.epoch + 1)
    member.commit(member.epoch - 1)
    member.commit(-1)
    member.commit(-1, member_id="")
    member.commit(member_id="unknown")
    everything(talk)
    for name, epoch in ((member.id, member.epoch), (member.id, 99), (member.id, 0), ("x", 1), (None, -1)):
        fetch(talk, {"alpha": [0]}, member_id=name, member_epoch=epoch)
    fetch(talk, {"alpha": [0]}, member_id="", member_epoch=-1)
    topics = [{"name": "alpha", "partitions": [{"partition_index": 0}]}]
    talk.says("OffsetDelete", group_id=talk.group, topics=topics)
    talk.says("DeleteGroups", groups_names=[talk.group])
    member.leave()
    member.commit(-1, member_id="")
    member.commit(1, member_id="x")
    talk.says("OffsetDelete", group_id=talk.group, topics=topics)
    everything(talk)
    talk.says("DeleteGroups", groups_names=[talk.group])
    described(talk)


@script("ConsumerGroupHeartbeat", newest_only=True)
def an_empty_classic_group_becomes_a_consumer_group(talk: Talk) -> None:
    talk.topics(alpha=3)
    talk.says("OffsetCommit", group_id=talk.group, topics=commits(talk, {"alpha": {0: 5}}))
    described(talk)
    member = Modern(talk, "A")
    member.join()
    described(talk)
    everything(talk)
    member.leave()
    talk.says("ListGroups")
    old = Member(talk, "old")
    old.join()
    talk.says("ListGroups")
    described(talk)
    talk.says("DescribeGroups", groups=[talk.group])
    everything(talk)


@script("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")
def a_classic_member_in_a_consumer_group(talk: Talk) -> None:
    talk.topics(alpha=3)
    modern = Modern(talk, "A")
    modern.join()
    modern.acknowledge()
    old = Member(talk, "B", protocols=protocols(range=subscription("alpha", owned=[])))
    old.join()
    described(talk)
    old.sync()
    modern.beat()
    modern.acknowledge()
    old.heartbeat()
    old.join()
    old.sync()
    described(talk)
    old.commit()
    old.heartbeat(generation_id=old.generation + 1)
    old.heartbeat(member_id="unknown")
    old.sync(generation_id=old.generation - 1)
    old.sync(protocol_type="consumer", protocol_name="other")
    talk.says("Heartbeat", group_id=talk.group, generation_id=modern.epoch, member_id=modern.id)
    stranger = Member(talk, "C", protocol_type="connect")
    stranger.join()
    garbage = Member(talk, "D", protocols=protocols(range=b"?"))
    garbage.join()
    talk.says("LeaveGroup", group_id=talk.group, **leaving("unknown"))
    old.leave()
    old.leave()
    modern.beat()
    described(talk)


@script("ConsumerGroupHeartbeat", newest_only=True)
@script("ConsumerGroupDescribe")
def a_live_classic_group_is_upgraded_and_downgraded(talk: Talk) -> None:
    talk.topics(alpha=3)
    text = subscription("alpha", owned=[("alpha", [0, 1, 2])])
    old = Member(talk, "A", protocols=protocols(range=text))
    old.join()
    old.sync({old.id: assignment(("alpha", [0, 1, 2]))})
    old.commit()
    modern = Modern(talk, "B")
    modern.join()
    described(talk)
    talk.says("DescribeGroups", groups=[talk.group])
    old.heartbeat()
    old.join()
    old.sync()
    modern.beat()
    modern.acknowledge()
    described(talk)
    old.commit()
    everything(talk)
    modern.leave()
    described(talk)
    talk.says("DescribeGroups", groups=[talk.group])
    old.heartbeat()
    talk.says("ListGroups")


@script("ConsumerGroupHeartbeat", newest_only=True)
def a_classic_group_that_cannot_be_upgraded(talk: Talk) -> None:
    talk.topics(alpha=3)
    old = Member(talk, "A", protocol_type="connect", protocols=protocols(x=b"?"))
    old.join()
    old.sync({old.id: b"work"})
    modern = Modern(talk, "B")
    modern.join()
    described(talk)
    old.heartbeat()


@script("ConsumerGroupHeartbeat", newest_only=True)
def a_classic_group_with_a_foreign_assignor_is_not_upgraded(talk: Talk) -> None:
    talk.topics(alpha=3)
    old = Member(talk, "A", protocols=protocols(own=b"?"))
    old.join()
    old.sync({old.id: b"work"})
    modern = Modern(talk, "B")
    modern.join()
    talk.says("ListGroups")


@script("ConsumerGroupHeartbeat", newest_only=True)
def a_member_of_the_consumer_protocol_falls_silent(talk: Talk) -> None:
    talk.topics(alpha=3)
    names = {"consumer.session.timeout.ms": "1000", "consumer.heartbeat.interval.ms": "200"}
    configs = [{"name": name, "value": value, "config_operation": 0} for name, value in names.items()]
    rows = [{"resource_type": 32, "resource_name": talk.group, "configs": configs}]
    assert talk.hears("IncrementalAlterConfigs", resources=rows).responses[0].error_code == 0
    talk.wait_config(32, talk.group, "consumer.session.timeout.ms", "1000")
    member = Modern(talk, "A")
    member.join()
    described(talk)
    talk.wait_members(0)
    member.beat()
    described(talk)
