"""What a replica wants done. Effects are carried out in their order, each one before the next begins.

That order is the safety of Raft: an election is on disk before anyone acts on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ottla.raft.election import ElectionState
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


Effect: TypeAlias = PersistElection | StartEpoch | LeaderChanged | HighWatermarkMoved
