"""Nodes whose event loop stalls for a while: all their timers fire late, and requests wait in their sockets.

Such a node must read what it has received before it acts on timeouts: nobody may be elected while the leader
of the quorum is alive and responds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.testing.world.nemesis import Nemesis
from tests.sim.scenarios.targets import active_controller

if TYPE_CHECKING:
    from tests.sim.workload.story import Story

STALL_S = (1.0, 2.4)
"""Longer than a voter waits for its leader (2 s), shorter than a leader waits for a majority (3 s, of which a
follower's last fetch may have taken 0.5) and than a broker's session (4 s, with a heartbeat per second)."""

RECOVERY_S = 3.0
"""The pause after a stall, so that two stalls do not act as one."""


async def stall_followers(story: Story, nemesis: Nemesis) -> None:
    """Stall one node, or all, but never the leader of the quorum, whose requests keep arriving."""
    world, rng = story.world, nemesis.rng
    leader = active_controller(world)
    others = [node for node in world.nodes.values() if node is not leader and node.is_serving]
    if leader is None or not others:
        return
    chosen = others if rng.random() < 0.7 else [rng.choice(others)]
    struck = [node for node in chosen if nemesis.pick_victim(node) is not None]
    try:
        if struck and len(struck) == len(chosen):
            seconds = STALL_S[0] + (STALL_S[1] - STALL_S[0]) * rng.random() ** 0.2  # most are long
            for node in struck:
                assert node.process is not None
                world.note(node.host, f"stalls for {seconds:.1f} s")
                node.process.stall(seconds)
            nemesis.count("followers stalled")
            await asyncio.sleep(STALL_S[1] + RECOVERY_S)
    finally:
        for node in struck:
            nemesis.release(node)
