"""The uniform assignor for members with different subscriptions.

First every partition without an owner goes to the subscriber of its topic that owns the fewest partitions.
Then it balances topic after topic: partitions move from the subscribers that own the most (of all topics) to
those that own the fewest, until they differ by one. Topics share subscribers, so balancing one may unbalance
another: this is repeated until a round moves nothing, at most `_ROUNDS_MAX` times.

Topics with the most partitions per subscriber come first: they leave the least choice.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Final

from ottla.coordinator.groups.assignors.spec import (
    STEP,
    Assignment,
    GroupSpec,
    Steps,
    find_subscribers,
)

_ROUNDS_MAX: Final = 16
_NOBODY: Final = -1
_signed_halves = struct.Struct(">qq").unpack  # Kafka orders topic ids as two signed numbers


def assign_mixed(spec: GroupSpec) -> Steps:
    mix = _Mix(spec)
    yield from mix.find_topics()
    yield from mix.keep_owned()
    yield from mix.assign_unowned()
    yield from mix.level()
    return (yield from mix.assignment())


class _Topic:
    """A topic under assignment. `owners` are members by number, for each partition."""

    __slots__ = ("id", "is_changed", "owners", "subscribers")

    def __init__(self, topic_id: bytes, partitions: int, subscribers: list[int]) -> None:
        self.id = topic_id
        self.subscribers = subscribers  # by number, ascending; topics with the same ones share the list
        self.owners = [_NOBODY] * partitions
        self.is_changed = False

    def rank(self) -> tuple[float, int]:
        subscribers = len(self.subscribers)
        return -len(self.owners) / subscribers, subscribers

    def signed_id(self) -> tuple[int, ...]:
        return _signed_halves(self.id)


class _Mix:
    """An assignment under construction. Members are numbers: their positions in the spec."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.members = list(spec.members.values())
        self.sizes = [0] * len(self.members)  # how many partitions each member owns by now
        self.topics: list[_Topic] = []  # by their rank, and by id where that is the same
        self.loses: set[int] = set()  # members with partitions of topics that they no longer subscribe to
        self.touched: set[int] = set()  # members that gained or lost a partition
        self.moves = 0

    def find_topics(self) -> Generator[None, None, None]:
        wishes = [member.topic_ids for member in self.members]
        subscribers = yield from find_subscribers(self.spec, wishes)
        ranked: dict[tuple[float, int], list[_Topic]] = {}
        work = 0
        for topic_id, numbers in subscribers.items():
            topic = _Topic(topic_id, self.spec.topics[topic_id].partition_count, numbers)
            ranked.setdefault(topic.rank(), []).append(topic)
            work += 2 + len(topic.owners) // 100
            if work >= STEP:
                work = 0
                yield
        for rank in sorted(ranked):
            self.topics += sorted(ranked[rank], key=_Topic.signed_id)
            work += len(ranked[rank])
            if work >= STEP:
                work = 0
                yield

    def keep_owned(self) -> Generator[None, None, None]:
        """Every member keeps its partitions of the topics that it subscribes to."""
        owners_of = {topic.id: topic.owners for topic in self.topics}
        changed: set[bytes] = set()
        sizes = self.sizes
        work = 0
        for number, member in enumerate(self.members):
            for topic_id, partitions in member.assigned.items():
                if topic_id not in member.topic_ids:
                    self.loses.add(number)
                    continue
                owners = owners_of[topic_id]
                try:
                    for partition in partitions:
                        owners[partition] = number
                except IndexError:  # the metadata of this node is older than the assignment
                    partitions = tuple(partition for partition in partitions if partition < len(owners))
                    for partition in partitions:
                        owners[partition] = number
                    changed.add(topic_id)
                    self.touched.add(number)
                sizes[number] += len(partitions)
                work += len(partitions)
            work += 1
            if work >= STEP:
                work = 0
                yield
        for topic in self.topics:
            topic.is_changed = topic.id in changed

    def assign_unowned(self) -> Generator[None, None, None]:
        sizes, touched = self.sizes, self.touched
        lowest: list[int] = []  # the members of `last` that own least, by number
        last: list[int] = []
        work = 0
        for topic in self.topics:
            owners = topic.owners
            work += 1 + len(owners) // 10
            if _NOBODY not in owners:
                continue
            topic.is_changed = True
            free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
            if topic.subscribers is not last or len(free) > len(lowest):
                lowest = []
                last = topic.subscribers
                work += len(last)
            rounds = iter((lowest,)) if lowest else _lowest_first(last, sizes)
            given = 0
            while given < len(free):
                takers = next(rounds)
                for number, partition in zip(takers, free[given : given + len(takers)], strict=False):
                    owners[partition] = number
                    sizes[number] += 1
                given += len(takers)
                touched.update(takers[: len(takers) - max(given - len(free), 0)])
                work += len(takers)
                if work >= STEP:
                    work = 0
                    yield
            left = given - len(free)
            lowest = sorted(takers[len(takers) - left :])

    def level(self) -> Generator[None, None, None]:
        topics = [topic for topic in self.topics if len(topic.subscribers) > 1]
        is_level: dict[int, int] = {}  # id of a list of subscribers -> `moves` when it was found level
        last: _Topic | None = None  # where something moved last, or where the first round began
        work = 0
        for _ in range(_ROUNDS_MAX):
            for topic in topics:
                if topic is last:
                    return
                moves_before = self.moves
                key = id(topic.subscribers)
                if is_level.get(key) != moves_before:
                    work += len(topic.subscribers) // 5
                    if self._spread(topic) > 1:
                        yield from self._level_topic(topic)
                        work = 0
                    else:
                        is_level[key] = moves_before
                if last is None or self.moves != moves_before:
                    last = topic
                work += 1
                if work >= STEP:
                    work = 0
                    yield

    def _spread(self, topic: _Topic) -> int:
        sizes = [self.sizes[number] for number in topic.subscribers]
        return max(sizes) - min(sizes)

    def _level_topic(self, topic: _Topic) -> Generator[None, None, None]:
        """Move partitions of a topic from the subscribers that own the most to those that own the fewest."""
        owners, sizes = topic.owners, self.sizes
        can_give: dict[int, list[int]] = {}  # what each had before, the highest last
        for start in range(0, len(owners), STEP):
            for partition, owner in enumerate(owners[start : start + STEP], start):
                can_give.setdefault(owner, []).append(partition)
            yield
        ladder = sorted(topic.subscribers, key=sizes.__getitem__)
        low = _LowEnd(ladder, sizes)
        high = _HighEnd(ladder, sizes)
        work = len(ladder)
        while True:
            giver = high.next_giver(can_give)
            work += 1 + high.skipped
            if giver is None:
                return
            partition = can_give[giver].pop()
            taker = low.next()
            if high.count - low.count <= 1:
                return
            owners[partition] = taker
            sizes[giver] -= 1
            sizes[taker] += 1
            self.touched.add(giver)
            self.touched.add(taker)
            topic.is_changed = True
            self.moves += 1
            if work >= STEP:
                work = 0
                yield

    def assignment(self) -> Steps:
        """The assignment of each member; members without changes keep their mapping."""
        spec, touched, loses = self.spec, self.touched, self.loses
        assignment: Assignment = {}
        shares: list[dict[bytes, tuple[int, ...]] | None] = [None] * len(self.members)
        changed = {topic.id for topic in self.topics if topic.is_changed}
        work = 0
        for number, (member_id, member) in enumerate(spec.members.items()):
            assignment[member_id] = member.assigned
            if number in touched or number in loses:
                assignment[member_id] = shares[number] = {
                    topic_id: partitions
                    for topic_id, partitions in member.assigned.items()
                    if topic_id in member.topic_ids and not (topic_id in changed and number in touched)
                }
                work += len(member.assigned)
            work += 1
            if work >= STEP:
                work = 0
                yield
        for topic in self.topics:
            if not topic.is_changed:
                continue
            owned: dict[int, list[int]] = {}
            for start in range(0, len(topic.owners), STEP):
                piece = topic.owners[start : start + STEP]
                for partition, owner in enumerate(piece, start):
                    if owner in touched:
                        owned.setdefault(owner, []).append(partition)
                work += len(piece)
                if work >= STEP:
                    work = 0
                    yield
            for number, partitions in owned.items():
                share = shares[number]
                assert share is not None
                share[topic.id] = tuple(partitions)
            work += len(owned)
        yield
        for number, (member_id, member) in enumerate(spec.members.items()):
            if number in touched and assignment[member_id] == member.assigned:
                assignment[member_id] = member.assigned  # partitions moved away and back
        return assignment


def _lowest_first(members: list[int], sizes: list[int]) -> Generator[list[int], None, None]:
    """The members that get the next partitions, without end: rounds over those with the fewest.

    After each round these have one more, and members that had as many from the beginning join them.
    """
    ladder = sorted(members, key=sizes.__getitem__)
    level = sizes[ladder[0]]
    end = 0
    while True:
        while end < len(ladder) and sizes[ladder[end]] == level:
            end += 1
        yield ladder[:end]
        level += 1


class _LowEnd:
    """The emptiest of a ladder of members, one after another, as `_lowest_first`."""

    __slots__ = ("_end", "_ladder", "_next", "_sizes", "count")

    def __init__(self, ladder: list[int], sizes: list[int]) -> None:
        self._ladder = ladder
        self._sizes = sizes
        self._end = 0
        self._next = 0
        self.count = sizes[ladder[0]] - 1  # what each of them owned before this round

    def next(self) -> int:
        if self._next >= self._end:
            self.count += 1
            ladder, sizes = self._ladder, self._sizes
            while self._end < len(ladder) and sizes[ladder[self._end]] == self.count:
                self._end += 1
            self._next = 0
        self._next += 1
        return self._ladder[self._next - 1]


class _HighEnd:
    """The fullest of a ladder of members, one after another, from the top; who has nothing to give drops out.

    Those in the range own `count` each at the start of a round. After it they own one less, and those who
    had as few from the beginning join them.
    """

    __slots__ = ("_end", "_ladder", "_next", "_sizes", "_start", "count", "skipped")

    def __init__(self, ladder: list[int], sizes: list[int]) -> None:
        self._ladder = ladder
        self._sizes = sizes
        self._start = self._end = len(ladder)
        self._next = len(ladder) - 1
        self.count = sizes[ladder[-1]] + 1
        self.skipped = 0  # how many dropped out in the last call

    def next_giver(self, can_give: dict[int, list[int]]) -> int | None:
        ladder = self._ladder
        self.skipped = 0
        while True:
            if self._next < self._start:
                self._widen()
            position = self._next
            if position < 0:
                return None
            self._next = position - 1
            member = ladder[position]
            if can_give.get(member):
                return member
            # The last of the range takes its place: it has had its turn in this round.
            self._end -= 1
            ladder[position] = ladder[self._end]
            ladder[self._end] = member
            self.skipped += 1

    def _widen(self) -> None:
        ladder, sizes = self._ladder, self._sizes
        if self._end <= self._start and self._start > 0:
            self.count = sizes[ladder[self._start - 1]]  # all dropped out: go on below, however far that is
        else:
            self.count -= 1
        while self._start > 0 and sizes[ladder[self._start - 1]] == self.count:
            self._start -= 1
        self._next = self._end - 1
