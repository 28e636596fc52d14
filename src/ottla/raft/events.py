"""The events that `Replica.step` takes. Those whose handling depends on the time contain it.

Requests and responses come from other replicas, log progress from the parts that write the log, fetches and
leaders from Fetch and FetchSnapshot requests of either side, and `TimePassed` from a timer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.messages import Request, Response
from ottla.raft.voters import ReplicaKey, VoterSet


@dataclass(frozen=True, slots=True)
class TimePassed:
    now_ms: int


@dataclass(frozen=True, slots=True)
class RequestReceived:
    """The last effect of this event is the response (`effects.SendResponse`)."""

    request: Request
    now_ms: int


@dataclass(frozen=True, slots=True)
class ResponseReceived:
    """The response to a request that an effect (`effects.SendRequest`) has sent."""

    replica_id: int
    request: Request
    response: Response
    now_ms: int


@dataclass(frozen=True, slots=True)
class ResignRequested:
    """The node shuts down, or its log has failed: a leader must lead no longer."""

    now_ms: int


# The log of this replica


@dataclass(frozen=True, slots=True)
class LogAppended:
    """The log ends here, but not yet on stable storage."""

    end_offset: int
    end_epoch: int


@dataclass(frozen=True, slots=True)
class LogFlushed:
    """The log is on stable storage up to here."""

    end_offset: int
    end_epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class LogTruncated:
    end_offset: int
    end_epoch: int


@dataclass(frozen=True, slots=True)
class LogReplaced:
    """The log restarts at the end of a snapshot on stable storage. Events with its voters follow."""

    end_offset: int
    end_epoch: int


@dataclass(frozen=True, slots=True)
class VotersAppended:
    """The log has a VotersRecord at `offset`. It takes effect at once, committed or not."""

    offset: int
    voters: VoterSet


@dataclass(frozen=True, slots=True)
class KraftVersionAppended:
    """The log has a KRaftVersionRecord at `offset`."""

    offset: int
    level: int


# The followers of this replica


@dataclass(frozen=True, slots=True)
class ReplicaFetched:
    """A replica fetches from `offset`, so its log has everything before it."""

    key: ReplicaKey
    offset: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class SnapshotFetched:
    """A replica fetches a snapshot, which shows that it follows."""

    key: ReplicaKey
    now_ms: int


# The leader of this replica


@dataclass(frozen=True, slots=True)
class LeaderDiscovered:
    """A response names the leader of an epoch; -1 if there is none yet."""

    leader_id: int
    epoch: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class LeaderResponded:
    """The leader that this replica follows has responded to a fetch."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class HighWatermarkReceived:
    """The leader's high watermark, and how far the log of this replica agrees with the leader's."""

    high_watermark: int
    end_offset: int


VoterEvent: TypeAlias = VotersAppended | KraftVersionAppended
Event: TypeAlias = (
    TimePassed
    | RequestReceived
    | ResponseReceived
    | ResignRequested
    | LogAppended
    | LogFlushed
    | LogTruncated
    | LogReplaced
    | VoterEvent
    | ReplicaFetched
    | SnapshotFetched
    | LeaderDiscovered
    | LeaderResponded
    | HighWatermarkReceived
)
