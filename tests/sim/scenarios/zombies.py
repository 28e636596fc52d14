"""Applications that their group removes during a transaction, and that continue anyway: their offsets must be
refused, or records are processed twice.

A member is removed in one of four ways: its user does not poll for too long (`poll interval`), its
coordinator receives nothing from it (`session`), its process stalls (`stalled`), or another process takes
over its static membership (`replaced`). The third member of each group is healthy and takes over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.admin.topics import NewTopic
from ottla.client.values import TopicPartition
from ottla.testing.world.process import ProcessDied
from ottla.wire.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMemberId,
)
from tests.sim.checker import Committed
from tests.sim.workload.readers import isolation, read_process_write
from tests.sim.workload.scenario import Part
from tests.sim.workload.writers import REFUSED, write

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedClient
    from tests.sim.workload.story import Life, Story

WAYS = ("poll interval", "session", "stalled", "replaced")
PROTOCOLS = ("classic", "consumer")
SETTINGS = {
    "group.min.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
EFFECTS = tuple(f"zombie fenced: {way}, {protocol}" for way in WAYS for protocol in PROTOCOLS)

_ASLEEP_S = (4.5, 7.0)
_POLL_INTERVAL_MS = 2_000
_FENCED = (FencedInstanceId, FencedMemberEpoch, IllegalGeneration, StaleMemberEpoch, UnknownMemberId)


def _source(protocol: str) -> str:
    return f"errands-{protocol}"


def _group(protocol: str) -> str:
    return f"zombies-{protocol}"


class Zombies(Part):
    """A group for each protocol, with its own topic."""

    def story_topics(self, story: Story) -> list[NewTopic]:
        brokers = sum(node.is_broker for node in story.world.nodes.values())
        names = [_source(protocol) for protocol in PROTOCOLS] + ["errands-done"]
        safe = {"min.insync.replicas": "2"}
        return [NewTopic(name, 2, min(brokers, 3), configs=safe) for name in names]

    def roles(self, story: Story) -> Mapping[str, Life]:
        sources = [one for one in story.partitions if one[0] in map(_source, PROTOCOLS)]
        roles: dict[str, Life] = {
            "errands": partial(write, story, story.recorder, partitions=sources, rate=10.0)
        }
        for protocol in PROTOCOLS:
            for number in range(3):
                name = f"zombie-{protocol}-{number}"
                roles[name] = partial(_live, story, protocol=protocol, name=name, number=number)
        return roles

    async def judge(self, story: Story, client: SimulatedClient) -> None:
        """Read the groups' committed offsets, which the checker needs."""
        for protocol in PROTOCOLS:
            began, group = story.world.now, _group(protocol)
            named = [TopicPartition(*one) for one in story.partitions if one[0] == _source(protocol)]
            settings = {**isolation(committed=True), "group_id": group, "enable_auto_commit": False}
            async with client.consumer(**settings) as consumer:
                found = await consumer.committed(named)
            story.recorder.history.committed += [
                Committed(
                    group=group,
                    partition=(one.topic, one.partition),
                    offset=None if place is None else place.offset,
                    began=began,
                    ended=story.world.now,
                )
                for one, place in found.items()
            ]


async def _live(story: Story, client: SimulatedClient, *, protocol: str, name: str, number: int) -> None:
    life = int(client.host.rpartition(".")[2])
    way = WAYS[(story.world.seed + life + 2 * number) % len(WAYS)] if number < 2 else None
    zombie = None if way is None else Zombie(story, client, protocol, name, way)
    instance_id = name if way == "replaced" else None
    # The consumer protocol replaces a static member only after it has left.
    is_late = way == "poll interval" or (way == "replaced" and protocol == "consumer")
    poll_interval_ms = _POLL_INTERVAL_MS if is_late else 20_000
    await _apply(story, client, protocol, name, instance_id, poll_interval_ms, zombie)


async def _apply(
    story: Story,
    client: SimulatedClient,
    protocol: str,
    name: str,
    instance_id: str | None,
    poll_interval_ms: int,
    zombie: Zombie | None,
) -> None:
    settings: dict[str, Any] = {"max_poll_interval_ms": poll_interval_ms, "group_instance_id": instance_id}
    if protocol == "classic":
        settings |= {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 500}
    await read_process_write(
        story,
        story.recorder,
        client,
        _source(protocol),
        [one for one in story.partitions if one[0] == "errands-done"],
        _group(protocol),
        protocol,
        name,
        settings=settings,
        interruption=zombie,
    )


class Zombie:
    """Removes a member from its group, once in its life."""

    def __init__(self, story: Story, client: SimulatedClient, protocol: str, name: str, way: str) -> None:
        self._story = story
        self._client = client
        self._protocol = protocol
        self._name = name
        self._way = way

    async def interrupt(self) -> None:
        first, last = _ASLEEP_S
        seconds = first + (last - first) * self._client.random.fraction()
        world = self._story.world
        world.note(self._client.host, f"becomes a zombie: {self._way}")
        match self._way:
            case "poll interval":
                await asyncio.sleep(seconds)
            case "session":
                await self._lose_contact(seconds)
            case "stalled":
                self._client.process.stall(seconds)
                await asyncio.sleep(0)
            case "replaced":
                await self._replace(seconds)
        world.note(self._client.host, "goes on with its transaction")

    async def _lose_contact(self, seconds: float) -> None:
        world, own = self._story.world, self._client.host
        hosts = [node.host for node in world.nodes.values()]
        world.isolate(own, hosts)
        await asyncio.sleep(seconds)
        for host in hosts:
            world.wires.heal(host, own)
            world.wires.heal(own, host)

    async def _replace(self, seconds: float) -> None:
        """Another process with the same static id does the same work for a while."""
        if self._protocol == "consumer":
            await asyncio.sleep(1.5 * _POLL_INTERVAL_MS / 1000)
        other = self._story.world.client(f"{self._client.host}-heir")
        working = _apply(self._story, other, self._protocol, other.host, self._name, 20_000, None)
        living = other.spawn(working)
        await asyncio.wait([living], timeout=seconds)
        if not living.done():
            other.kill()
        try:
            await living
        except (ProcessDied, *REFUSED) as error:
            self._story.recorder.record_error(other.host, error)

    def refused(self, error: Exception) -> None:
        if isinstance(error, _FENCED):
            self._story.effects[f"zombie fenced: {self._way}, {self._protocol}"] += 1
