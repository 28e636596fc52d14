"""What the APIs that change offsets share: partitions that do not exist, and one answer out of two."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from copy import copy
from typing import Any, Protocol, TypeVar


class _Partition(Protocol):
    partition_index: int


class _Topic(Protocol):
    partitions: list[Any]


P = TypeVar("P", bound=_Partition)
T = TypeVar("T", bound=_Topic)


def split(partitions: list[P], known: Container[int]) -> tuple[list[P], list[P]]:
    """(those that exist, those that do not)."""
    unknown = [asked for asked in partitions if asked.partition_index not in known]
    if not unknown:
        return partitions, unknown
    return [asked for asked in partitions if asked.partition_index in known], unknown


def merged(refused: list[T], answered: list[T], key: Callable[[T], Hashable]) -> list[T]:
    """One entry for each topic: what was refused here, then what the coordinator said.

    Where nothing was refused the coordinator's answer stays as it is, a topic that was named twice twice.
    """
    if not refused:
        return answered
    topics: dict[Hashable, T] = {}
    grown: set[Hashable] = set()  # those whose list is a copy already
    for topic in [*refused, *answered]:
        first = topics.get(key(topic))
        if first is None:
            topics[key(topic)] = copy(topic)  # what was refused is needed again if the commit fails later
        elif key(topic) in grown:
            first.partitions += topic.partitions
        else:
            grown.add(key(topic))
            first.partitions = [*first.partitions, *topic.partitions]
    return list(topics.values())
