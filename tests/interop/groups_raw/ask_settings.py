"""Scripts that need other settings: offsets that expire soon, and protocols that may not change."""

from __future__ import annotations

from tests.interop.groups_raw.ask_consumer import Modern
from tests.interop.groups_raw.ask_offsets import commit, everything
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.members import Member, assignment, protocols, subscription
from tests.interop.groups_raw.scripts import OTHER_CASES, script
from tests.interop.peers import wait_until

WAIT_S = 20
JOIN_AT_ONCE = 3  # later ones give out an id first, and the group, empty until it is used, may go meanwhile
PROPERTIES = {
    "offsets.retention.check.interval.ms": "200",
    "group.consumer.migration.policy": "disabled",
}


def wait_committed(talk: Talk, topics: set[str]) -> None:
    """Wait until the group has offsets for these topics and for no others."""

    def are_left() -> bool:
        groups = [{"group_id": talk.group, "topics": None}]
        found = talk.quietly("OffsetFetch", 9, groups=groups).groups[0].topics
        return {topic.name for topic in found} == topics

    wait_until(are_left, WAIT_S, f"offsets of {topics} alone")


def wait_gone(talk: Talk) -> None:
    wait_until(
        lambda: all(row.group_id != talk.group for row in talk.hears("ListGroups").groups),
        WAIT_S,
        f"{talk.group} to be gone",
    )


def everywhere(talk: Talk) -> None:
    everything(talk)
    talk.says("ListGroups")
    talk.says("DescribeGroups", groups=[talk.group])
    talk.says("ConsumerGroupDescribe", group_ids=[talk.group])


@script("OffsetCommit", last=4, cases=OTHER_CASES)
def an_offset_and_its_group_expire(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    commit(talk, {"alpha": {0: 5}}, retention_time_ms=60_000)
    commit(talk, {"beta": {0: 5}}, retention_time_ms=1)
    wait_committed(talk, {"alpha"})
    everywhere(talk)
    commit(talk, {"alpha": {0: 5}}, retention_time_ms=1)
    wait_gone(talk)
    everywhere(talk)


@script("OffsetCommit", last=4, cases=OTHER_CASES)
def an_offset_of_a_topic_that_is_subscribed_to_stays(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    talk.versions["JoinGroup"] = JOIN_AT_ONCE
    member = Member(talk, "A")
    member.join()
    member.sync({member.id: assignment(("alpha", [0]))})
    for topic in ("alpha", "beta"):
        member.commit(topic, retention_time_ms=1)
    wait_committed(talk, {"alpha"})
    everything(talk)
    member.heartbeat()
    member.leave()
    wait_gone(talk)
    everywhere(talk)


@script("LeaveGroup", newest_only=True, cases=OTHER_CASES)
def an_empty_group_without_offsets_goes(talk: Talk) -> None:
    talk.versions["JoinGroup"] = JOIN_AT_ONCE
    member = Member(talk, "A")
    member.join()
    member.sync({member.id: b"x"})
    member.leave()
    wait_gone(talk)
    everywhere(talk)
    member.heartbeat()
    talk.says("DeleteGroups", groups_names=[talk.group])


@script("ConsumerGroupHeartbeat", newest_only=True, cases=OTHER_CASES)
def an_empty_consumer_group_without_offsets_goes(talk: Talk) -> None:
    talk.topics(alpha=3)
    member = Modern(talk, "A")
    member.join()
    member.acknowledge()
    member.leave()
    wait_gone(talk)
    everywhere(talk)
    member.beat()
    talk.says("DeleteGroups", groups_names=[talk.group])


@script("ConsumerGroupHeartbeat", newest_only=True, cases=OTHER_CASES)
@script("JoinGroup", cases=OTHER_CASES)
def groups_that_may_not_change_their_protocol(talk: Talk) -> None:
    talk.topics(alpha=3)
    commit(talk, {"alpha": {0: 1}})  # so that the group stays while it is empty
    text = subscription("alpha", owned=[])
    old = Member(talk, "A", protocols=protocols(range=text))
    old.join()
    old.sync({old.id: assignment(("alpha", [0, 1, 2]))})
    modern = Modern(talk, "B")
    modern.join()
    old.heartbeat()
    everywhere(talk)
    other = talk.another()
    other.group = talk.name("consumers")
    first = Modern(other, "C")
    first.join()
    first.acknowledge()
    first.commit()
    classic = Member(other, "D", protocols=protocols(range=text))
    classic.join()
    first.beat()
    first.leave()
    talk.says("ListGroups")
    talk.says("ConsumerGroupDescribe", group_ids=[other.group])
