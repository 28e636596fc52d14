"""What replicas of the metadata log say to each other about elections, as plain values.

The shell turns them into requests of Kafka's protocol and back. A request goes back to the replica together
with its answer, so that an answer that comes late is known for what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.voters import ReplicaKey, Voter
from ottla.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Vote:
    """Elect me; or, as a pre-vote, would you?"""

    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    last_offset: int
    is_pre_vote: bool
    receiver: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class BeginEpoch:
    """I was elected."""

    leader_id: int
    epoch: int
    receiver: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class EndEpoch:
    """I lead no more; `successors` are those who should try first, in their order."""

    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateVoter:
    """This is where I am reached now, and what I support."""

    epoch: int
    voter: Voter


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | UpdateVoter


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to each of them: an error, and whom the receiver takes for the leader of which epoch."""

    error: ErrorCode
    leader_id: int
    epoch: int
    is_granted: bool = False


class VoterChangeRefused(Exception):
    """A change of the voters that cannot be made now, or at all; `code` tells which."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
