"""The settings of this node's replica of the metadata log."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.log.config import LogConfig
from ottla.raft.replica import Timeouts
from ottla.raft.voters import Voter, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    directory: str  # metadata.log.dir
    local: Voter
    static_voters: VoterSet
    timeouts: Timeouts = field(default_factory=Timeouts)
    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = 100 * 1024 * 1024
    retention_ms: int = 7 * 24 * 3600 * 1000
    batch_bytes_max: int = 8 * 1024 * 1024
    reserve_bytes: int = 0  # ottla.metadata.reserve.bytes
    is_observer: bool = False  # a broker without a controller: it follows and never votes
    has_bootstrap: bool = False  # controller.quorum.bootstrap.servers name controllers that know the voters

    @property
    def log(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            retention_bytes=-1,
            retention_ms=-1,
            max_message_bytes=self.batch_bytes_max,
        )
