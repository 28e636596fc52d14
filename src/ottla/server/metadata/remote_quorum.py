"""A broker's view of controllers on other nodes: it follows their metadata log and brings them its requests.

The log is fetched as an observer fetches it, kept on disk, and replayed as far as it is committed, so that a
restart goes on where the last run ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.controller.result import Result
from ottla.controller.state import ControllerState
from ottla.ports import Clock, Disk, Network, Random
from ottla.server.metadata.committed_metadata import CommittedMetadata
from ottla.server.metadata.log_follower import LogFollower
from ottla.server.peers.controller_channel import RemoteController
from ottla.wire.errors import RequestTimedOut
from ottla.wire.message import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

CLEAN_INTERVAL_S = 60.0

logger = logging.getLogger("ottla.server.metadata.remote_quorum")

_T = TypeVar("_T")


class RemoteQuorum(CommittedMetadata):
    """The quorum as a broker sees it that is no controller."""

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
    ) -> None:
        super().__init__(
            disk=disk,
            clock=clock,
            random=random,
            config=config,
            cluster_id=cluster_id,
            directory_id=directory_id,
            endpoints=(),
        )
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
        self._tasks: list[asyncio.Task[None]] = []

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

    def learn_address(self, node_id: int, host: str, port: int) -> None:
        self._follower.learn(node_id, (host, port))

    # Life

    async def open(self) -> None:
        await self.driver.start()

    async def join(self) -> None:
        """Follow the leader; back once all that was committed when it was found has been replayed."""
        self._tasks = [asyncio.ensure_future(self._follower.run()), asyncio.ensure_future(self._clean())]
        await asyncio.wait([self._follower.caught_up, self.failure], return_when=asyncio.FIRST_COMPLETED)
        if self.failure.done():
            self.failure.result()

    async def leave(self) -> None:
        """Nothing is led here."""

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._controller.close()
        self._follower.close()
        await self._settle_snapshot()
        await self.driver.stop()

    def lead(self, epoch: int) -> None:
        raise AssertionError("an observer is never elected")

    def resign(self, epoch: int) -> None:
        raise AssertionError("an observer never leads")

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_INTERVAL_S)
            try:
                await self.driver.clean()
            except OSError as error:
                logger.error("Failed to delete old metadata, will retry: %s", error)
            except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                self.failures.note("deletion of old metadata", "", error)

    # Requests to the controller

    async def submit(
        self, decision: Callable[[ControllerState], Result[_T]], *, timeout_ms: int | None = None
    ) -> _T:
        """Nothing is decided here. A handler gets here when its request could not be forwarded in time."""
        raise RequestTimedOut("The active controller did not answer in time.")

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        raise RequestTimedOut("The active controller did not answer in time.")

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        return await self._controller.ask(request, timeout_ms=timeout_ms)

    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        return await self._controller.forward(frame, principal, client_host)
