"""The connections of a controller to the others: follows their log, sends requests and votes, and hands over
the leadership.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.config import BrokerConfig
from ottla.ports import Clock, Network, Random
from ottla.raft.effects import Ask
from ottla.raft.election_state import NOBODY
from ottla.server.metadata.log_follower import LogFollower
from ottla.server.metadata.metadata_replica import MetadataReplica
from ottla.server.peers.controller_channel import RemoteController
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.server.metadata.quorum_peers import QuorumPeers

logger = logging.getLogger("ottla.server.metadata.other_controllers")

HAND_OVER_SECONDS_MAX = 5.0


class OtherControllers:
    """See the module."""

    def __init__(
        self,
        replica: MetadataReplica,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        config: BrokerConfig,
        cluster_id: str,
        is_here: Callable[[], bool],
    ) -> None:
        """`is_here`: whether the active controller is on this node."""
        self._driver = replica.driver
        self._network = network
        self._clock = clock
        self._config = config
        self._cluster_id = cluster_id
        self.follower = LogFollower(
            network=network,
            random=random,
            config=config,
            driver=replica.driver,
            cluster_id=cluster_id,
            image_offset=lambda: replica.metadata.image.offset,
        )
        self._leader = RemoteController(
            network,
            clock,
            self.follower.leader_address,
            node_id=config.node_id,
            socket_timeout_ms=config.int_of("controller.socket.timeout.ms"),
            is_here=is_here,
        )
        self._peers: QuorumPeers | None = None
        self._driver.on_ask = self._ask_peer
        self._driver.on_leader = self._on_leader

    def _ask_peer(self, ask: Ask) -> None:
        if self._peers is None:
            from ottla.server.metadata.quorum_peers import QuorumPeers  # which a node alone never needs

            follower = self.follower
            self._peers = QuorumPeers(
                self._network,
                self._config,
                self._driver,
                self._cluster_id,
                follower.address_of,
                follower.learn,
            )
        self._peers.ask(ask)

    def _on_leader(self) -> None:
        self.follower.on_leader()
        self._leader.on_leader()

    @property
    def leader_id(self) -> int:
        return self.follower.leader_id

    def leads_here(self) -> None:
        """The controller of this node became active."""
        self.follower.note_caught_up()
        self._leader.on_leader()

    async def ask(self, request: Message, *, timeout_ms: int) -> Any:
        """The response of the active controller. ControllerIsHere: it is on this node."""
        return await self._leader.ask(request, timeout_ms=timeout_ms)

    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        return await self._leader.forward(frame, principal, client_host)

    async def hand_over(self) -> None:
        """Let another controller become leader, while this node can still vote for it."""
        driver = self._driver
        if not driver.is_leader or driver.replica.is_only_voter or driver.failure.done():
            return
        if self._peers is not None:
            self._peers.unreachable.clear()  # they may have come since
        driver.resign()
        deadline = self._clock.monotonic() + HAND_OVER_SECONDS_MAX
        while self.leader_id == NOBODY and self._clock.monotonic() < deadline:
            if not self._can_lead():
                logger.info(
                    "Resigning without a handover: too few controllers are running to elect a successor"
                )
                return
            driver.resign()  # again, should nobody else want to
            await asyncio.sleep(0.01)

    def _can_lead(self) -> bool:
        """Whether another controller could get a majority, with this node's vote."""
        if self._peers is None:
            return True
        voters, unreachable = self._driver.replica.voters.last, self._peers.unreachable
        return sum(voter.key.id not in unreachable for voter in voters) >= voters.majority

    async def close(self) -> None:
        if self._peers is not None:
            await self._peers.close()
        self._leader.close()
        self.follower.close()
