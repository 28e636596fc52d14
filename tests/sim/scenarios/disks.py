"""Nodes with several disks: replicas are copied to other nodes and moved between disks, logs are compacted,
and nodes die at each step of that.

Topics with one replica have no other copy: if their only log loses a record, it is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.admin.replicas import Replica
from ottla.client.admin.topics import NewTopic
from ottla.client.values import TopicPartition
from ottla.testing.world import Crashed
from ottla.testing.world.nemesis import Nemesis
from tests.sim.scenarios.tables import Table
from tests.sim.scenarios.targets import partitions_of
from tests.sim.workload.scenario import Part
from tests.sim.workload.writers import REFUSED, REQUEST_TIMEOUT_MS, write

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedClient, SimulatedNode
    from tests.sim.workload.story import Life, Story

LONE, LONE_TABLE = "lone", "lone-table"
STEPS_MAX = 25
"""A node dies within this many disk changes after the first one of the operation."""

_ADMIN = {"request_timeout_ms": REQUEST_TIMEOUT_MS, "default_api_timeout_ms": 20_000}
_CHANGES = ("pwrite", "truncate", "fsync", "create", "rename", "remove", "make_directory", "sync_directory")


class SingleReplica(Part):
    """The topic `lone`, with one replica, written with acks 1 and all, which are equivalent there."""

    def story_topics(self, story: Story) -> list[NewTopic]:
        settings = {"min.insync.replicas": "1", "segment.ms": "2000"}
        return [NewTopic(LONE, 1, 1, configs=settings)]

    def roles(self, story: Story) -> Mapping[str, Life]:
        writing = partial(write, story, story.recorder, partitions=[(LONE, 0)], rate=6.0)
        return {f"lone-writer-{acks}": partial(writing, acks=acks) for acks in (-1, 1)}

    async def judge(self, story: Story, client: SimulatedClient) -> None:
        final = story.recorder.history.final
        for number, log in enumerate(final):
            if log.partition == (LONE, 0):
                final[number] = replace(log, has_one_replica=True)


class SingleReplicaTable(Table):
    """A compacted topic with one replica."""

    topic = LONE_TABLE
    replicas_max = 1


class Copies(Part):
    """A client that moves replicas: to other nodes, and between the disks of a node."""

    def roles(self, story: Story) -> Mapping[str, Life]:
        return {"copier": partial(_copy, story)}


async def _copy(story: Story, client: SimulatedClient) -> None:
    async with client.admin(**_ADMIN) as admin:
        while not story.is_ending:
            await asyncio.sleep(1.0 * client.random.fraction())
            try:
                await (_reassign if client.random.below(2) else _move)(story, client, admin)
            except REFUSED as error:
                story.recorder.record_error(client.host, error)


async def _reassign(story: Story, client: SimulatedClient, admin: Any) -> None:
    """Move the only replica of a partition to another broker."""
    brokers = [node for node in story.world.nodes.values() if node.is_broker and node.is_serving]
    led = [
        (one.topic, one.index)
        for node in brokers
        for one in partitions_of(node)
        if one.is_leader and one.topic in (LONE, LONE_TABLE)
    ]
    if not led:
        return
    topic, index = led[client.random.below(len(led))]
    target = brokers[client.random.below(len(brokers))]
    story.world.note(client.host, f"reassigns {topic}-{index} to {target.id}")
    results = await admin.alter_partition_reassignments({TopicPartition(topic, index): [target.id]})
    results.all()
    story.effects["reassigned"] += 1


async def _move(story: Story, client: SimulatedClient, admin: Any) -> None:
    """Move a replica to another disk of its broker."""
    wants_lone = client.random.below(3) > 0
    hosted = [
        (node, one)
        for node in story.world.nodes.values()
        for one in partitions_of(node)
        if one.log is not None and one.topic.startswith(LONE) >= wants_lone
    ]
    if not hosted:
        return
    node, one = hosted[client.random.below(len(hosted))]
    others = [path for path in node.log_directories if not one.log.directory.startswith(f"{path}/")]
    path = others[client.random.below(len(others))]
    story.world.note(client.host, f"moves {one.topic}-{one.index} of node {node.id} to {path}")
    results = await admin.alter_replica_log_dirs({Replica(one.topic, one.index, node.id): path})
    results.all()
    story.effects["moved between disks"] += 1


# Death at a step


def _is_copy(node: SimulatedNode, operation: str, path: str) -> bool:
    """A log whose only replica is on another node, and soon will be on this one."""
    if f"/{LONE}" not in path:
        return False
    for one in partitions_of(node):
        if f"/{one.topic}-{one.index}/" in path:
            return not one.is_leader and node.id not in one.isr
    return False


def _is_move(node: SimulatedNode, operation: str, path: str) -> bool:
    return f"/{LONE}" in path and "-future" in path


def _is_end_of_move(node: SimulatedNode, operation: str, path: str) -> bool:
    """The copy is renamed to the log's name."""
    return operation == "rename" and f"/{LONE}" in path and path.endswith("-future")


def _is_compaction(node: SimulatedNode, operation: str, path: str) -> bool:
    return path.endswith(".cleaned")


def _is_exchange(node: SimulatedNode, operation: str, path: str) -> bool:
    """Compacted segments replace old ones, in a log without other replicas."""
    return operation == "rename" and path.endswith(".cleaned") and f"/{LONE_TABLE}-" in path


STEPS: dict[str, Callable[[SimulatedNode, str, str], bool]] = {
    "died in a copy": _is_copy,
    "died in a move": _is_move,
    "died at the end of a move": _is_end_of_move,
    "died in a compaction": _is_compaction,
    "died in an exchange of segments": _is_exchange,
}


EFFECTS = tuple(effect for effect in STEPS if effect != "died at the end of a move")
"""The steps of a story; the end of a move is part of the move."""


async def die_at_a_step(story: Story, nemesis: Nemesis, effects: Sequence[str] = EFFECTS) -> None:
    """The first node that copies, moves or compacts dies within a few disk changes."""
    rng, world = nemesis.rng, story.world
    effect = nemesis.least_frequent(effects)
    is_step = STEPS[effect]
    loses_power = rng.random() < 0.5
    left = 1 + int(STEPS_MAX * rng.random() ** 2)
    struck: list[SimulatedNode] = []

    def on_call(node: SimulatedNode, operation: str, path: str) -> None:
        nonlocal left
        if operation not in _CHANGES:
            return
        if not struck:
            if not node.is_serving or not is_step(node, operation, path) or nemesis.pick_victim(node) is None:
                return
            struck.append(node)
        if struck[0] is not node or left <= 0:
            return
        left -= 1
        if left == 0:
            nemesis.count(effect)
            world.note(node.host, f"{effect}, at {operation} {path}")
            (node.lose_power if loses_power else node.crash)()
            raise Crashed

    watched = [node.disk for node in world.nodes.values() if node.disk is not None]
    for node in world.nodes.values():
        if node.disk is not None:
            node.disk.slow_call = partial(on_call, node)
    try:
        await nemesis.wait_duration()
        for disk in watched:
            disk.slow_call = None
        for node in struck:
            await nemesis.start_until_serving(node)
    finally:
        for disk in watched:
            disk.slow_call = None
        for node in struck:
            nemesis.release(node)
