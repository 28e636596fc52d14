"""The roles of a replica of the metadata log, and every way from one to another.

    Unattached   knows no leader of its epoch
      -> Unattached    a higher epoch was heard of, or a vote was given
      -> Prospective   the election timeout passed
      -> Follower      the leader of this or of a higher epoch was heard of
    Prospective  asks, without a new epoch, whether it would be elected (pre-vote)
      -> Candidate     a majority would vote for it
      -> Unattached    a higher epoch was heard of, or it was refused and knew no leader
      -> Follower      a leader was heard of, or it was refused and knew one
    Candidate    asks for votes in an epoch of its own
      -> Leader        a majority voted for it
      -> Prospective   the election timeout passed
      -> Unattached    a higher epoch was heard of
      -> Follower      another leader of this or of a higher epoch was heard of
    Leader       appends; a majority that has it on disk commits
      -> Unattached    a higher epoch was heard of
      -> Follower      the leader of a higher epoch was heard of
      -> Resigned      it shuts down, lost touch with the majority, or is a voter no more
    Follower     fetches from its leader
      -> Unattached    a higher epoch was heard of
      -> Prospective   nothing was heard of the leader for the fetch timeout
      -> Follower      the leader of a higher epoch was heard of
    Resigned     was leader of its epoch and takes no more part in it
      -> Unattached    a higher epoch was heard of, or the election timeout passed
      -> Prospective   it is the only voter: there is nobody to wait for
      -> Follower      the leader of a higher epoch was heard of

A replica that is no voter is only ever Unattached or Follower (a leader that was removed resigns first; an
election that its voter was removed from ends as Unattached). `TRANSITIONS` is this text as a table, and
`Replica` goes through it for every change. Times are deadlines in milliseconds of a clock that never goes
back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from ottla.raft.election_state import NOBODY, ElectionState
from ottla.raft.voters import ReplicaKey, Voter, VoterSet


@dataclass(slots=True)
class Votes:
    """The answers of the voters in one election, or pre-election."""

    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)

    @property
    def is_won(self) -> bool:
        return len(self.granted) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        return len(self.voters) - len(self.rejected) < self.voters.majority

    @property
    def unrecorded(self) -> list[Voter]:
        """Who has not answered yet."""
        return [v for v in self.voters if v.key.id not in self.granted and v.key.id not in self.rejected]


@dataclass(slots=True)
class Unattached:
    epoch: int
    deadline_ms: int
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(slots=True)
class Prospective:
    epoch: int
    deadline_ms: int
    votes: Votes
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None
    resend_ms: int = 0

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(slots=True)
class Candidate:
    epoch: int
    deadline_ms: int
    votes: Votes
    voted: ReplicaKey
    resend_ms: int = 0
    leader_id: ClassVar[int] = NOBODY

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, NOBODY, self.voted)


@dataclass(slots=True)
class Progress:
    """How far a replica has come, as its leader knows it."""

    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_offset: int = -1  # what the leader had when the replica fetched last


@dataclass(slots=True)
class Leader:
    epoch: int
    leader_id: int
    start_offset: int  # of its epoch
    granting: frozenset[int]
    progress: dict[int, Progress]  # of the voters
    check_ms: int  # by then a majority must have fetched
    begin_ms: int  # when those who do not fetch are told who leads
    high_watermark: int = -1
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)  # voters, since `check_ms` was set
    known_voters: VoterSet | None = None  # of a static quorum: what its voters say of themselves

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id)


@dataclass(slots=True)
class Follower:
    epoch: int
    deadline_ms: int
    leader_id: int
    voted: ReplicaKey | None = None
    update_ms: int = 0  # when to look whether the leader knows this voter as it is
    has_fetched: bool = False
    has_updated_leader: bool = False

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted)


@dataclass(slots=True)
class Resigned:
    epoch: int
    deadline_ms: int
    leader_id: int
    successors: tuple[ReplicaKey, ...] = ()
    untold: set[int] = field(default_factory=set)  # voters that have not acknowledged the end of the epoch
    resend_ms: int = 0

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id)


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned

TRANSITIONS: dict[type[Role], frozenset[type[Role]]] = {
    Unattached: frozenset((Unattached, Prospective, Follower)),
    Prospective: frozenset((Candidate, Unattached, Follower)),
    Candidate: frozenset((Leader, Prospective, Unattached, Follower)),
    Leader: frozenset((Unattached, Follower, Resigned)),
    Follower: frozenset((Unattached, Prospective, Follower)),
    Resigned: frozenset((Unattached, Prospective, Follower)),
}
