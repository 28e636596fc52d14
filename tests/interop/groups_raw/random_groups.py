"""Lives of groups by chance: the same seed asks both brokers for the same, step by step.

A member's request may be held by the broker, so answers are kept by request, whenever they come; a member
that waits does nothing else meanwhile. Whether a request is held is seen by its answer not coming for a
while, which a busy machine can get wrong: `Pace` says how long, and a life that differs is lived again more
slowly before it counts.

What Kafka itself leaves to chance is left out: the next leader of a group whose leader left, the order of
topics in an assignment by the uniform assignor, and regular expressions, which it resolves in the background.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.wire import apis
from tests.interop.groups_raw.ask_offsets import fetch
from tests.interop.groups_raw.conversation import ANSWER_S, Talk
from tests.interop.groups_raw.members import LONG_MS, assignment, commits, leaving, protocols, subscription

UNKNOWN_MEMBER_ID = 25
MEMBER_ID_REQUIRED = 79
FENCED_INSTANCE_ID = 82
MAY_BE_HELD = ("JoinGroup", "SyncGroup")
TOPICS = ("alpha", "beta", "gamma")
SUBSCRIPTIONS = (("alpha",), ("beta",), ("alpha", "beta"), ("alpha", "beta", "gamma"), ("missing",))
PROTOCOLS = (("range",), ("range", "sticky"), ("sticky", "range"), ("range", "own", "sticky"))
# How many versions are left out: those that know no instance ids, or no ids of a member's own making.
FIRST = {
    "JoinGroup": 5,
    "SyncGroup": 3,
    "Heartbeat": 3,
    "LeaveGroup": 3,
    "OffsetCommit": 5,
    "OffsetFetch": 8,
    "ConsumerGroupHeartbeat": 1,
}


@dataclass(frozen=True, slots=True)
class Pace:
    """How long an answer may take before the request counts as held."""

    held_s: float
    freed_s: float


class Slot:
    """A place for a member: its connection, its id, and what it knows."""

    def __init__(self, talk: Talk, name: str, instance: str | None = None) -> None:
        self.talk = talk.another()
        self.name = name
        self.instance = instance
        self.id = ""
        self.lives = 0
        self.generation = -1
        self.protocol: str | None = None
        self.topics: tuple[str, ...] = ("alpha",)
        self.protocols: tuple[str, ...] = ("range",)
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.is_leader = False
        self.asked: tuple[int, Callable[[Any], None]] | None = None


def left(slot: Slot) -> None:
    """The member is none any more; the next in its place has another id."""
    slot.id = ""
    slot.lives += 1
    slot.is_leader = False


class Life:
    """One life of one group on one broker."""

    def __init__(self, talk: Talk, seed: int, pace: Pace) -> None:
        self.talk = talk
        self.chance = random.Random(seed)
        self.pace = pace
        self.answers: dict[int, tuple[str, Any]] = {}
        self.steps: list[str] = []
        self.slots: list[Slot] = []
        talk.topics(alpha=3, beta=2, gamma=1)

    # --- asking ---------------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        for _ in range(steps):
            step = self._draw()
            if step is not None:
                self.steps.append(step)
            self._collect(self.pace.freed_s)
        self._collect(self.pace.held_s)

    def end(self) -> None:
        """What is held stays so; what the broker knows in the end is asked."""
        self._give_up()
        self._describe()

    def restarted(self) -> None:
        """The broker was started again: requests that it held are lost, members are as they were."""
        self._give_up()
        self.steps.append("restart")
        for talk in (self.talk, *(slot.talk for slot in self.slots)):
            talk.forget()

    def _give_up(self) -> None:
        for slot in self.slots:
            if slot.asked is not None:
                self.answers[slot.asked[0]] = ("held", None)
                slot.asked = None

    def _draw(self) -> str | None:
        raise AssertionError("a kind of life says what happens in it")

    def ask(self, slot: Slot, api: str, then: Callable[[Any], None] | None = None, **fields: Any) -> None:
        """Ask for a member, in a version drawn by chance."""
        versions = [
            version for version in apis.API_BY_NAME[api].stable_versions if version >= FIRST.get(api, 0)
        ]
        slot.talk.versions = {**slot.talk.versions, api: self.chance.choice(versions)}
        number = len(self.answers) + sum(other.asked is not None for other in self.slots)
        slot.talk.begin(api, **fields)
        slot.asked = (number, then or (lambda _: None))
        if slot.talk.is_answered(self.pace.held_s if api in MAY_BE_HELD else ANSWER_S):
            self._take(slot)

    def _take(self, slot: Slot) -> None:
        assert slot.asked is not None
        number, then = slot.asked
        slot.asked = None
        name = f"{slot.name}.{slot.lives}"
        response = slot.talk.finish(name if slot.talk.asks_for_an_id else None)
        self.answers[number] = slot.talk.transcript[-1]
        then(response)

    def _collect(self, timeout_s: float) -> None:
        """Take the answers that have come to those who wait."""
        for slot in self.slots:
            if slot.asked is not None and slot.talk.is_answered(timeout_s):
                self._take(slot)

    def _describe(self) -> None:
        for api, field in (("DescribeGroups", "groups"), ("ConsumerGroupDescribe", "group_ids")):
            self.talk.says(api, **{field: [self.talk.group]})
            self.answers[len(self.answers)] = self.talk.transcript[-1]
        fetch(self.talk, None)
        self.answers[len(self.answers)] = self.talk.transcript[-1]

    def free(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.asked is None]

    # --- what members of the classic protocol do ------------------------------------------------------

    def join(self, slot: Slot, **fields: Any) -> None:
        if self.chance.random() < 0.2:
            slot.topics = self.chance.choice(SUBSCRIPTIONS)
        if self.chance.random() < 0.1:
            slot.protocols = self.chance.choice(PROTOCOLS)
        text = subscription(*slot.topics, owned=[])

        def joined(response: Any) -> None:
            if response.error_code == MEMBER_ID_REQUIRED:
                slot.id = response.member_id
            elif response.error_code in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
                left(slot)
            elif response.error_code == 0:
                slot.id, slot.generation = response.member_id, response.generation_id
                slot.protocol = response.protocol_name
                slot.is_leader = response.leader == response.member_id

        asked = {
            "group_id": self.talk.group,
            "member_id": slot.id,
            "group_instance_id": slot.instance,
            "session_timeout_ms": LONG_MS,
            "rebalance_timeout_ms": LONG_MS,
            "protocol_type": "consumer",
            "protocols": protocols(**dict.fromkeys(slot.protocols, text)),
            **fields,
        }
        self.ask(slot, "JoinGroup", joined, **asked)

    def sync(self, slot: Slot, **fields: Any) -> None:
        rows = []
        if slot.is_leader:
            rows = [
                {"member_id": other.id, "assignment": assignment(("alpha", [number]))}
                for number, other in enumerate(self.slots)
                if other.id
            ]
        asked = {
            "group_id": self.talk.group,
            "generation_id": slot.generation,
            "member_id": slot.id,
            "group_instance_id": slot.instance,
            "protocol_type": "consumer",
            "protocol_name": slot.protocol,
            "assignments": rows,
            **fields,
        }
        self.ask(slot, "SyncGroup", **asked)

    def heartbeat(self, slot: Slot, **fields: Any) -> None:
        asked = {
            "group_id": self.talk.group,
            "generation_id": slot.generation,
            "member_id": slot.id,
            "group_instance_id": slot.instance,
            **fields,
        }
        self.ask(slot, "Heartbeat", **asked)

    def leave(self, slot: Slot, **fields: Any) -> None:
        by_instance = slot.instance is not None and self.chance.random() < 0.5
        row = leaving("" if by_instance else slot.id, slot.instance)
        self.ask(slot, "LeaveGroup", lambda _: left(slot), group_id=self.talk.group, **{**row, **fields})

    def commit(self, slot: Slot, epoch: int, **fields: Any) -> None:
        offsets = {self.chance.choice(TOPICS): {0: self.chance.randrange(100)}}
        asked = {
            "group_id": self.talk.group,
            "generation_id_or_member_epoch": epoch,
            "member_id": slot.id,
            "group_instance_id": slot.instance,
            "topics": commits(self.talk, offsets),
            **fields,
        }
        self.ask(slot, "OffsetCommit", **asked)

    def look(self, slot: Slot) -> None:
        group = self.talk.group
        kind = self.chance.randrange(5)
        if kind == 0:
            self.ask(slot, "DescribeGroups", groups=[group])
        elif kind == 1:
            self.ask(slot, "ConsumerGroupDescribe", group_ids=[group])
        elif kind == 2:
            topics = [{"name": self.chance.choice(TOPICS), "partitions": [{"partition_index": 0}]}]
            self.ask(slot, "OffsetDelete", group_id=group, topics=topics)
        elif kind == 3:
            self.ask(slot, "DeleteGroups", groups_names=[group])
        else:
            asked = {
                "group_id": group,
                "topics": None,
                "member_id": slot.id,
                "member_epoch": slot.epoch or -1,
            }
            self.ask(slot, "OffsetFetch", group_id=group, topics=None, groups=[asked])


class ClassicLife(Life):
    """Dynamic and static members of the classic protocol."""

    def __init__(self, talk: Talk, seed: int, pace: Pace) -> None:
        super().__init__(talk, seed, pace)
        self.slots = [Slot(talk, "A"), Slot(talk, "B"), Slot(talk, "S", "one"), Slot(talk, "T", "two")]

    def _draw(self) -> str | None:
        slot = self.chance.choice(self.slots)
        kind = self.chance.choices(
            ("join", "sync", "heartbeat", "leave", "commit", "look", "restart", "wrong"),
            (30, 30, 12, 5, 8, 6, 4, 8),
        )[0]
        which = self.chance.randrange(6)
        if slot.asked is not None:
            return None
        if kind == "join":
            self.join(slot)
        elif kind == "sync":
            self.sync(slot)
        elif kind == "heartbeat":
            self.heartbeat(slot)
        elif kind == "leave":
            if slot.is_leader and any(other.id for other in self.slots if other is not slot):
                return None  # who leads next is chance
            self.leave(slot)
        elif kind == "commit":
            self.commit(slot, slot.generation if which else -1)
        elif kind == "look":
            self.look(slot)
        elif kind == "restart":
            if slot.instance is None:
                return None
            slot.id = ""
            slot.lives += 1
        else:
            self._wrong(slot, which)
        return f"{kind} {slot.name}"

    def _wrong(self, slot: Slot, which: int) -> None:
        if which == 0:
            self.heartbeat(slot, generation_id=slot.generation + 1)
        elif which == 1:
            self.sync(slot, generation_id=slot.generation - 1)
        elif which == 2:
            self.join(slot, protocol_type="connect")
        elif which == 3:
            self.sync(slot, protocol_name="none")
        elif which == 4:
            self.commit(slot, slot.generation, member_id="unknown")
        else:
            self.heartbeat(slot, group_instance_id="nobody")


class ConsumerLife(Life):
    """Members of the consumer protocol, with a classic one among them where `is_mixed`."""

    def __init__(self, talk: Talk, seed: int, pace: Pace, *, is_mixed: bool = False) -> None:
        super().__init__(talk, seed, pace)
        self.slots = [Slot(talk, "A"), Slot(talk, "B"), Slot(talk, "S", "one")]
        # Static, because its place in the order of members would else be that of an id made up by the broker.
        self.classic = Slot(talk, "old", "two") if is_mixed else None
        for slot in self.slots:
            slot.id = f"{slot.name}.0{talk.salt}"
        if self.classic is not None:
            self.slots.append(self.classic)

    def _draw(self) -> str | None:
        slot = self.chance.choice(self.slots)
        which = self.chance.randrange(8)
        draw = self.chance.random()
        if slot.asked is not None:
            return None
        if slot is self.classic:
            return self._draw_classic(slot, which)
        if slot.epoch <= 0 and draw < 0.7:
            self.beat(slot, full=True)
            return f"join {slot.name}"
        if draw < 0.75:
            self.beat(slot)
            return f"beat {slot.name}"
        if draw < 0.80:
            self.commit(slot, slot.epoch - (which == 0))
            return f"commit {slot.name}"
        if draw < 0.86:
            self.look(slot)
            return f"look {slot.name}"
        if draw < 0.92:
            self._go(slot, which)
            return f"leave {slot.name}"
        self._wrong(slot, which)
        return f"wrong {which} {slot.name}"

    def _draw_classic(self, slot: Slot, which: int) -> str:
        if which < 3:
            self.join(slot)
        elif which < 5:
            self.sync(slot)
        elif which == 5:
            self.commit(slot, slot.generation)
        elif which == 6 and slot.id:
            self.leave(slot) if self.chance.random() < 0.5 else left(slot)
        else:
            self.heartbeat(slot)
        return f"classic {which}"

    def beat(self, slot: Slot, *, full: bool = False, **fields: Any) -> None:
        """A heartbeat: a whole one, one that says what is owned, or one that says nothing."""
        asked: dict[str, Any] = {
            "group_id": self.talk.group,
            "member_id": slot.id,
            "member_epoch": slot.epoch,
            "instance_id": slot.instance,
        }
        has_changed = self.chance.random() < 0.15
        if has_changed or full:
            slot.topics = self.chance.choice(SUBSCRIPTIONS)
            asked["subscribed_topic_names"] = list(slot.topics)
        if full:
            slot.epoch = 0
            slot.owned = {}
            asked |= {"member_epoch": 0, "rebalance_timeout_ms": LONG_MS, "server_assignor": "range"}
        if full or self.chance.random() < 0.8:
            asked["topic_partitions"] = [
                {"topic_id": topic, "partitions": indexes} for topic, indexes in slot.owned.items()
            ]

        def heard(response: Any) -> None:
            if response.error_code == 0 and response.member_epoch >= 0:
                slot.epoch = response.member_epoch
                if response.assignment is not None:
                    rows = response.assignment.topic_partitions
                    slot.owned = {row.topic_id: list(row.partitions) for row in rows}
            elif response.error_code:
                slot.epoch = 0

        self.ask(slot, "ConsumerGroupHeartbeat", heard, **{**asked, **fields})

    def _go(self, slot: Slot, which: int) -> None:
        is_static_leave = slot.instance is not None and which < 5
        epoch = -2 if is_static_leave else -1
        self.beat(slot, member_epoch=epoch, subscribed_topic_names=None, topic_partitions=None)
        slot.epoch = 0
        if slot.asked is None and which % 2:
            slot.lives += 1
            slot.id = f"{slot.name}.{slot.lives}{self.talk.salt}"

    def _wrong(self, slot: Slot, which: int) -> None:
        if which == 0:
            self.beat(slot, member_epoch=slot.epoch + 1)
        elif which == 1:
            self.beat(slot, member_epoch=max(slot.epoch - 1, 1))
        elif which == 2:
            self.beat(slot, member_id="unknown", member_epoch=1)
        elif which == 3:
            self.commit(slot, slot.epoch + 1)
        elif which == 4:
            self.commit(slot, -1, member_id="", group_instance_id=None)
        elif which == 5:
            self.beat(slot, instance_id="nobody")
        elif which == 6:
            self.beat(slot, server_assignor="none")
        else:
            self.beat(slot, topic_partitions=[])


def classic_life(talk: Talk, seed: int, pace: Pace) -> Life:
    return ClassicLife(talk, seed, pace)


def consumer_life(talk: Talk, seed: int, pace: Pace) -> Life:
    return ConsumerLife(talk, seed, pace)


def mixed_life(talk: Talk, seed: int, pace: Pace) -> Life:
    return ConsumerLife(talk, seed, pace, is_mixed=True)


KINDS: dict[str, Callable[[Talk, int, Pace], Life]] = {
    "classic": classic_life,
    "consumer": consumer_life,
    "mixed": mixed_life,
}
