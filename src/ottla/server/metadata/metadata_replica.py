"""This node's replica of the metadata log: the log on disk, the committed image, and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.config import BrokerConfig, Endpoint
from ottla.controller.image import KRAFT_VERSION
from ottla.controller.records import decode_record
from ottla.ports import Clock, Disk, Random
from ottla.raft.driver import CommittedBatch, Driver, DriverConfig
from ottla.raft.replica import Timeouts
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.server.metadata.committed_metadata import CommittedMetadata
from ottla.server.metadata.metadata_snapshots import MetadataSnapshots
from ottla.waiting.watch_list import WatchList
from ottla.wire.message import Message


class Leadership(Protocol):
    """Receives the leadership changes of this replica."""

    def committed(self, offset: int) -> None:
        """The image contains everything up to `offset`."""

    def lead(self, epoch: int) -> None:
        """This node leads the quorum, and its image contains everything of earlier epochs."""

    def resign(self, epoch: int) -> None:
        """This node no longer leads the quorum."""


class MetadataReplica:
    """The listener of its driver. See the module."""

    def __init__(
        self,
        leadership: Leadership,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        config: BrokerConfig,
        directory_id: bytes,
        endpoints: Sequence[Endpoint],
    ) -> None:
        self._leadership = leadership
        self.metadata = CommittedMetadata()
        settings = driver_config(config, directory_id, endpoints)
        self.driver: Driver[Message] = Driver(disk, clock, random, settings, self, decode_record)
        self.snapshots = MetadataSnapshots(self.driver, clock, config)
        self.progress = WatchList()  # fetches of other replicas that wait for the log to grow
        self.driver.on_progress = self.progress.notify

    @property
    def epoch(self) -> int:
        return self.driver.replica.epoch

    @property
    def kraft_version(self) -> int:
        return self.driver.replica.kraft_version.last

    @property
    def finalized_features(self) -> dict[str, int]:
        """The levels that ApiVersions reports, kraft.version among them where it is not 0."""
        level, features = self.kraft_version, self.metadata.image.features
        return {**features, KRAFT_VERSION: level} if level else dict(features)

    async def snapshot_now(self) -> None:
        """Write a snapshot of the committed state now, whatever the limits are."""
        await self.snapshots.write(self.metadata.image.copy())

    async def stop(self) -> None:
        await self.snapshots.finish()
        await self.driver.stop()

    # The listener of the driver

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[Message]) -> None:
        self.metadata.load(snapshot_id, last_contained_ms, records)

    def commit(self, batches: Sequence[CommittedBatch[Message]]) -> None:
        self.metadata.commit(batches)
        self.snapshots.committed(self.metadata.image, sum(batch.size_bytes for batch in batches))
        self._leadership.committed(self.metadata.image.offset)

    def lead(self, epoch: int) -> None:
        self._leadership.lead(epoch)

    def resign(self, epoch: int) -> None:
        self._leadership.resign(epoch)


def driver_config(config: BrokerConfig, directory_id: bytes, endpoints: Sequence[Endpoint]) -> DriverConfig:
    """The driver's configuration, from that of this node."""
    names = config.controller_listener_names
    local = Voter(
        ReplicaKey(config.node_id, directory_id),
        tuple(VoterEndpoint(e.name, e.host, e.port) for e in endpoints),
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
