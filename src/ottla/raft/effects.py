"""What a replica wants done. Effects are carried out in their order, each one before the next begins.

That order is the safety of Raft: an election is on disk before anyone acts on it or hears of it. The one
exception is `LeadershipLost`, which concerns memory alone and is done before anything else happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.election_state import ElectionState
from ottla.raft.messages import Request
from ottla.raft.voters import VoterSet


@dataclass(frozen=True, slots=True)
class PersistElection:
    """Write the quorum-state file; go on only when it is on stable storage."""

    election: ElectionState


@dataclass(frozen=True, slots=True)
class StartEpoch:
    """This replica leads: the log's epoch `epoch` starts at its end, with these control records.

    `voters` and `kraft_version` are set when the log must be told of them.
    """

    epoch: int
    leader_id: int
    voter_ids: tuple[int, ...]
    granting_ids: tuple[int, ...]
    kraft_version: int | None = None
    voters: VoterSet | None = None


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """Whom this replica takes for the leader now; -1 for nobody."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class HighWatermarkMoved:
    """Everything below `offset` is committed."""

    offset: int


@dataclass(frozen=True, slots=True)
class LeadershipLost:
    """This replica led `epoch` and does so no more: what it has not put into its log stays out."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Send a request to a replica and bring its answer back. It may be lost: it is sent again if need be."""

    replica_id: int
    request: Request


Effect: TypeAlias = PersistElection | StartEpoch | LeaderChanged | HighWatermarkMoved | LeadershipLost | Ask
