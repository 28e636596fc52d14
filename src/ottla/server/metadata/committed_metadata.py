"""The committed state of the cluster on this node, and the face of the quorum to the rest of the node.

`image` changes only by replay of committed records; whoever subscribed is told what changed, after it has.
Two kinds: `Quorum` where a controller runs on this node, `RemoteQuorum` on a broker that follows one
elsewhere. Both keep the metadata log on disk, with snapshots of their own making.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.config import BrokerConfig, Endpoint
from ottla.controller.image import KRAFT_VERSION, ClusterImage
from ottla.controller.image_comparison import difference
from ottla.controller.image_delta import ImageDelta
from ottla.controller.records import decode_record, encode_record
from ottla.controller.result import Decision
from ottla.failures import Failures
from ottla.ports import Clock, Disk, Random
from ottla.raft.driver import CommittedBatch, Driver, DriverConfig
from ottla.raft.replica import Timeouts
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.rare_paths import rarely
from ottla.server.metadata.voter_changes import VoterChanges
from ottla.server.net.answers import WatchList
from ottla.wire.message import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

logger = logging.getLogger("ottla.server.metadata.committed_metadata")

_T = TypeVar("_T")
Subscriber = Callable[[ClusterImage, ImageDelta], None]


class CommittedMetadata(ABC):
    """What every node knows of the cluster."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        config: BrokerConfig,
        cluster_id: str,
        directory_id: bytes,
        endpoints: Sequence[Endpoint],
    ) -> None:
        self.cluster_id = cluster_id
        self._disk = disk
        self._clock = clock
        self._random = random
        self._config = config
        self._endpoints = tuple(endpoints)
        self.image = ClusterImage()
        self.failures = Failures()
        self._subscribers: list[Subscriber] = []
        self._bytes_since_snapshot = 0
        self._snapshot_due_at = clock.monotonic() + self._snapshot_interval_s()
        self._snapshot_task: asyncio.Task[None] | None = None
        self.driver: Driver[Message] = Driver(
            disk, clock, random, self._driver_config(directory_id), self, decode_record
        )
        self.failure = self.driver.failure
        self.voter_changes: VoterChanges | None = None  # where a controller runs
        self.progress = WatchList()  # fetches of other replicas that wait for the log to grow
        self.driver.on_progress = self.progress.notify

    def _driver_config(self, directory_id: bytes) -> DriverConfig:
        config = self._config
        names = config.controller_listener_names
        local = Voter(
            ReplicaKey(config.node_id, directory_id),
            tuple(VoterEndpoint(e.name, e.host, e.port) for e in self._endpoints),
        )
        return DriverConfig(
            directory=config.metadata_log_directory,
            local=local,
            static_voters=VoterSet.static(config.quorum_voters, names[0] if names else "CONTROLLER"),
            timeouts=Timeouts(
                config.int_of("controller.quorum.election.timeout.ms"),
                config.int_of("controller.quorum.fetch.timeout.ms"),
                config.int_of("controller.quorum.election.backoff.max.ms"),
            ),
            segment_bytes=config.int_of("metadata.log.segment.bytes"),
            segment_ms=config.int_of("metadata.log.segment.ms"),
            retention_bytes=config.int_of("metadata.max.retention.bytes"),
            retention_ms=config.int_of("metadata.max.retention.ms"),
            reserve_bytes=config.int_of("ottla.metadata.reserve.bytes"),
            is_observer=not config.is_controller,
            has_bootstrap=bool(config.quorum_bootstrap_servers),
        )

    # The face

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether this node is the active controller."""

    @property
    @abstractmethod
    def leader_id(self) -> int:
        """The active controller, -1 if none is known."""

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Whether the active controller is, or may be, on another node, so that requests are handed on."""

    async def start(self) -> None:
        """Load the metadata log and join the cluster."""
        await self.open()
        await self.join()

    @abstractmethod
    async def open(self) -> None:
        """Load the metadata log; from now on other replicas can be answered."""

    @abstractmethod
    async def join(self) -> None:
        """Take part; back once `image` holds all that is committed (a controller alone need not wait)."""

    @abstractmethod
    async def leave(self) -> None:
        """Before the node stops serving: hand over what others can only take while it still answers."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    async def submit(self, decision: Decision[_T], *, timeout_ms: int | None = None) -> _T:
        """Have this node's controller decide; a KafkaError says why it does not."""

    @abstractmethod
    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Ask the active controller, wherever it is, in the name of this node. Errors are KafkaErrors."""

    @abstractmethod
    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        """Have a controller elsewhere answer a client's request; the frame of its response, without its size.

        ControllerIsHere: it turns out to be on this node.
        """

    @abstractmethod
    def learn_address(self, node_id: int, host: str, port: int) -> None:
        """Another controller says where the leader is."""

    @abstractmethod
    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse: ...

    @property
    def epoch(self) -> int:
        return self.driver.replica.epoch

    @property
    def kraft_version(self) -> int:
        return self.driver.replica.kraft_version.last

    @property
    def finalized_features(self) -> dict[str, int]:
        """The levels that ApiVersions tells, kraft.version among them where it is not 0."""
        level = self.kraft_version
        return {**self.image.features, KRAFT_VERSION: level} if level else dict(self.image.features)

    # The listener of the driver

    def subscribe(self, subscriber: Subscriber) -> None:
        """Be told of every change of `image`, right after it. Not told of what was committed before."""
        self._subscribers.append(subscriber)

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[Message]) -> None:
        image = self.image
        before = image.copy() if self._subscribers else None
        image.reset()
        image.offset = snapshot_id.offset - 1
        for record in records:
            image.replay(record)
        image.epoch, image.timestamp_ms = snapshot_id.epoch, last_contained_ms
        if before is not None:
            self._tell(difference(before, image))

    def commit(self, batches: Sequence[CommittedBatch[Message]]) -> None:
        image, delta = self.image, ImageDelta()
        delta.first_offset = batches[0].base_offset
        for batch in batches:
            for offset, record in enumerate(batch.records, batch.base_offset):
                image.offset = offset
                image.replay(record, delta)
            image.offset, image.epoch, image.timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms
            self._bytes_since_snapshot += batch.size_bytes
        delta.last_offset = image.offset
        self._tell(delta)
        self._consider_snapshot()

    def _tell(self, delta: ImageDelta) -> None:
        for subscriber in self._subscribers:
            subscriber(self.image, delta)

    @abstractmethod
    def lead(self, epoch: int) -> None:
        """This node leads the quorum."""

    @abstractmethod
    def resign(self, epoch: int) -> None:
        """This node leads the quorum no more."""

    # Snapshots

    def _snapshot_interval_s(self) -> float:
        interval_ms = self._config.int_of("metadata.log.max.snapshot.interval.ms")
        return interval_ms / 1000 if interval_ms else float("inf")

    def _consider_snapshot(self) -> None:
        is_large = self._bytes_since_snapshot >= self._config.int_of(
            "metadata.log.max.record.bytes.between.snapshots"
        )
        is_large = is_large or rarely("a snapshot is written at once")
        if not is_large and self._clock.monotonic() < self._snapshot_due_at:
            return
        if self.image.is_in_transaction or not self.image.metadata_version:
            return
        if self._snapshot_task is None or self._snapshot_task.done():
            self._bytes_since_snapshot = 0
            self._snapshot_due_at = self._clock.monotonic() + self._snapshot_interval_s()
            self._snapshot_task = asyncio.create_task(self._write_snapshot(self.image.copy()))

    async def _write_snapshot(self, image: ClusterImage) -> None:
        level = image.metadata_version
        values = (encode_record(record, level) for record in image.to_records())
        try:
            await self.driver.write_snapshot(
                SnapshotId(image.offset + 1, image.epoch), values, image.timestamp_ms
            )
        except OSError as error:
            logger.error("Failed to write the metadata snapshot at offset %d: %s", image.offset + 1, error)

    async def _settle_snapshot(self) -> None:
        if self._snapshot_task is not None:
            await asyncio.gather(self._snapshot_task, return_exceptions=True)

    async def snapshot_now(self) -> None:
        """Write a snapshot of the committed state, whatever the limits say."""
        await self._write_snapshot(self.image.copy())
