"""Groups: generations only grow, a partition has one owner in each, committed positions never go back."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from tests.sim.checker.history import Anomaly, History, Outcome, Partition, partition_text


def generations_back(history: History) -> Iterator[Anomaly]:
    """Whoever hears a group's generation later hears at least that of before."""
    last: dict[str, int] = {}
    for seen in sorted(history.generations, key=lambda seen: seen.at):
        if seen.generation < last.get(seen.group, -1):
            yield Anomaly(
                "generation went back",
                f"{seen.group} was at {last[seen.group]}, then at {seen.generation}",
            )
        last[seen.group] = max(seen.generation, last.get(seen.group, -1))


def two_owners(history: History) -> Iterator[Anomaly]:
    """In one generation of a group a partition is given to one member."""
    owners: dict[tuple[str, int, Partition], str] = {}
    for assigned in history.assigned:
        for partition in assigned.partitions:
            owner = owners.setdefault((assigned.group, assigned.generation, partition), assigned.member)
            if owner != assigned.member:
                yield Anomaly(
                    "two owners",
                    f"{partition_text(partition)} of {assigned.group} in generation {assigned.generation} is "
                    f"{owner}'s and {assigned.member}'s",
                )


def offsets_back(history: History) -> Iterator[Anomaly]:
    """A position that was acknowledged, or seen, is a floor for everybody who asks later.

    A position committed in a transaction counts once the transaction is known to have committed: through
    the observations, since `Commit` alone does not say when that was.
    """
    known: dict[tuple[str, Partition], list[tuple[float, int]]] = {}
    for commit in history.commits:
        if commit.outcome is Outcome.OK and commit.transaction is None:
            known.setdefault((commit.group, commit.partition), []).append((commit.ended, commit.offset))
    for seen in history.committed:
        if seen.offset is not None:
            known.setdefault((seen.group, seen.partition), []).append((seen.ended, seen.offset))
    for acknowledged in known.values():
        acknowledged.sort()
    floors = {key: list(accumulate((offset for _, offset in known[key]), max)) for key in known}
    for seen in history.committed:
        key = (seen.group, seen.partition)
        count = bisect_left(known.get(key, []), (seen.began, -1))
        floor = floors[key][count - 1] if count else -1
        if floor > (-1 if seen.offset is None else seen.offset):
            yield Anomaly(
                "offset went back",
                f"{seen.group} had {floor} committed of {partition_text(seen.partition)}, then {seen.offset}",
            )
