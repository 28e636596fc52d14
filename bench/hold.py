"""Measures how long an assignor holds the event loop at most: `python -m bench.hold`, which prints JSON.

The assignors run in slices on a loop, as in a broker, for groups of 1,000 members and 10,000 partitions in
several states: first alone, then for a group on a coordinator, which writes and replays records. Meanwhile a
probe yields to the loop repeatedly; its longest wait is the wait of a request. CPU time counts, so that other
load on the machine does not matter; the wall-clock time is reported, too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from bench.hold_group import GroupOnALoop
from ottla.coordinator.groups.assignors.range import RangeAssignor
from ottla.coordinator.groups.assignors.spec import Assignment, Assignor, GroupSpec, MemberSpec, TopicSpec
from ottla.coordinator.groups.assignors.uniform import UniformAssignor
from ottla.coordinator.slices import Slices
from ottla.host import HostClock
from ottla.server.node import COLLECTION_THRESHOLDS, run_loop

MEMBERS = 1000
PARTITIONS = 10_000
TOPICS = 10
CHANGES = 10
"""The number of members that join and leave again, one by one."""


@dataclass(slots=True)
class Held:
    """The longest holds so far, in milliseconds."""

    cpu_ms: float = 0.0
    wall_ms: float = 0.0


def topics(count: int) -> dict[bytes, TopicSpec]:
    return {number.to_bytes(16, "big"): TopicSpec(PARTITIONS // count) for number in range(1, count + 1)}


def specs() -> dict[str, GroupSpec]:
    """The groups, by their special property; no member owns anything yet."""
    one, many = topics(1), topics(TOPICS)
    every = frozenset(many)
    names = [f"member-{number:04}" for number in range(MEMBERS)]
    order = list(many)
    return {
        "one topic": GroupSpec({name: MemberSpec(frozenset(one)) for name in names}, one, True),
        "ten topics": GroupSpec({name: MemberSpec(every) for name in names}, many, True),
        "different wishes": GroupSpec(
            {name: MemberSpec(frozenset(order[: 1 + number % TOPICS])) for number, name in enumerate(names)},
            many,
            False,
        ),
    }


def with_owners(spec: GroupSpec, assignment: Assignment, left_out: int) -> GroupSpec:
    """The same group when its members own their assignment, but the last `left_out` have left."""
    kept = list(spec.members)[: len(spec.members) - left_out]
    members = {name: MemberSpec(spec.members[name].topic_ids, assignment[name]) for name in kept}
    return GroupSpec(members, spec.topics, spec.is_homogeneous)


class Probe:
    """Yields to the loop continuously while it runs, and stores the longest wait in `held`."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._task: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        held = self._held
        while True:
            cpu, wall = time.thread_time(), time.perf_counter()
            await asyncio.sleep(0)
            held.cpu_ms = max(held.cpu_ms, (time.thread_time() - cpu) * 1e3)
            held.wall_ms = max(held.wall_ms, (time.perf_counter() - wall) * 1e3)


async def measure(slices: Slices, assignor: Assignor, spec: GroupSpec, held: Held) -> Assignment:
    """Run an assignor on the loop and measure how long it holds it."""
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with Probe(held):
        slices.start(assignor.assign(spec), done.set_result, done.set_exception)
        outcome: Assignment = await done
    return outcome


async def measure_group(members: int, topics: dict[str, int], assignor: str, held: Held) -> None:
    """A group on a coordinator: members join and leave, each followed by a complete new assignment."""
    with TemporaryDirectory(prefix="ottla-bench-hold-") as directory:
        group = GroupOnALoop(Path(directory), topics, assignor)
        epochs = {f"member-{number:04}": 0 for number in range(members)}
        names = list(epochs)
        for name in names[:-CHANGES]:
            group.heartbeat(name, 0, lambda _response: None)
        async with Probe(held):
            for name in names[-CHANGES:]:
                epochs[name] = await group.settle(name, 0)
            for name in names[-CHANGES:-1]:
                await group.settle(name, -1)
                epochs[names[-1]] = await group.settle(names[-1], epochs[names[-1]])
        group.close()


async def measure_all() -> dict[str, float]:
    holds: dict[str, float] = {}
    longest = Held()

    def note(title: str, held: Held) -> None:
        holds[f"{title}, ms"] = held.cpu_ms
        longest.cpu_ms = max(longest.cpu_ms, held.cpu_ms)
        longest.wall_ms = max(longest.wall_ms, held.wall_ms)

    slices = Slices(HostClock())
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    gc.collect()
    gc.freeze()
    for title, spec in specs().items():
        for assignor in (UniformAssignor(), RangeAssignor()):
            held = Held()
            assignment = await measure(slices, assignor, spec, held)
            left = with_owners(spec, assignment, left_out=1)
            assignment = await measure(slices, assignor, left, held)
            await measure(slices, assignor, with_owners(left, assignment, left_out=MEMBERS // 2), held)
            note(f"{assignor.name}, {title}", held)
    for name in (UniformAssignor.name, RangeAssignor.name):
        for count in (1, TOPICS):
            held = Held()
            await measure_group(
                MEMBERS, {f"topic-{number}": PARTITIONS // count for number in range(count)}, name, held
            )
            note(f"{name}, a group with {count} topics", held)
    return {"cpu_ms": longest.cpu_ms, "wall_ms": longest.wall_ms} | holds


if __name__ == "__main__":
    print(json.dumps(run_loop(measure_all())))
