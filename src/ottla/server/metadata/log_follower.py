"""Follows the metadata log of the quorum's leader: finds it, fetches, truncates, loads snapshots.

Brokers and controllers that do not lead run the same loop.

Rule: only responses of the current leader change the log, and every failure to reach it is retried, for as
long as the node runs. What would make the log wrong (a full disk, a leader that lost committed records) is
fatal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.ports import Network, Random
from ottla.raft.driver import RETRY_SECONDS, Driver
from ottla.raft.election_state import NOBODY
from ottla.raft.metadata_log import TOPIC, EpochEnd
from ottla.raft.roles import Follower, Unattached
from ottla.raft.snapshots import SnapshotDamaged, SnapshotId
from ottla.rare_paths import rarely
from ottla.server.peers.channel import Channel
from ottla.server.peers.controller_channel import Address
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode, KafkaError, MalformedMessage
from ottla.wire.message import Message
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

FETCH_KEY = 1
FETCH_WAIT_MS = 500
LATE_SECONDS = 0.5
"""How long a simulation delays metadata: longer than a proposal takes, shorter than the fetch timeout."""
BACKOFF_SECONDS_MAX = 0.25

logger = logging.getLogger("ottla.server.metadata.log_follower")

_T = TypeVar("_T")


class Unreachable(Exception):
    """The leader of the quorum did not answer, or not usefully. The message says which node and why."""


class Superseded(Unreachable):
    """Another leader became known while this one was asked."""


class LogFollower:
    """The connection of one node to the metadata log of the leader."""

    def __init__(
        self,
        *,
        network: Network,
        random: Random,
        config: BrokerConfig,
        driver: Driver[Message],
        cluster_id: str,
        image_offset: Callable[[], int],
    ) -> None:
        self._network = network
        self._config = config
        self._driver = driver
        self._cluster_id = cluster_id
        self._image_offset = image_offset
        self._directory_id = driver.replica.local.key.directory_id
        self.addresses: dict[int, Address] = dict(config.quorum_voters)
        voters = {**config.quorum_voters}
        voters.pop(config.node_id, None)
        self._bootstrap = list(config.quorum_bootstrap_servers) or list(voters.values())
        self._tried = random.below(max(len(self._bootstrap), 1))
        self._channel: Channel | None = None
        self._target: Address | None = None  # whom the channel is, or is being opened, to
        self._talk: asyncio.Future[Any] | None = None  # an exchange under way
        self._leader = (NOBODY, NOBODY)  # with its epoch
        self._failures = 0
        self._catch_up_goal = -1
        self._may_follow = asyncio.Event()
        self.caught_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # Facts

    @property
    def leader_id(self) -> int:
        """The leader that is followed; -1: none."""
        role = self._driver.replica.role
        return role.leader_id if isinstance(role, Follower) else NOBODY

    def leader_address(self) -> Address | None:
        return self.address_of(self.leader_id)

    def address_of(self, node_id: int) -> Address | None:
        """The address of a controller, from responses, settings or the log."""
        known = self.addresses.get(node_id)
        if known is not None:
            return known
        voter = self._driver.replica.voters.last.get(node_id)
        names = self._config.controller_listener_names
        if voter is not None:
            for endpoint in voter.endpoints:
                if not names or endpoint.name == names[0]:
                    return endpoint.host, endpoint.port
        return None

    def learn(self, node_id: int, address: Address) -> None:
        """Store a controller's address from a response."""
        self.addresses[node_id] = address

    # Life

    def on_leader(self) -> None:
        """The leader has changed, or is unknown: stop waiting for the old one."""
        if isinstance(self._driver.replica.role, (Follower, Unattached)):
            self._may_follow.set()
        else:
            self._may_follow.clear()
        leader = (self.leader_id, self._driver.replica.epoch)
        if leader == self._leader:
            return
        self._leader = leader
        self._failures = 0  # it has not failed yet
        address = self.leader_address()
        if address is not None and address != self._target:
            self._close_channel()
            if self._talk is not None:
                self._talk.cancel()

    def note_caught_up(self) -> None:
        if not self.caught_up.done():
            self.caught_up.set_result(None)

    def close(self) -> None:
        self._close_channel()

    async def run(self) -> None:
        while not self._driver.failure.done():
            if not isinstance(self._driver.replica.role, (Follower, Unattached)):
                self._close_channel()
                self._may_follow.clear()
                await self._may_follow.wait()
                continue
            if not self._bootstrap and self.leader_address() is None:
                await asyncio.sleep(self._backoff_seconds())
                continue
            try:
                await self._fetch_once()
            except Superseded:
                self._close_channel()
            except Unreachable as error:
                self._close_channel()
                self._failures += 1
                if self._failures in (1, 10) or self._failures % 600 == 0:
                    logger.warning("Fetching the metadata log failed, retrying: %s", error)
                await asyncio.sleep(self._backoff_seconds())
            except SnapshotDamaged as error:
                logger.error("Fetched a corrupt metadata snapshot, fetching it again: %s", error)
                await asyncio.sleep(self._backoff_seconds())
            except Exception as error:  # noqa: BLE001 - of the disk or of the replay: the log cannot go on
                if not self._driver.is_passing(error):
                    self._driver.fail(error)
                    continue
                logger.error("Writing the metadata log failed, retrying: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    def _backoff_seconds(self) -> float:
        least = max(self._config.int_of("controller.quorum.retry.backoff.ms"), 1) / 1000
        return min(least * float(1 << min(self._failures, 10)), BACKOFF_SECONDS_MAX)

    async def _fetch_once(self) -> None:
        """Fetch once from the leader, or from a node that may know it."""
        channel = await self._open_channel()
        if rarely("metadata arrives late"):  # after answers of the controller that tell the same
            await asyncio.sleep(LATE_SECONDS)
        await self._driver.flushed()
        request, version = self._fetch_request(channel)
        asked_epoch = request.topics[0].partitions[0].current_leader_epoch
        response: FetchResponse = await self._exchange(channel, request, version, FETCH_WAIT_MS)
        if response.error_code:
            raise Unreachable(f"a controller answered {_name(response.error_code)}")
        if not response.responses or not response.responses[0].partitions:
            raise Unreachable("the controller's answer does not contain the metadata log")
        for node in response.node_endpoints:
            self.learn(node.node_id, (node.host, node.port))
        partition = response.responses[0].partitions[0]
        leader = partition.current_leader
        driver = self._driver
        knew = (self.leader_id, driver.replica.epoch)
        if leader.leader_epoch >= 0:
            await driver.follow(leader.leader_id, leader.leader_epoch)
        if partition.error_code:
            if (self.leader_id, driver.replica.epoch) == knew or self.leader_id == NOBODY:
                raise Unreachable(f"a controller answered {_name(partition.error_code)}")
            self._close_channel()  # the next fetch goes to the leader that we know now
            return
        if asked_epoch != leader.leader_epoch or not driver.is_following(leader.leader_id, asked_epoch):
            return  # old news
        if self._failures:
            logger.info("Resumed fetching the metadata log from controller %d", self.leader_id)
            self._failures = 0
        driver.heard_from_leader()
        await self._take(channel, partition)

    async def _take(self, channel: Channel, partition: FetchResponse.PartitionData) -> None:
        driver, diverging, snapshot_id = self._driver, partition.diverging_epoch, partition.snapshot_id
        leader = partition.current_leader
        if diverging.epoch >= 0:
            end = EpochEnd(diverging.epoch, diverging.end_offset)
            await driver.truncate(end, leader.leader_id, leader.leader_epoch)
            return
        if snapshot_id.epoch >= 0:
            await self._fetch_snapshot(
                channel, SnapshotId(snapshot_id.end_offset, snapshot_id.epoch), leader.leader_epoch
            )
            return
        await driver.take_fetched(partition.records or b"", partition.high_watermark)
        if self._catch_up_goal < 0:
            self._catch_up_goal = partition.high_watermark
        if 0 <= self._catch_up_goal <= self._image_offset() + 1:
            self.note_caught_up()

    def _fetch_request(self, channel: Channel) -> tuple[FetchRequest, int]:
        version = _known(channel, FETCH_KEY)
        end, replica = self._driver.journal.end, self._driver.replica
        partition = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=replica.epoch,
            fetch_offset=end.end_offset,
            last_fetched_epoch=end.epoch,
        )
        request = FetchRequest(
            cluster_id=self._cluster_id,
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

    async def _fetch_snapshot(self, channel: Channel, snapshot_id: SnapshotId, epoch: int) -> None:
        """Load a snapshot from the leader in chunks, and continue after it."""
        if snapshot_id == self._driver.latest_snapshot:
            raise Unreachable(
                f"the leader offers snapshot {snapshot_id.file_name}, which this node already has"
            )
        logger.info("Fetching metadata snapshot %s from the controller", snapshot_id.file_name)
        leader_id = self.leader_id
        download = self._driver.begin_download(snapshot_id)
        try:
            while True:
                piece = await self._fetch_piece(channel, snapshot_id, download.size_bytes)
                if not piece.unaligned_records:
                    raise Unreachable("the leader sent an empty snapshot chunk")
                if not self._driver.is_following(leader_id, epoch):
                    raise Unreachable("the leader changed during the snapshot fetch")
                self._driver.heard_from_leader()
                download.append(piece.unaligned_records)
                if download.size_bytes >= piece.size:
                    break
        except BaseException:
            download.give_up()
            raise
        await self._driver.adopt_snapshot(download, leader_id, epoch)

    async def _fetch_piece(
        self, channel: Channel, snapshot_id: SnapshotId, position: int
    ) -> FetchSnapshotResponse.PartitionSnapshot:
        wanted = FetchSnapshotRequest.PartitionSnapshot(
            partition=0,
            current_leader_epoch=self._driver.replica.epoch,
            snapshot_id=FetchSnapshotRequest.SnapshotId(
                end_offset=snapshot_id.offset, epoch=snapshot_id.epoch
            ),
            position=position,
        )
        request = FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=self._config.node_id,
            max_bytes=self._config.int_of("controller.quorum.fetch.snapshot.max.bytes"),
            topics=[FetchSnapshotRequest.TopicSnapshot(name=TOPIC, partitions=[wanted])],
        )
        version = _known(channel, 59)
        if version >= 1:
            wanted.replica_directory_id = self._directory_id
        response: FetchSnapshotResponse = await self._exchange(channel, request, version, 0)
        if response.error_code or not response.topics or not response.topics[0].partitions:
            raise Unreachable(f"the snapshot fetch failed with {_name(response.error_code)}")
        piece = response.topics[0].partitions[0]
        if piece.current_leader.leader_epoch >= 0:
            await self._driver.follow(piece.current_leader.leader_id, piece.current_leader.leader_epoch)
        if piece.error_code:
            raise Unreachable(f"the snapshot fetch failed with {_name(piece.error_code)}")
        if piece.position != position:
            raise Unreachable(f"requested snapshot position {position}, but received {piece.position}")
        return piece

    # The connection

    async def _open_channel(self) -> Channel:
        """The open connection; or a new one, to the leader or, in turn, to another node that may know it."""
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        address = self.leader_address()
        if self._bootstrap and (address is None or self._failures % 2):
            self._tried += 1
            address = self._bootstrap[self._tried % len(self._bootstrap)]
        if address is None:
            raise Unreachable("no controller is known")
        self._target = address
        opening = Channel.open(self._network, *address, client_id=f"raft-client-{self._config.node_id}")
        try:
            self._channel = channel = await self._while_it_matters(opening, self._request_timeout_s())
        except TimeoutError:
            raise Unreachable(f"{address[0]}:{address[1]} does not answer") from None
        except (OSError, KafkaError) as error:
            raise Unreachable(f"{address[0]}:{address[1]} is unreachable: {error}") from error
        return channel

    async def _exchange(self, channel: Channel, request: Message, version: int, wait_ms: int) -> Any:
        asking = channel.ask(request, version=version)
        try:
            return await self._while_it_matters(asking, self._request_timeout_s() + wait_ms / 1000)
        except TimeoutError:
            raise Unreachable(f"no answer to {request.NAME}") from None
        except (OSError, MalformedMessage) as error:
            raise Unreachable(str(error)) from error

    async def _while_it_matters(self, talk: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        """Wait for another node's response, but not once the leader has changed."""
        self._talk = task = asyncio.ensure_future(talk)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.wait([task])
        finally:
            self._talk = None
            if not task.done():
                task.cancel()
        if task.cancelled():
            raise Superseded("the leader has changed")
        return task.result()

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
        raise Unreachable(f"the peer is not a controller: {error}") from error


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
