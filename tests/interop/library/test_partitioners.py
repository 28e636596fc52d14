"""Partitions beside those that Kafka's own partitioners choose, on random input."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.client.core.metadata import PartitionView, TopicView
from ottla.client.core.partitioners import RoundRobin, Sticky, partition_for_key
from ottla.records.key_hash import murmur2
from tests.interop import peers

_SOURCE = Path(__file__).parent / "java" / "PartitionerPeer.java"
_CLASS = "org.apache.kafka.clients.producer.internals.PartitionerPeer"


def ask(questions: list[str]) -> list[str]:
    classes = peers.javac_compile([_SOURCE])
    result = peers.java_run(_CLASS, classes=classes, input=("\n".join(questions) + "\n").encode())
    answers = result.stdout.decode().splitlines()
    assert len(answers) == len(questions), result.stderr.decode()[-4000:]
    return answers


def view(leaders: str) -> TopicView:
    partitions = tuple(
        PartitionView(index, 0 if mark == "1" else -1, 0, (), (), ()) for index, mark in enumerate(leaders)
    )
    return TopicView("t", bytes(16), None, False, partitions)


class Drawn:
    """Random numbers that were drawn before."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = iter(numbers)

    def below(self, bound: int) -> int:
        assert bound == 1 << 31
        return next(self._numbers)

    def bytes(self, count: int) -> bytes:
        raise AssertionError("not asked for")

    def fraction(self) -> float:
        raise AssertionError("not asked for")


def some_leaders(chance: random.Random) -> str:
    return "".join(chance.choice("1110") for _ in range(chance.randint(1, 9)))


def test_a_key_has_the_same_hash_and_partition() -> None:
    chance = random.Random(1)
    keys = [chance.randbytes(chance.choice((0, 1, 2, 3, 4, 5, 7, 8, 20, 100))) for _ in range(20_000)]
    counts = [chance.choice((1, 2, 3, 12, 1000, 2**31 - 1)) for _ in keys]
    answers = ask([f"key x{key.hex()} {count}" for key, count in zip(keys, counts, strict=True)])
    for key, count, answer in zip(keys, counts, answers, strict=True):
        theirs = answer.split()
        ours = murmur2(key, 0, len(key))
        assert (ours, partition_for_key(key, count)) == (int(theirs[0]) % 2**32, int(theirs[1])), key


def test_round_robin_goes_the_same_way() -> None:
    chance = random.Random(2)
    asked = [some_leaders(chance) for _ in range(200)]
    for leaders, answer in zip(asked, ask([f"robin {leaders} 25" for leaders in asked]), strict=True):
        partitioner, topic = RoundRobin(), view(leaders)
        ours = [partitioner("t", None, None, topic) for _ in range(25)]
        assert ours == [int(number) for number in answer.split(",")], leaders


def steps(chance: random.Random, count: int) -> list[str]:
    made = []
    for _ in range(chance.randint(1, 40)):
        if chance.random() < 0.7:
            made.append(f"a{chance.randint(0, 700)}/{chance.randint(0, 1)}")
            continue
        listed = chance.sample(range(count), chance.randint(0, count))
        longest = chance.choice((0, 1, 5, 100))
        sizes = ",".join(str(chance.randint(0, longest)) for _ in listed)
        made.append(f"w{sizes}/{','.join(map(str, listed))}/{count}")
    return made


def ours(batch_size: int, leaders: str, draws: list[int], taken: list[str]) -> list[int]:
    sticky, topic = Sticky(batch_size, Drawn(draws)), view(leaders)
    found = [sticky.current(topic)]
    for step in taken:
        first, second, *rest = step[1:].split("/")
        if step[0] == "a":
            sticky.appended(int(first), topic, batches_full=second == "1")
        else:
            sizes = [int(number) for number in first.split(",") if number]
            sticky.weigh(sizes, [int(number) for number in second.split(",") if number], int(rest[0]))
        found.append(sticky.current(topic))
    return found


def test_the_sticky_partition_changes_alike_by_bytes_and_by_load() -> None:
    chance = random.Random(3)
    cases = []
    for _ in range(2000):
        leaders = some_leaders(chance)
        draws = [chance.randrange(2**31) for _ in range(45)]
        cases.append((chance.choice((1, 100, 1000)), leaders, draws, steps(chance, len(leaders))))
    questions = [
        f"sticky {batch_size} {leaders} {','.join(map(str, draws))} {' '.join(taken)}"
        for batch_size, leaders, draws, taken in cases
    ]
    for case, answer in zip(cases, ask(questions), strict=True):
        assert ours(*case) == [int(number) for number in answer.split(",")], case
