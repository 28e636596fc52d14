"""The quorum for a broker without a controller: follows the metadata log and sends requests to the
controller.

The log is fetched as an observer, stored on disk, and replayed as far as it is committed, so that a restart
continues where the last run ended.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.controller.result import Decision
from ottla.failures import Failures
from ottla.ports import Clock, Disk, Network, Random
from ottla.server.metadata.background_tasks import BackgroundTasks
from ottla.server.metadata.committed_metadata import Subscriber
from ottla.server.metadata.log_follower import LogFollower
from ottla.server.metadata.metadata_quorum import MetadataQuorum
from ottla.server.metadata.metadata_replica import MetadataReplica
from ottla.server.peers.controller_channel import RemoteController
from ottla.wire.errors import RequestTimedOut
from ottla.wire.message import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

CLEAN_INTERVAL_S = 60.0

_T = TypeVar("_T")


class RemoteQuorum(MetadataQuorum):
    """The quorum on a broker without a controller."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        network: Network,
        config: BrokerConfig,
        cluster_id: str,
        directory_id: bytes,
        failures: Failures | None = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica = MetadataReplica(
            self,
            disk=disk,
            clock=clock,
            random=random,
            config=config,
            directory_id=directory_id,
            endpoints=(),
        )
        self.driver = self.replica.driver
        self.image, self.progress = self.replica.metadata.image, self.replica.progress
        self.failure = self.driver.failure
        self.voter_changes = None
        self._tasks = BackgroundTasks(failures or Failures())
        self._follower = LogFollower(
            network=network,
            random=random,
            config=config,
            driver=self.driver,
            cluster_id=cluster_id,
            image_offset=lambda: self.image.offset,
        )
        self._controller = RemoteController(
            network,
            clock,
            self._follower.leader_address,
            node_id=config.node_id,
            socket_timeout_ms=config.int_of("controller.socket.timeout.ms"),
        )
        self.driver.on_leader = self._on_leader

    def _on_leader(self) -> None:
        self._follower.on_leader()
        self._controller.on_leader()

    # Facts

    @property
    def is_active(self) -> bool:
        return False

    @property
    def is_remote(self) -> bool:
        return True

    @property
    def leader_id(self) -> int:
        return self._follower.leader_id

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def kraft_version(self) -> int:
        return self.replica.kraft_version

    @property
    def finalized_features(self) -> dict[str, int]:
        return self.replica.finalized_features

    def subscribe(self, subscriber: Subscriber) -> None:
        self.replica.metadata.subscribe(subscriber)

    def learn_address(self, node_id: int, host: str, port: int) -> None:
        self._follower.learn(node_id, (host, port))

    async def snapshot_now(self) -> None:
        await self.replica.snapshot_now()

    # Life

    async def open(self) -> None:
        await self.driver.start()

    async def join(self) -> None:
        """Follow the leader; return once everything committed when it was found has been replayed."""
        self._tasks.start(self._follower.run())
        self._tasks.every(CLEAN_INTERVAL_S, "deletion of old metadata", self.driver.clean)
        await asyncio.wait([self._follower.caught_up, self.failure], return_when=asyncio.FIRST_COMPLETED)
        if self.failure.done():
            self.failure.result()

    async def leave(self) -> None:
        """This node never leads."""

    async def stop(self) -> None:
        await self._tasks.stop()
        self._controller.close()
        self._follower.close()
        await self.replica.stop()

    # Requests to the controller

    async def submit(self, decision: Decision[_T], *, timeout_ms: int | None = None) -> _T:
        """Raises: nothing is decided here. A handler gets here if forwarding its request timed out."""
        raise RequestTimedOut("The active controller did not answer in time.")

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        raise RequestTimedOut("The active controller did not answer in time.")

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        return await self._controller.ask(request, timeout_ms=timeout_ms)

    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        return await self._controller.forward(frame, principal, client_host)

    # Leadership of the replica

    def committed(self, offset: int) -> None:
        """Nothing waits here for a commit."""

    def lead(self, epoch: int) -> None:
        raise AssertionError("an observer is never elected")

    def resign(self, epoch: int) -> None:
        raise AssertionError("an observer never leads")
