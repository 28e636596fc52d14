"""Changes of the voters of a dynamic quorum by its leader: one at a time, until it is committed.

`raft/voter_changes.py` decides what may change. This module does the rest: it asks a new voter for its
supported levels of kraft.version, appends the record, and waits for its commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ottla.ports import Clock, Network
from ottla.raft.driver import Driver
from ottla.raft.messages import VoterChangeRefused
from ottla.raft.replica import NotLeader
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.server.peers.channel import Channel
from ottla.version import __version__
from ottla.wire.errors import ErrorCode, KafkaError, MalformedMessage
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest

KRAFT_VERSION = "kraft.version"


class VoterChanges:
    """Adds, removes and updates voters. Methods raise VoterChangeRefused if that is not possible."""

    def __init__(
        self,
        driver: Driver[Message],
        clock: Clock,
        network: Network,
        listener: str,
        *,
        request_timeout_ms: int,
        on_append: Callable[[], None],
    ) -> None:
        """`listener`: the controller listener. `on_append` is called when the log has grown."""
        self._driver = driver
        self._clock = clock
        self._network = network
        self.listener = listener
        self._request_timeout_ms = request_timeout_ms
        self._on_append = on_append
        self._is_pending = False

    async def add(self, voter: Voter, *, wants_commit: bool, timeout_ms: int) -> None:
        """Make an observer a voter; return once that is committed, or appended if that is enough."""
        replica = self._driver.replica
        async with self._turn():
            self._check_leader()
            replica.check_new_voter(voter.key)
            levels = await self._supported_levels(voter)
            self._check_leader()
            voters = replica.with_voter(Voter(voter.key, voter.endpoints, levels), self._now_ms())
            offset = self._append(voters)
            if wants_commit:
                await self._committed(offset, max(timeout_ms, self._request_timeout_ms))

    async def remove(self, key: ReplicaKey) -> None:
        """Remove a voter; return once that is committed."""
        async with self._turn():
            self._check_leader()
            offset = self._append(self._driver.replica.without_voter(key))
            await self._committed(offset, self._request_timeout_ms)

    def update(self, voter: Voter) -> None:
        """Store a voter's endpoints and supported levels."""
        if self._is_pending:
            raise _busy()
        self._check_leader()
        voters = self._driver.replica.with_updated_voter(voter, self._now_ms())
        if voters is not None:
            self._append(voters)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._is_pending:
            raise _busy()
        self._is_pending = True
        try:
            yield
        except NotLeader:
            raise VoterChangeRefused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "This controller is no longer the quorum leader."
            ) from None
        finally:
            self._is_pending = False

    def _check_leader(self) -> None:
        if not self._driver.is_leader:
            raise VoterChangeRefused(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "This controller is not the quorum leader."
            )

    def _append(self, voters: VoterSet) -> int:
        offset = self._driver.append_voters(voters)
        self._on_append()
        return offset

    async def _committed(self, offset: int, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._driver.committed(offset)
        except TimeoutError:
            raise VoterChangeRefused(
                ErrorCode.REQUEST_TIMED_OUT, "The change was appended but not committed in time."
            ) from None

    async def _supported_levels(self, voter: Voter) -> tuple[int, int]:
        """The levels of kraft.version that a node supports, asked from it."""
        endpoint = next((one for one in voter.endpoints if one.name == self.listener), None)
        if endpoint is None:
            raise VoterChangeRefused(
                ErrorCode.INVALID_REQUEST,
                f"Add voter request didn't include the endpoint for the default listener {self.listener}",
            )
        client_id = f"raft-client-{self._driver.replica.local.key.id}"
        try:
            async with asyncio.timeout(self._request_timeout_ms / 1000):
                channel = await Channel.open(self._network, endpoint.host, endpoint.port, client_id=client_id)
                try:
                    request = ApiVersionsRequest(
                        client_software_name="ottla", client_software_version=__version__
                    )
                    response = await channel.ask(request)  # from version 4 on a level of 0 is told
                finally:
                    channel.close()
        except (OSError, TimeoutError, KafkaError, MalformedMessage) as error:
            raise VoterChangeRefused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Node {voter.key.id} is unreachable at {endpoint.host}:{endpoint.port}: {error}",
            ) from error
        for feature in response.supported_features:
            if feature.name == KRAFT_VERSION:
                return feature.min_version, feature.max_version
        return 0, 0

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _busy() -> VoterChangeRefused:
    return VoterChangeRefused(
        ErrorCode.REQUEST_TIMED_OUT,
        "Request timed out waiting for leader to handle previous voter change request",
    )
