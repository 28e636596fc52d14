"""Assignments beside those of the assignors of Kafka's consumer, on random groups that change by rounds.

Both sides are told the same of each round. Kafka gives a member a topic that it does not want if it has owned
it in an older generation; ours does not.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ottla.client.core.assignors import Assignor, assignors_of
from ottla.client.core.metadata import ClusterView, Node, PartitionView, TopicView
from ottla.client.core.subscription import (
    MemberSubscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.values import TopicPartition
from tests.interop import peers

_SOURCE = Path(__file__).parent / "java" / "AssignorPeer.java"
GROUPS = 400
RACKS = ("a", "b", "c", "d")
# Java compares text by units of UTF-16: the last but one comes after the last.
NAMES = ("consumer", "Consumer", "\u00e4", "\uff21", "\U0001f600")

Assigned = dict[str, list[TopicPartition]]
Topics = dict[str, list[tuple[str, ...]]]


def ask(questions: list[str]) -> list[str]:
    classes = peers.javac_compile([_SOURCE])
    text = "\n".join(questions) + "\n"
    result = peers.java_run("AssignorPeer", classes=classes, input=text.encode(), timeout_s=300)
    answers = result.stdout.decode().split("\n")[:-1]
    assert len(answers) == len(questions), result.stderr.decode()[-4000:]
    return answers


def listed(words: list[str]) -> str:
    return ".".join(words) or "-"


def named(partitions: tuple[TopicPartition, ...] | list[TopicPartition]) -> str:
    return listed([f"{topic}:{index}" for topic, index in partitions])


def member_text(name: str, member: MemberSubscription) -> str:
    data = "-" if member.user_data is None else member.user_data.hex()
    parts = [name, member.instance_id or "-", member.rack or "-", str(member.generation), data]
    return "|".join([*parts, listed(list(member.topics)), named(member.owned)])


@dataclass(frozen=True)
class Round:
    """One assignment."""

    assignor: str
    topics: Topics
    members: Mapping[str, MemberSubscription]

    def question(self) -> str:
        topics = ",".join(
            f"{name}={'/'.join(listed(list(racks)) for racks in partitions)}"
            for name, partitions in self.topics.items()
        )
        members = ",".join(member_text(name, member) for name, member in self.members.items())
        return f"assign {self.assignor} {topics} {members}"

    def view(self) -> ClusterView:
        brokers = {number: Node(number, "h", 1, rack) for number, rack in enumerate(RACKS)}
        topics = {}
        for name, partitions in self.topics.items():
            views = [
                PartitionView(index, 0, 0, tuple(RACKS.index(rack) for rack in racks), (), ())
                for index, racks in enumerate(partitions)
            ]
            topics[name] = TopicView(name, bytes(16), None, False, tuple(views))
        return ClusterView(brokers, topics=topics)


def read(answer: str) -> Assigned:
    found: Assigned = {}
    for entry in answer.split(","):
        member, _, partitions = entry.rpartition("=")
        words = (word.rpartition(":") for word in partitions.split(".") if word)
        found[member] = [TopicPartition(topic, int(index)) for topic, _, index in words]
    return found


class RandomGroup:
    """A group over several rounds: members come, go, forget, are late, and change their minds."""

    def __init__(self, seed: int, assignor: str) -> None:
        self.chance = random.Random(seed)
        self.assignor = assignor
        chance = self.chance
        spread = chance.choice((0, 0, 1, 2, len(RACKS)))
        self.topics: Topics = {
            f"topic-{chance.randrange(1000)}": [
                tuple(chance.sample(RACKS, chance.randint(min(1, spread), spread))) for _ in range(count)
            ]
            for count in chance.choices((1, 2, 3, 5, 12, 20), k=chance.randint(1, 8))
        }
        kinds = chance.choice((1, 1, 2, 4))
        names = sorted(self.topics)
        self.kinds = [tuple(chance.sample(names, chance.randint(1, len(names)))) for _ in range(kinds)]
        self.with_racks = chance.random() < 0.5
        self.members: dict[str, MemberSubscription] = {}
        for _ in range(chance.choice((1, 2, 3, 8, 30))):
            self.join()

    def join(self) -> None:
        chance = self.chance
        name = f"{chance.choice(NAMES)}-{chance.randrange(10**6)}"
        instance = f"i-{chance.randrange(10**6)}" if chance.random() < 0.2 else None
        rack = chance.choice(RACKS) if self.with_racks and chance.random() < 0.9 else None
        topics = chance.choice(self.kinds)
        if chance.random() < 0.05:
            topics += ("missing",)
        self.members[name] = MemberSubscription(topics, rack=rack, instance_id=instance)

    def change(self) -> None:
        chance = self.chance
        for _ in range(chance.choice((0, 1, 2, 3))):
            name = chance.choice(list(self.members))
            match chance.choice(("join", "join", "leave", "wish", "forget", "late", "grow", "claim")):
                case "join":
                    self.join()
                case "leave" if len(self.members) > 1:
                    del self.members[name]
                case "wish":
                    self.members[name] = replace(self.members[name], topics=chance.choice(self.kinds))
                case "forget":
                    self.members[name] = replace(self.members[name], owned=(), generation=-1, user_data=None)
                case "late":
                    late = max(0, self.members[name].generation - chance.randint(1, 3))
                    self.members[name] = replace(self.members[name], generation=late)
                case "grow":
                    self.topics[chance.choice(list(self.topics))].append((chance.choice(RACKS),))
                case "claim":
                    other = self.members[chance.choice(list(self.members))]
                    owned = dict.fromkeys((*self.members[name].owned, *other.owned[:2]))
                    self.members[name] = replace(self.members[name], owned=tuple(owned))
                case _:
                    pass

    def rounds(self) -> list[tuple[Round, Assigned]]:
        """Each round with our answer, on which the next one builds."""
        made = []
        for generation in range(self.chance.randint(2, 6)):
            if generation:
                self.change()
            members = {name: self.with_data(member) for name, member in self.members.items()}
            asked = Round(self.assignor, {**self.topics}, members)
            asked = replace(asked, topics={name: list(racks) for name, racks in self.topics.items()})
            ours = ours_of(asked)
            made.append((asked, ours))
            for name, partitions in ours.items():
                owned = tuple(sorted(partitions))
                self.members[name] = replace(self.members[name], owned=owned, generation=generation)
        return made

    def with_data(self, member: MemberSubscription) -> MemberSubscription:
        """What the member's own assignor sends along; sometimes that of an old client, or nonsense."""
        if self.assignor == "sticky" and member.owned:
            data = user_data("sticky", member.owned, member.generation)
            if self.chance.random() < 0.1 and not is_stale(member):
                data = self.chance.choice((data[:-4], data[:5], b"", self.chance.randbytes(9)))
            return replace(member, user_data=data)
        if self.assignor == "cooperative-sticky":
            data = user_data("cooperative-sticky", (), member.generation)
            if self.chance.random() < 0.2:  # a subscription of version 1 has no generation
                return replace(member, user_data=data, generation=-1)
            return replace(member, user_data=data)
        return member


def user_data(name: str, partitions: tuple[TopicPartition, ...], generation: int) -> bytes:
    (assignor,) = assignors_of([name])
    assignor.on_assignment(partitions, None, generation)
    data = assignor.subscription_user_data(())
    assert data is not None
    return data


def ours_of(asked: Round) -> Assigned:
    assignor: Assignor
    (assignor,) = assignors_of([asked.assignor])
    return {name: list(found) for name, found in assignor.assign(asked.view(), asked.members).items()}


def is_stale(member: MemberSubscription) -> bool:
    """Whether a member has owned what it no longer wants."""
    return any(partition.topic not in member.topics for partition in member.owned)


def kafka_may_err(asked: Round) -> bool:
    """Whether an older generation owned what it no longer wants: Kafka may give it that, on the way."""
    ends = (member.user_data[-4:] for member in asked.members.values() if member.user_data)
    newest = max((int.from_bytes(end, "big", signed=True) for end in ends if len(end) == 4), default=-1)
    return any(
        is_stale(member) and (member.user_data or b"")[-4:] != struct.pack(">i", newest)
        for member in asked.members.values()
    )


def is_wanted(asked: Round, assigned: Assigned) -> bool:
    return all(
        partition.topic in asked.members[member].topics
        for member, partitions in assigned.items()
        for partition in partitions
    )


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_each_round_is_assigned_as_kafkas_consumer_does(assignor: str) -> None:
    rounds = [found for seed in range(GROUPS) for found in RandomGroup(seed, assignor).rounds()]
    answers = ask([asked.question() for asked, _ in rounds])
    compared = 0
    for (asked, ours), answer in zip(rounds, answers, strict=True):
        assert is_wanted(asked, ours)
        if kafka_may_err(asked):
            continue
        assert not answer.startswith("error"), asked.question()
        compared += 1
        assert ours == read(answer), asked.question()
    assert compared > 0.8 * len(rounds)


def test_user_data_subscriptions_and_assignments_have_kafkas_bytes() -> None:
    chance = random.Random(7)
    questions, expected = [], []
    for _ in range(300):
        topics = [f"topic-{chance.randrange(10**6)}" for _ in range(chance.randint(1, 30))]
        owned = {
            TopicPartition(chance.choice(topics), chance.randrange(50)) for _ in range(chance.randint(0, 40))
        }
        generation = chance.choice((-1, 0, 5, 2**31 - 1))
        for name in ("sticky", "cooperative-sticky"):
            questions.append(f"data {name} {generation} {named(sorted(owned))}")
            expected.append(user_data(name, tuple(sorted(owned)), generation).hex())
        data = chance.choice((None, struct.pack(">i", generation)))
        member = MemberSubscription(
            tuple(sorted(topics)), data, tuple(sorted(owned)), generation, chance.choice((None, "rack"))
        )
        questions.append(f"bytes {member_text('m', member)}")
        expected.append(f"{encode_subscription(member).hex()} {encode_assignment(member.owned, data).hex()}")
    for question, answer, ours in zip(questions, ask(questions), expected, strict=True):
        theirs = " ".join(answer.split(" ")[-2:]) if question.startswith("bytes") else answer
        assert ours == theirs, question
