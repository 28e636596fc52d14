"""Assignments beside those of Kafka's own assignors, on random groups that change from round to round.

Where several assignments are equally good, Kafka's choice depends on the order in which its hash maps hold
members and topics. Given that order, and the previous assignment as Kafka stored it, ours must be the same.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from ottla.coordinator.groups.assignors import ASSIGNORS, MemberAssignment
from tests.interop.groups.peer import Answer, Member, Round, ask, run

TOPOLOGIES = 1000
# Java compares text by units of UTF-16: the last but one comes after the last.
NAMES = ("instance", "Instance", "\u00e4", "\uff21", "\U0001f600")


def random_group(source: random.Random) -> list[Round]:
    """One group over several rounds: members come, go, come back and change their minds; topics grow."""
    topics = [
        (source.randbytes(16), source.choice((1, 2, 3, 6, 12, 50))) for _ in range(source.randint(1, 20))
    ]
    kinds = _subscriptions(source, len(topics))
    members: dict[str, Member] = {}
    count = source.choice((1, 2, 3, source.randint(1, 30)))
    rounds: list[Round] = []
    assignors = ["uniform"] * 4 + ["range"] * 2
    assignor = source.choice(assignors)
    for _ in range(count):
        _join(source, members, kinds)
    for number in range(source.randint(3, 7)):
        if number:
            members = {
                member_id: Member(member.topics, member.instance_id, member.rack_id)
                for member_id, member in members.items()
            }
            _change(source, members, kinds, topics)
            if source.random() < 0.05:
                assignor = source.choice(assignors)
        rounds.append(Round(assignor, tuple(topics), dict(members), is_first=number == 0))
    return rounds


def _subscriptions(source: random.Random, topics: int) -> list[frozenset[int]]:
    """What a member of this group may want: all the same, a few kinds, or anything."""
    numbers = range(topics)
    kinds = source.choice((1, 1, 2, 3, 30))
    return [frozenset(source.sample(numbers, source.randint(1, topics))) for _ in range(kinds)]


def _join(source: random.Random, members: dict[str, Member], kinds: list[frozenset[int]]) -> None:
    instance = f"{source.choice(NAMES)}-{source.randrange(10**6)}" if source.random() < 0.3 else None
    rack = f"rack-{source.randrange(3)}" if source.random() < 0.5 else None
    members[f"{source.choice(NAMES)}-{source.randbytes(8).hex()}"] = Member(
        source.choice(kinds), instance, rack
    )


def _change(
    source: random.Random,
    members: dict[str, Member],
    kinds: list[frozenset[int]],
    topics: list[tuple[bytes, int]],
) -> None:
    for _ in range(source.choice((0, 1, 1, 2, 5))):
        member_id = source.choice(list(members))
        member = members[member_id]
        match source.choice(("join", "join", "leave", "wish", "grow", "return", "forget")):
            case "join":
                _join(source, members, kinds)
            case "leave" if len(members) > 1:
                del members[member_id]
            case "wish":
                members[member_id] = Member(source.choice(kinds), *_who(member))
            case "grow":
                number = source.randrange(len(topics))
                topic_id, partitions = topics[number]
                topics[number] = (topic_id, partitions + source.choice((1, 3, 20)))
            case "return" if member.instance_id is not None and member.inherits is None:
                del members[member_id]
                members[f"again-{source.randbytes(8).hex()}"] = Member(
                    member.topics, *_who(member)[:2], member_id
                )
            case "forget" if len(member.topics) > 1:
                wanted = member.topics - {source.choice(sorted(member.topics))}
                members[member_id] = Member(wanted, *_who(member))


def _who(member: Member) -> tuple[str | None, str | None, str | None]:
    return member.instance_id, member.rack_id, member.inherits


def sizes(shares: Mapping[str, MemberAssignment]) -> list[int]:
    return sorted(sum(map(len, share.values())) for share in shares.values())


def staying(before: Mapping[str, MemberAssignment], after: Mapping[str, MemberAssignment]) -> int:
    return sum(
        len(set(partitions) & set(before[member_id].get(topic_id, ())))
        for member_id, share in after.items()
        for topic_id, partitions in share.items()
    )


def in_plain_order(shares: Mapping[str, MemberAssignment]) -> dict[str, dict[bytes, list[int]]]:
    return {
        member_id: {topic_id: sorted(partitions) for topic_id, partitions in share.items()}
        for member_id, share in shares.items()
    }


def test_a_thousand_random_groups_are_assigned_as_kafka_does() -> None:
    source = random.Random(848)
    groups = [random_group(source) for _ in range(TOPOLOGIES)]
    rounds = [round for group in groups for round in group]
    answers = ask([round.question() for round in rounds])
    seen = set()
    for round, text in zip(rounds, answers, strict=True):
        answer = Answer.read(round, text)
        ours = run(ASSIGNORS[round.assignor].assign(answer.spec(round)))
        assert in_plain_order(ours) == in_plain_order(answer.after), round
        seen.add((round.assignor, round.is_homogeneous, round.is_first))
    assert len(seen) == 8  # both assignors, both ways, fresh and sticky


def test_the_order_of_members_and_topics_changes_neither_balance_nor_stickiness() -> None:
    """In our own order a group of equal members is as even as in Kafka's and as much stays where it is."""
    source = random.Random(849)
    groups = [random_group(source) for _ in range(300)]
    rounds = [round for group in groups for round in group if round.assignor == "uniform"]
    rounds = [round for round in rounds if round.is_homogeneous]
    asked = [round for group in groups for round in group]
    answers = dict(zip(map(id, asked), ask([round.question() for round in asked]), strict=True))
    assert len(rounds) > 200
    for round in rounds:
        answer = Answer.read(round, answers[id(round)])
        source.shuffle(answer.members)
        source.shuffle(answer.topics)
        ours = run(ASSIGNORS["uniform"].assign(answer.spec(round)))
        assert sizes(ours) == sizes(answer.after)
        assert staying(answer.before, ours) == staying(answer.before, answer.after)
