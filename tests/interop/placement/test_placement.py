"""Where replicas go in 500 random clusters, with and without racks: as Kafka's own placer puts them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.controller.placement import Placer, UsableBroker
from ottla.wire.errors import InvalidReplicationFactor
from tests.interop import peers

_SOURCE = Path(__file__).with_name("Placements.java")
CLUSTERS = 500

Placed = list[list[int]]


@dataclass(frozen=True)
class Question:
    """Partitions to be placed on the brokers of a cluster."""

    seed: int
    partitions: int
    replicas: int
    brokers: tuple[UsableBroker, ...]

    def line(self, draws: str) -> str:
        brokers = ",".join(f"{b.id}/{b.rack or '-'}/{int(b.is_fenced)}" for b in self.brokers)
        return f"{draws} {self.seed} {self.partitions} {self.replicas} {brokers}"

    def ours(self, draw: Callable[[int], int]) -> Placed | str:
        try:
            return list(Placer(self.brokers, draw).place(self.partitions, self.replicas))
        except InvalidReplicationFactor as error:
            return f"error {error.message}"

    def fixed_draw(self, bound: int) -> int:
        """As in Placements.java."""
        return (self.seed * 31 + bound * 17) % 1009 % bound


def questions() -> list[Question]:
    """Clusters of one to fifteen brokers: no racks, racks of one size, uneven racks, brokers without one."""
    chance = random.Random(6)
    made = []
    for seed in range(CLUSTERS):
        count = chance.randint(1, 15)
        racks: Sequence[str | None] = ["abcdef"[number] for number in range(chance.randint(1, 6))]
        kind = seed % 4
        if kind == 0:
            racks = [None]
        elif kind == 3:
            racks = [None, *racks]
        brokers = []
        for position, broker_id in enumerate(chance.sample(range(40), count)):
            rack = racks[position % len(racks)] if kind == 1 else chance.choice(racks)
            brokers.append(UsableBroker(broker_id, rack, chance.random() < 0.15))
        replicas = chance.randint(1, min(count, 6) + (seed % 50 == 0))
        made.append(Question(seed, chance.randint(1, 60), replicas, tuple(brokers)))
    return made


@pytest.fixture(scope="module")
def kafkas() -> dict[str, Placed | str]:
    """Kafka's answers to every line, from one JVM."""
    lines = [question.line(draws) for question in questions() for draws in ("fixed", "random")]
    classes = peers.javac_compile([_SOURCE])
    result = peers.java_run("Placements", classes=classes, input=("\n".join(lines) + "\n").encode())
    answers = result.stdout.decode().splitlines()
    assert len(answers) == len(lines)
    return {line: _placed(answer) for line, answer in zip(lines, answers, strict=True)}


def _placed(answer: str) -> Placed | str:
    if answer.startswith("error"):
        return answer
    return [[int(broker) for broker in replicas.split(",")] for replicas in answer.split()]


def test_the_same_draws_give_the_same_placement(kafkas: dict[str, Placed | str]) -> None:
    for question in questions():
        assert question.ours(question.fixed_draw) == kafkas[question.line("fixed")], question


def spread(question: Question, placed: Placed) -> dict[str, object]:
    """What a placement is judged by, apart from chance: how evenly brokers and racks are used."""
    racks = {broker.id: broker.rack for broker in question.brokers}
    live = [broker.id for broker in question.brokers if not broker.is_fenced]
    leaders = Counter(replicas[0] for replicas in placed)
    sizes = Counter(racks[broker] for broker in live)
    is_regular = len(live) == len(racks) and len(set(sizes.values())) == 1
    leading_racks = Counter(racks[replicas[0]] for replicas in placed[: len(live)])
    has_one_rack = len(set(racks.values())) == 1
    return {
        "distinct": all(len(set(replicas)) == question.replicas for replicas in placed),
        "leads though it is fenced": sorted(set(leaders) - set(live)),
        "racks of each": [len({racks[broker] for broker in replicas}) for replicas in placed]
        if is_regular
        else None,
        "leaders of each rack in the first round": sorted(leading_racks.values()) if is_regular else None,
        "leaders of each broker": sorted(leaders.values()) if is_regular and has_one_rack else None,
    }


def test_by_chance_brokers_and_racks_are_used_as_evenly(kafkas: dict[str, Placed | str]) -> None:
    for question in questions():
        theirs = kafkas[question.line("random")]
        ours = question.ours(random.Random(question.seed).randrange)
        if isinstance(ours, str) or isinstance(theirs, str):
            assert ours == theirs
        else:
            assert spread(question, ours) == spread(question, theirs), question
