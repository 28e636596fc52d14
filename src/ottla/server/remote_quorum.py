"""A broker's view of controllers on other nodes: it follows their metadata log and brings them its requests.

The log is fetched as an observer fetches it, kept on disk, and replayed as far as it is committed, so that a
restart goes on where the last run ended. Rule: nothing but the leader's answers changes the log, and every
failure to reach the leader is only a reason to try again, for as long as the node runs. What would make the
log wrong (a full disk, a leader that lost committed records) is fatal.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.controller.result import Result
from ottla.controller.state import ControllerState
from ottla.ports import Clock, Disk, Network, Random
from ottla.raft.election import NOBODY
from ottla.raft.journal import TOPIC, EpochEnd
from ottla.raft.roles import Follower
from ottla.raft.snapshots import SnapshotDamaged, SnapshotId
from ottla.server.channel import Channel
from ottla.server.committed import CommittedMetadata
from ottla.server.controller_link import Address, ControllerLink
from ottla.wire import codec, uuid
from ottla.wire.errors import ErrorCode, KafkaError, MalformedMessage, RequestTimedOut, for_code
from ottla.wire.message import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.messages.protocol_data import DefaultPrincipalData

FETCH_KEY = 1
FETCH_WAIT_MS = 500
FORWARD_TIMEOUT_MS = 60_000
LINK_RETRY_SECONDS = 0.05
CLEAN_INTERVAL_S = 60.0
BACKOFF_SECONDS_MAX = 0.25

logger = logging.getLogger("ottla.server.remote_quorum")

_T = TypeVar("_T")


class Unreachable(Exception):
    """The leader of the quorum did not answer, or not usefully. The message says who and why."""


class RemoteQuorum(CommittedMetadata):
    """The quorum as a broker sees it that is no controller."""

    is_remote = True

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
        self._network = network
        self._directory_id = directory_id
        self._addresses: dict[int, Address] = dict(config.quorum_voters)
        self._bootstrap = list(config.quorum_bootstrap_servers) or list(config.quorum_voters.values())
        self._channel: Channel | None = None
        self._tried = random.below(len(self._bootstrap))
        self._failures = 0
        self._catch_up_goal = -1
        self._caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []
        self._requests = self._link("requests")
        self._forwarding = self._link("forwarding")

    def _link(self, purpose: str) -> ControllerLink:
        config = self._config
        return ControllerLink(
            self._network,
            self._clock,
            self._leader_address,
            client_id=f"broker-{config.node_id}-{purpose}",
            retry_seconds=LINK_RETRY_SECONDS,
            socket_timeout_ms=config.int_of("controller.socket.timeout.ms"),
        )

    # Facts

    @property
    def is_active(self) -> bool:
        return False

    @property
    def leader_id(self) -> int:
        role = self.driver.replica.role
        return role.leader_id if isinstance(role, Follower) else NOBODY

    def _leader_address(self) -> Address | None:
        """Where the leader's controller listener is, as its answers, the settings or the log say."""
        leader_id = self.leader_id
        known = self._addresses.get(leader_id)
        if known is not None:
            return known
        voter = self.driver.replica.voters.last.get(leader_id)
        names = self._config.controller_listener_names
        if voter is not None:
            for endpoint in voter.endpoints:
                if not names or endpoint.name == names[0]:
                    return endpoint.host, endpoint.port
        return None

    # Life

    async def start(self) -> None:
        """Follow the leader; back once all that was committed when it was found has been replayed."""
        await self.driver.start()
        self._tasks = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._clean())]
        await asyncio.wait([self._caught_up, self.failure], return_when=asyncio.FIRST_COMPLETED)
        if self.failure.done():
            self.failure.result()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        self._requests.close()
        self._forwarding.close()
        self._close_channel()
        await self._settle_snapshot()
        await self.driver.stop()

    def lead(self, epoch: int) -> None:
        raise AssertionError("an observer is never elected")

    async def _clean(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_INTERVAL_S)
            try:
                await self.driver.clean()
            except OSError as error:
                logger.error("Old metadata was not deleted; it is tried again: %s", error)

    # Requests to the controller

    async def submit(
        self, decision: Callable[[ControllerState], Result[_T]], *, timeout_ms: int | None = None
    ) -> _T:
        """Nothing is decided here. A handler gets here when its request could not be forwarded in time."""
        raise RequestTimedOut("The active controller did not answer in time.")

    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        raise RequestTimedOut("The active controller did not answer in time.")

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        return await self._requests.ask(request, timeout_ms=timeout_ms or FORWARD_TIMEOUT_MS)

    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        """Have the controller answer a client's request; the frame of its response, without its size."""
        request = EnvelopeRequest(
            request_data=frame,
            request_principal=_principal_bytes(principal),
            client_host_address=_host_bytes(client_host),
        )
        response: EnvelopeResponse = await self._forwarding.exchange(request, timeout_ms=FORWARD_TIMEOUT_MS)
        if response.error_code:
            raise for_code(response.error_code)("The controller could not read a forwarded request.")
        return response.response_data or b""

    # Following

    async def _follow(self) -> None:
        while not self.failure.done():
            try:
                await self._fetch_once()
            except Unreachable as error:
                self._close_channel()
                self._failures += 1
                if self._failures in (1, 10) or self._failures % 600 == 0:
                    logger.warning("Cannot follow the metadata log, trying again: %s", error)
                await asyncio.sleep(self._backoff_seconds())
            except SnapshotDamaged as error:
                logger.error("A snapshot came damaged from the controller and is fetched again: %s", error)
                await asyncio.sleep(self._backoff_seconds())
            except Exception as error:  # noqa: BLE001 - of the disk or of the replay: the log cannot go on
                self.driver.fail(error)

    def _backoff_seconds(self) -> float:
        least = max(self._config.int_of("controller.quorum.retry.backoff.ms"), 1) / 1000
        return min(least * float(1 << min(self._failures, 10)), BACKOFF_SECONDS_MAX)

    async def _fetch_once(self) -> None:
        """One fetch from the leader, or from whoever may know it."""
        channel = await self._open_channel()
        request, version = self._fetch_request(channel)
        response: FetchResponse = await self._exchange(channel, request, version, FETCH_WAIT_MS)
        if response.error_code:
            raise Unreachable(f"a controller answered {_name(response.error_code)}")
        if not response.responses or not response.responses[0].partitions:
            raise Unreachable("a controller answered without the metadata log")
        for node in response.node_endpoints:
            self._addresses[node.node_id] = (node.host, node.port)
        partition = response.responses[0].partitions[0]
        leader = partition.current_leader
        knew = (self.leader_id, self.epoch)
        if leader.leader_epoch >= 0:
            await self.driver.follow(leader.leader_id, leader.leader_epoch)
        if partition.error_code:
            if (self.leader_id, self.epoch) == knew or self.leader_id == NOBODY:
                raise Unreachable(f"a controller answered {_name(partition.error_code)}")
            self._close_channel()  # the next fetch goes to the leader that we know now
            return
        if leader.leader_epoch != self.epoch:
            return  # old news
        if self._failures:
            logger.info("Following the metadata log of controller %d again.", self.leader_id)
            self._failures = 0
        await self._take(channel, partition)

    async def _take(self, channel: Channel, partition: FetchResponse.PartitionData) -> None:
        driver = self.driver
        if partition.diverging_epoch.epoch >= 0:
            driver.truncate(EpochEnd(partition.diverging_epoch.epoch, partition.diverging_epoch.end_offset))
            return
        if partition.snapshot_id.epoch >= 0:
            await self._fetch_snapshot(
                channel, SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            )
            return
        await driver.take_fetched(partition.records or b"", partition.high_watermark)
        if self._catch_up_goal < 0:
            self._catch_up_goal = partition.high_watermark
        if 0 <= self._catch_up_goal <= self.image.offset + 1 and not self._caught_up.done():
            self._caught_up.set_result(None)

    def _fetch_request(self, channel: Channel) -> tuple[FetchRequest, int]:
        version = _known(channel, FETCH_KEY)
        end, replica = self.driver.journal.end, self.driver.replica
        partition = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=replica.epoch,
            fetch_offset=end.end_offset,
            last_fetched_epoch=end.epoch,
        )
        request = FetchRequest(
            cluster_id=self.cluster_id,
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=self._config.int_of("controller.quorum.fetch.max.bytes"),
            topics=[FetchRequest.FetchTopic(partitions=[partition])],
        )
        if version >= 13:
            request.topics[0].topic_id = uuid.METADATA_TOPIC_ID
        else:
            request.topics[0].topic = TOPIC
        if version >= 15:
            request.replica_state.replica_id = self._config.node_id
        else:
            request.replica_id = self._config.node_id
        if version >= 17:
            partition.replica_directory_id = self._directory_id
        if version >= 18:
            partition.high_watermark = replica.high_watermark
        return request, version

    async def _fetch_snapshot(self, channel: Channel, snapshot_id: SnapshotId) -> None:
        """Load a snapshot of the leader's piece by piece, and go on from it."""
        if snapshot_id == self.driver.latest_snapshot:
            raise Unreachable(f"the leader offers the snapshot {snapshot_id.file_name} that is here already")
        logger.info("Fetching the snapshot %s from the controller.", snapshot_id.file_name)
        download = self.driver.begin_download(snapshot_id)
        try:
            while True:
                piece = await self._fetch_piece(channel, snapshot_id, download.size_bytes)
                if not piece.unaligned_records:
                    raise Unreachable("the leader sent an empty piece of a snapshot")
                download.append(piece.unaligned_records)
                if download.size_bytes >= piece.size:
                    break
        except BaseException:
            download.give_up()
            raise
        await self.driver.adopt_snapshot(download)

    async def _fetch_piece(
        self, channel: Channel, snapshot_id: SnapshotId, position: int
    ) -> FetchSnapshotResponse.PartitionSnapshot:
        wanted = FetchSnapshotRequest.PartitionSnapshot(
            partition=0,
            current_leader_epoch=self.epoch,
            snapshot_id=FetchSnapshotRequest.SnapshotId(
                end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
            ),
            position=position,
        )
        request = FetchSnapshotRequest(
            cluster_id=self.cluster_id,
            replica_id=self._config.node_id,
            max_bytes=self._config.int_of("controller.quorum.fetch.snapshot.max.bytes"),
            topics=[FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[wanted])],
        )
        version = _known(channel, 59)
        if version >= 1:
            wanted.replica_directory_id = self._directory_id
        response: FetchSnapshotResponse = await self._exchange(channel, request, version, 0)
        if response.error_code or not response.topics or not response.topics[0].partitions:
            raise Unreachable(f"a snapshot was refused with {_name(response.error_code)}")
        piece = response.topics[0].partitions[0]
        if piece.current_leader.leader_epoch >= 0:
            await self.driver.follow(piece.current_leader.leader_id, piece.current_leader.leader_epoch)
        if piece.error_code:
            raise Unreachable(f"a snapshot was refused with {_name(piece.error_code)}")
        if piece.position != position:
            raise Unreachable(f"position {position} of a snapshot was asked for, and {piece.position} came")
        return piece

    # The connection

    async def _open_channel(self) -> Channel:
        """The open one; or else one to the leader, in turn with the others who may know a new leader."""
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        address = self._leader_address()
        if address is None or self._failures % 2:
            self._tried += 1
            address = self._bootstrap[self._tried % len(self._bootstrap)]
        try:
            async with asyncio.timeout(self._request_timeout_s()):
                self._channel = await Channel.open(
                    self._network, *address, client_id=f"raft-client-{self._config.node_id}"
                )
        except TimeoutError:
            raise Unreachable(f"{address[0]}:{address[1]} does not answer") from None
        except (OSError, KafkaError) as error:
            raise Unreachable(f"{address[0]}:{address[1]} cannot be reached: {error}") from error
        return self._channel

    async def _exchange(self, channel: Channel, request: Message, version: int, wait_ms: int) -> Any:
        try:
            async with asyncio.timeout(self._request_timeout_s() + wait_ms / 1000):
                return await channel.ask(request, version=version)
        except TimeoutError:
            raise Unreachable(f"no answer to {request.NAME}") from None
        except (OSError, MalformedMessage) as error:
            raise Unreachable(str(error)) from error

    def _request_timeout_s(self) -> float:
        return max(self._config.int_of("controller.quorum.request.timeout.ms"), 1) / 1000

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _known(channel: Channel, key: int) -> int:
    try:
        return channel.version_for(key)
    except KafkaError as error:
        raise Unreachable(f"the other node is no controller: {error}") from error


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _principal_bytes(principal: str) -> bytes:
    """A principal as brokers hand it on: a version, then the message."""
    kind, _, name = principal.partition(":")
    return (0).to_bytes(2, "big") + codec.encode(DefaultPrincipalData(type=kind, name=name), 0)


def _host_bytes(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return bytes(4)
