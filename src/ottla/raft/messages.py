"""The requests and responses by which replicas of the metadata log elect a leader, as plain values.

The shell translates them to Kafka's protocol and back. A response comes back together with its request, so
that a late response is recognized.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.voters import ReplicaKey, Voter
from ottla.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Vote:
    """A candidate asks for a vote, or a prospective candidate for a pre-vote."""

    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    last_offset: int
    is_pre_vote: bool
    receiver: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """An elected leader announces its epoch."""

    leader_id: int
    epoch: int
    receiver: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """A leader has resigned. `successors` should start elections in their order."""

    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """A voter reports its endpoints and its supported levels of kraft.version."""

    epoch: int
    voter: Voter


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | UpdateVoter


@dataclass(frozen=True, slots=True)
class Response:
    """The response to any of them: an error, and the leader and epoch that the receiver knows."""

    error: ErrorCode
    leader_id: int
    epoch: int
    is_granted: bool = False


Answer = Response  # the name that server/ uses


class VoterChangeRefused(Exception):
    """The voters cannot change in this way, or not now; `code` says why."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
