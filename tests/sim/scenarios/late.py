"""Requests that arrive late, or twice: after the client has given up, retried elsewhere, or got another
epoch; and zombies, producers whose id another process has taken over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.testing.world.nemesis import Nemesis
from ottla.testing.world.process import ProcessDied
from ottla.testing.world.request_tap import Arrival
from tests.sim.scenarios.targeted import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)
from tests.sim.scenarios.targets import living_clients
from tests.sim.workload.writers import REFUSED, end_transaction, send, transactional

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedClient
    from tests.sim.workload.story import Story

ADD_OFFSETS_TO_TXN, ALTER_PARTITION, BROKER_HEARTBEAT = 25, 56, 63
VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH = 52, 53, 54

OF_TRANSACTIONS = (
    PRODUCE,
    END_TXN,
    WRITE_TXN_MARKERS,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    TXN_OFFSET_COMMIT,
)
OF_NODES = (FETCH, ALTER_PARTITION, BROKER_HEARTBEAT, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH)

_KEPT_MAX = 8
"""The most requests that one fault delays."""


class _Sink(asyncio.Protocol):
    """Ignores responses."""


async def _deliver(client: SimulatedClient, arrival: Arrival) -> None:
    try:
        transport, _ = await client.network.connect(_Sink, arrival.target, arrival.port)
    except OSError:
        return  # the host is down
    transport.write(arrival.frame)  # type: ignore[attr-defined]
    await asyncio.sleep(1.0)
    transport.close()


async def _late(story: Story, nemesis: Nemesis, api_keys: tuple[int, ...]) -> None:
    rng, world = nemesis.rng, story.world
    kept: list[Arrival] = []
    wanted = int(
        nemesis.least_frequent([f"late request {api_key}" for api_key in api_keys]).rsplit(" ", 1)[1]
    )
    skip = int(rng.random() * 20)

    def on_arrival(arrival: Arrival) -> None:
        nonlocal skip
        if arrival.api_key != wanted or len(kept) >= _KEPT_MAX or arrival.source.startswith("late"):
            return
        skip -= 1
        if skip < 0 and rng.random() < 0.5:
            kept.append(arrival)

    tap = nemesis.tap
    tap.listeners.append(on_arrival)
    try:
        await nemesis.wait_duration()
    finally:
        if on_arrival in tap.listeners:
            tap.listeners.remove(on_arrival)
    if not kept:
        return
    late = world.client(f"late-{len(world.clients)}")
    for arrival in kept:
        await asyncio.sleep(nemesis.between((0.0, 2.0)))
        world.note(late.host, f"sends request {wanted} of {arrival.source} to {arrival.target} again")
        nemesis.count(f"late request {wanted}")
        nemesis.count("late request")
        try:
            await late.spawn(_deliver(late, arrival))
        except ProcessDied:
            return


async def deliver_late(story: Story, nemesis: Nemesis) -> None:
    """Delay requests of producers and of transaction coordinators."""
    await _late(story, nemesis, OF_TRANSACTIONS)


async def deliver_late_between_nodes(story: Story, nemesis: Nemesis) -> None:
    """Delay requests of followers, voters and brokers."""
    await _late(story, nemesis, OF_NODES)


# Zombies


async def start_a_rival(story: Story, nemesis: Nemesis) -> None:
    """Pause a transactional producer, let another one take over its id, and resume it."""
    world, rng = story.world, nemesis.rng
    clients = living_clients(world, "ledger-", "application-")
    if not clients:
        return
    zombie = rng.choice(clients)
    name = zombie.host.rpartition(".")[0]
    world.note(zombie.host, "paused")
    zombie.process.pause()
    rival = world.client(f"{name}.rival-{len(world.clients)}")
    try:
        await asyncio.sleep(nemesis.between((0.0, 5.0)))
        await rival.spawn(_rule(story, rival, name))
        nemesis.count("rival took over")
    except (ProcessDied, *REFUSED) as error:
        story.recorder.record_error(rival.host, error)
    finally:
        if not rival.process.is_dead:
            rival.kill()
        if not zombie.process.is_dead:
            world.note(zombie.host, "resumed")
            zombie.process.resume()


async def _rule(story: Story, client: SimulatedClient, name: str) -> None:
    recorder = story.recorder
    partitions = [one for one in story.partitions if one[0] == "ledger"]
    async with client.producer(**transactional(name)) as producer:
        for _ in range(3):
            number, transaction = recorder.begin(client.host)
            await producer.begin_transaction()
            waits = [
                await send(recorder, producer, client.host, partition, transaction=transaction)
                for partition in partitions
            ]
            await end_transaction(recorder, producer, number, commit=client.random.below(3) > 0)
            await asyncio.gather(*waits)
