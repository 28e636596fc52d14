"""Processes that stall or have slow disks: no leader or session ends because of that."""

from __future__ import annotations

import asyncio

import pytest

from ottla.server.metadata.quorum import Quorum
from ottla.testing.world import SimulatedNode, World


def _leader(nodes: list[SimulatedNode]) -> SimulatedNode:
    return next(node for node in nodes if node.active_epoch is not None)


@pytest.mark.parametrize(("who", "seconds"), [("followers", 2.2), ("everybody", 2.2), ("everybody", 10.0)])
def test_a_quorum_keeps_its_leader_during_stalls(who: str, seconds: float) -> None:
    """Their timers fire late, while the leader's responses wait in their sockets."""
    with World(1) as world:
        nodes = world.add_nodes(3)

        async def story() -> None:
            await world.start()
            await asyncio.sleep(5)
            leader = _leader(nodes)
            epoch = leader.active_epoch
            paused = [node for node in nodes if node is not leader or who == "everybody"]
            for node in paused:
                node.pause()
            await asyncio.sleep(seconds)
            for node in paused:
                node.resume()
            await asyncio.sleep(8)
            assert leader.active_epoch == epoch

        world.run(story(), limit_s=300)
        assert world.unhandled == []


def test_a_quorum_elects_when_its_leader_stalls() -> None:
    with World(1) as world:
        nodes = world.add_nodes(3)

        async def story() -> None:
            await world.start()
            await asyncio.sleep(5)
            leader = _leader(nodes)
            epoch = leader.active_epoch
            assert epoch is not None
            leader.pause()
            others = [node for node in nodes if node is not leader]
            while not any((node.active_epoch or 0) > epoch for node in others):
                await asyncio.sleep(0.1)
            leader.resume()

        world.run(story(), limit_s=300)
        assert world.unhandled == []


def test_slow_flushes_of_followers_keep_the_leader() -> None:
    with World(1) as world:
        nodes = world.add_nodes(3)

        async def story() -> None:
            await world.start()
            await asyncio.sleep(5)
            leader = _leader(nodes)
            epoch = leader.active_epoch
            for node in nodes:
                if node is not leader:
                    assert node.disk is not None
                    node.disk.delay_s = (1.1, 1.1)  # twice in each flush
            await asyncio.sleep(30)
            assert leader.active_epoch == epoch

        world.run(story(), limit_s=300)
        assert world.unhandled == []


@pytest.mark.parametrize(("late_s", "is_fenced"), [(9.0, False), (0.0, True)])
def test_a_stalled_controller_reads_heartbeats_before_it_fences(late_s: float, is_fenced: bool) -> None:
    with World(1) as world:
        nodes = world.add_nodes(3, controllers=1, combined=False)
        controller = next(node for node in nodes if not node.is_broker)

        async def look_at_sessions(quorum: Quorum) -> None:
            """As after a stall: no heartbeat for ten seconds, and no timer ran."""
            assert quorum.active.state is not None
            contacts = quorum.active.state.heartbeats.contacts
            now = quorum._clock.monotonic()
            contacts.update(dict.fromkeys(contacts, int((now - 10) * 1000)))
            quorum.controller_tasks.sessions_checked_at = now - 9 / 8 - late_s
            await quorum.controller_tasks.fence_stale_brokers()

        async def story() -> None:
            await world.start()
            await asyncio.sleep(5)
            assert controller.node is not None
            assert controller.process is not None
            quorum = controller.node._quorum
            assert isinstance(quorum, Quorum)
            await controller.process.spawn(look_at_sessions(quorum))
            assert any(one.fenced for one in quorum.image.brokers.values()) == is_fenced

        world.run(story(), limit_s=300)
        assert world.unhandled == []
