"""Groups: generations only grow, a partition has one owner per generation, committed offsets never
decrease."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from tests.sim.checker.history import Anomaly, History, Outcome, Partition, partition_text


def generations_back(history: History) -> Iterator[Anomaly]:
    """A member that learns a group's generation later gets at least the earlier one."""
    last: dict[str, int] = {}
    for seen in sorted(history.generations, key=lambda seen: seen.at):
        if seen.generation < last.get(seen.group, -1):
            yield Anomaly(
                "generation went back",
                f"{seen.group} was at {last[seen.group]}, then at {seen.generation}",
            )
        last[seen.group] = max(seen.generation, last.get(seen.group, -1))


def two_owners(history: History) -> Iterator[Anomaly]:
    """In each generation of a group only one member owns a partition."""
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
    """A committed offset that was acknowledged or read is a lower bound for all later reads.

    An offset committed in a transaction counts once the transaction is known to be committed, which only
    later observations show: `Commit` alone has no time for it.
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
