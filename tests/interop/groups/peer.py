"""Runs Kafka's own assignors and its regular expression library, through GroupPeer.java."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ottla.coordinator.groups.assignors import GroupSpec, MemberAssignment, MemberSpec, Steps, TopicSpec
from tests.interop import peers

_SOURCE = Path(__file__).parent / "java" / "GroupPeer.java"


def ask(questions: Sequence[str], **options: Sequence[str]) -> list[str]:
    """The answers of one JVM to all questions, in order."""
    classes = peers.javac_compile([_SOURCE])
    text = "\n".join(questions) + "\n"
    result = peers.java_run("GroupPeer", classes=classes, input=text.encode(), timeout_s=300, **options)  # type: ignore[arg-type]
    answers = result.stdout.decode().split("\n")[:-1]
    assert len(answers) == len(questions), result.stderr.decode()[-4000:]
    return answers


@dataclass(frozen=True)
class Member:
    """A member of a group in a question. `inherits`: whose assignment it takes over when it comes back."""

    topics: frozenset[int]  # by number
    instance_id: str | None = None
    rack_id: str | None = None
    inherits: str | None = None


@dataclass(frozen=True)
class Round:
    """One assignment of a group; it follows on the one before unless it `is_first`."""

    assignor: str
    topics: Sequence[tuple[bytes, int]]  # id and number of partitions
    members: Mapping[str, Member]
    is_first: bool

    @property
    def is_homogeneous(self) -> bool:
        return len({member.topics for member in self.members.values()}) == 1

    def question(self) -> str:
        topics = ",".join(f"{topic_id.hex()}:{count}" for topic_id, count in self.topics)
        members = ",".join(
            "/".join(
                [
                    member_id,
                    member.instance_id or "-",
                    member.rack_id or "-",
                    member.inherits or "-",
                    ".".join(map(str, member.topics)) or "-",
                ]
            )
            for member_id, member in self.members.items()
        )
        step = "new" if self.is_first else "next"
        kind = "HOMOGENEOUS" if self.is_homogeneous else "HETEROGENEOUS"
        return f"assign {step} {self.assignor} {kind} {topics} {members}"


Shares = dict[str, dict[bytes, tuple[int, ...]]]


@dataclass(frozen=True)
class Answer:
    """Kafka's result of a round, in the iteration order of its maps, which breaks its ties."""

    members: list[str]
    topics: list[bytes]
    before: Shares
    after: Shares

    @classmethod
    def read(cls, round: Round, text: str) -> Answer:
        word, members, topics, before, after = text.split(" ")
        assert word == "ok", text
        ids = [topic_id for topic_id, _ in round.topics]
        return cls(
            members.split(","),
            [ids[int(number)] for number in topics.split(".")],
            _read_shares(before, ids),
            _read_shares(after, ids),
        )

    def spec(self, round: Round) -> GroupSpec:
        """The same question for us."""
        counts = dict(round.topics)
        ids = list(counts)
        return GroupSpec(
            members={
                member_id: MemberSpec(
                    topic_ids=frozenset(ids[number] for number in round.members[member_id].topics),
                    assigned=self.before[member_id],
                    instance_id=round.members[member_id].instance_id,
                    rack_id=round.members[member_id].rack_id,
                )
                for member_id in self.members
            },
            topics={topic_id: TopicSpec(counts[topic_id]) for topic_id in self.topics},
            is_homogeneous=round.is_homogeneous,
        )


def _read_shares(text: str, ids: list[bytes]) -> Shares:
    shares: Shares = {}
    for entry in text.split(","):
        member_id, _, topics = entry.partition("=")
        shares[member_id] = {
            ids[int(number)]: tuple(map(int, partitions.split(".")))
            for number, partitions in (topic.split(":") for topic in topics.split("/") if topic)
        }
    return shares


def run(steps: Steps) -> dict[str, MemberAssignment]:
    """An assignor's answer."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assignment: dict[str, MemberAssignment] = end.value
            return assignment
