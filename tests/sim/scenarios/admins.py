"""Clients that change the cluster during faults: voters, replicas, leaders, settings; and a member with the
static id of another one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.nodes import Endpoint
from ottla.client.admin.replicas import ElectionType
from ottla.client.values import TopicPartition
from ottla.testing.world.nodes import CONTROLLER_PORT
from tests.sim.workload.readers import POLL_S, member
from tests.sim.workload.scenario import Part
from tests.sim.workload.writers import REFUSED, REQUEST_TIMEOUT_MS

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedClient
    from tests.sim.workload.story import Life, Story

_ADMIN = {"request_timeout_ms": REQUEST_TIMEOUT_MS, "default_api_timeout_ms": 20_000}


class Voters(Part):
    """A client that adds and removes voters; at least three remain."""

    def roles(self, story: Story) -> Mapping[str, Life]:
        return {"voter-admin": partial(_change_voters, story)}


async def _change_voters(story: Story, client: SimulatedClient) -> None:
    async with client.admin(**_ADMIN) as admin:
        while not story.is_ending:
            await asyncio.sleep(3.0 * client.random.fraction())
            try:
                await _change_a_voter(story, client, admin)
            except REFUSED as error:
                story.recorder.record_error(client.host, error)


async def _change_a_voter(story: Story, client: SimulatedClient, admin: Any) -> None:
    quorum = await admin.describe_metadata_quorum()
    voters, effects = list(quorum.voters), story.effects
    others = [
        one
        for one in quorum.observers
        if one.id in story.world.nodes and story.world.nodes[one.id].config.is_controller
    ]
    if (len(voters) > 3 and client.random.below(2)) or not others:
        if len(voters) > 3:
            gone = voters[client.random.below(len(voters))]
            story.world.note(client.host, f"removes voter {gone.id}")
            await admin.remove_raft_voter(gone.id, gone.directory_id)
            effects["voter removed"] += 1
    else:
        new = others[client.random.below(len(others))]
        story.world.note(client.host, f"adds voter {new.id}")
        endpoint = Endpoint("CONTROLLER", story.world.nodes[new.id].host, CONTROLLER_PORT)
        await admin.add_raft_voter(new.id, new.directory_id, [endpoint])
        effects["voter added"] += 1


class Moves(Part):
    """A client that reassigns partitions, elects preferred leaders and changes settings."""

    def roles(self, story: Story) -> Mapping[str, Life]:
        return {"mover": partial(_move, story)}


async def _move(story: Story, client: SimulatedClient) -> None:
    async with client.admin(**_ADMIN) as admin:
        while not story.is_ending:
            await asyncio.sleep(4.0 * client.random.fraction())
            try:
                await _move_something(story, client, admin)
            except REFUSED as error:
                story.recorder.record_error(client.host, error)


async def _move_something(story: Story, client: SimulatedClient, admin: Any) -> None:
    rng, world = client.random, story.world
    topic, index = story.partitions[rng.below(len(story.partitions))]
    partition = TopicPartition(topic, index)
    what = rng.below(5)
    if what < 3:
        brokers = [node.id for node in world.nodes.values() if node.is_broker]
        start, count = rng.below(len(brokers)), min(3, len(brokers))
        order = brokers[start:] + brokers[:start]
        replicas = order[:count] if rng.below(2) else order[:count][::-1]
        world.note(client.host, f"moves {topic}-{index} to {replicas}")
        results = await admin.alter_partition_reassignments({partition: replicas})
        results.all()
        story.effects["reassigned"] += 1
    elif what == 3:
        await admin.elect_leaders(ElectionType.PREFERRED, [partition])
        story.effects["elected"] += 1
    else:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        retention = str(3_600_000 + rng.below(1_000_000))
        results = await admin.incremental_alter_configs({resource: {"retention.ms": retention}})
        results.all()
        story.effects["settings changed"] += 1


class Twins(Part):
    """Two members with the same static id: each fences the other in turn."""

    def roles(self, story: Story) -> Mapping[str, Life]:
        protocol = story.world.rng.choice(("classic", "consumer"))
        living = partial(_live_as_twin, story, protocol=protocol)
        return {f"twin-{number}": living for number in (1, 2)} | {
            "single": partial(_live_as_twin, story, protocol=protocol, instance="other")
        }


async def _live_as_twin(story: Story, client: SimulatedClient, protocol: str, instance: str = "same") -> None:
    settings = {**member("twins", protocol, committed=True), "group_instance_id": instance}
    async with client.consumer(**settings) as consumer:
        await consumer.subscribe([story.partitions[0][0]])
        until = story.world.now + 3.0 + 10.0 * client.random.fraction()
        while not story.is_ending and story.world.now < until:
            await consumer.poll(POLL_S)  # raises in the fenced member
            if consumer.assignment:
                story.effects["static member owned"] += 1
