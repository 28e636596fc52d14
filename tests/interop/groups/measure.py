"""How long Kafka's assignors and ours take: `python -m tests.interop.groups.measure`.

10,000 partitions and 1,000 members: new, after one member has joined, and after one has left. Kafka's times
are of the first call in a JVM of its own (of the second for the latter two), and of the best one when it is
warm. Ours are the best of fifteen, and the longest time between two yields.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from ottla.coordinator.groups.assignors import ASSIGNORS, GroupSpec
from tests.interop.groups.peer import Answer, Member, Round, ask

MEMBERS = 1000
PARTITIONS = 10_000
REPEATS_JVM = 300
JVM = ("-XX:+UseSerialGC", "-Xmx1g")

_Wish = Callable[[int], frozenset[int]]
_ALL = frozenset(range(100))


def _shapes() -> Iterator[tuple[str, list[int], _Wish]]:
    """Name, partitions of each topic, and what each member wants."""
    even = [PARTITIONS // 100] * 100
    skewed = [PARTITIONS // 20] * 10 + [PARTITIONS // 180] * 90
    yield "1 topic, same wishes", [PARTITIONS], lambda number: frozenset({0})
    yield "1 topic, a tenth wants none", [PARTITIONS], lambda number: frozenset({0} if number % 10 else ())
    yield "100 topics, same wishes", even, lambda number: _ALL
    yield "100 topics, half want half", even, lambda number: _ALL if number % 2 else frozenset(range(50))
    yield "100 topics, ten each", even, lambda number: frozenset((number * 7 + k) % 100 for k in range(10))
    yield "100 uneven topics, two each", skewed, lambda number: frozenset({number % 100, (number + 1) % 100})


def _rounds(assignor: str, counts: list[int], wish: _Wish) -> Iterator[tuple[str, list[Round]]]:
    source = random.Random(1)
    topics = [(source.randbytes(16), count) for count in counts]
    members = {f"member-{number:04}": Member(wish(number)) for number in range(1, MEMBERS + 2)}
    names = list(members)
    fresh = Round(assignor, topics, {name: members[name] for name in names[:-1]}, is_first=True)
    left = Round(assignor, topics, {name: members[name] for name in names[1:-1]}, is_first=False)
    yield "fresh", [fresh]
    yield "member joined", [fresh, Round(assignor, topics, members, is_first=False)]
    yield "member left", [fresh, left]


def _ours(assignor: str, spec: GroupSpec) -> tuple[float, float]:
    """Milliseconds in all and of the longest step: the best that each step took in some runs."""
    runs: list[list[float]] = []
    for _ in range(15):
        steps = ASSIGNORS[assignor].assign(spec)
        took: list[float] = []
        is_running = True
        while is_running:
            start = time.perf_counter()
            is_running = next(steps, False) is None
            took.append((time.perf_counter() - start) * 1000)
        runs.append(took)
    best = [min(times) for times in zip(*runs, strict=True)]
    return sum(best), max(best)


def main() -> None:
    print(f"{'ms':<54}{'Kafka first':>12}{'Kafka warm':>12}{'ours':>8}{'longest step':>14}")
    for shape, counts, wish in _shapes():
        for assignor in ASSIGNORS:
            for event, rounds in _rounds(assignor, counts, wish):
                answers = ask([round.question() for round in rounds] + [f"time {REPEATS_JVM}"], jvm=JVM)
                first, warm = (int(text) / 1000 for text in answers[-1].split())
                spec = Answer.read(rounds[-1], answers[-2]).spec(rounds[-1])
                total, longest = _ours(assignor, spec)
                name = f"{shape}, {assignor}, {event}"
                print(f"{name:<54}{first:>12.1f}{warm:>12.1f}{total:>8.1f}{longest:>14.2f}", flush=True)


if __name__ == "__main__":
    main()
