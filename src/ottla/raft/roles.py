"""The roles of a replica of the metadata log, and every transition from one to another.

    Unattached   knows no leader of its epoch
      -> Unattached    learns of a higher epoch, or grants a vote
      -> Prospective   its election timeout expires
      -> Follower      discovers the leader of its epoch or of a higher one
    Prospective  asks in its own epoch whether it would be elected (pre-vote)
      -> Candidate     a majority would vote for it
      -> Unattached    learns of a higher epoch, or loses the pre-vote and knows no leader
      -> Follower      discovers a leader, or loses the pre-vote and knows a leader
    Candidate    asks for votes in a new epoch
      -> Leader        a majority has voted for it
      -> Prospective   its election timeout expires
      -> Unattached    learns of a higher epoch, or is no longer a voter
      -> Follower      discovers another leader of its epoch or of a higher one
    Leader       appends; a record is committed once a majority has it on disk
      -> Unattached    learns of a higher epoch
      -> Follower      discovers the leader of a higher epoch
      -> Resigned      shuts down, loses contact with the majority, or is no longer a voter
    Follower     fetches from its leader
      -> Unattached    learns of a higher epoch
      -> Prospective   its fetch timeout expires
      -> Follower      discovers the leader of a higher epoch
    Resigned     led its epoch and takes no further part in it
      -> Unattached    learns of a higher epoch, or its election timeout expires
      -> Prospective   it is the only voter, and waits for nobody
      -> Follower      discovers the leader of a higher epoch

A replica that is no voter is only Unattached or Follower. A leader that was removed from the voters resigns
first, and the election of a voter that was removed ends as Unattached. `TRANSITIONS` is this text as a table;
`QuorumState.become` checks every change against it. Times are deadlines in milliseconds of a monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from ottla.raft.election_state import NOBODY, ElectionState
from ottla.raft.voters import ReplicaKey, Voter, VoterSet


@dataclass(slots=True)
class Votes:
    """The responses of the voters in one election or pre-vote."""

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
        """The voters that have not responded yet."""
        return [v for v in self.voters if v.key.id not in self.granted and v.key.id not in self.rejected]

    def record(self, voter_id: int, *, is_granted: bool) -> None:
        """A granted vote is final; a rejection is not."""
        if is_granted:
            self.granted.add(voter_id)
            self.rejected.discard(voter_id)
        elif voter_id not in self.granted:
            self.rejected.add(voter_id)


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
    """How far a replica has fetched, as its leader knows it."""

    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    leader_end_offset: int = -1  # the end of the leader's log at the last fetch


@dataclass(slots=True)
class Leader:
    epoch: int
    leader_id: int
    start_offset: int  # of its epoch
    granting: frozenset[int]
    progress: dict[int, Progress]  # of the voters
    check_quorum_ms: int  # by then a majority must have fetched
    begin_epoch_ms: int  # when to send BeginEpoch to voters that do not fetch
    high_watermark: int = -1
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    fetched_voters: set[int] = field(default_factory=set)  # since `check_quorum_ms` was set
    reported_voters: VoterSet | None = None  # of a static quorum, as its voters describe themselves

    @property
    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id)


@dataclass(slots=True)
class Follower:
    epoch: int
    deadline_ms: int
    leader_id: int
    voted: ReplicaKey | None = None
    update_voter_ms: int = 0  # when to send UpdateVoter, if the leader does not know this voter as it is
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
    unacknowledged: set[int] = field(default_factory=set)  # voters that have not responded to EndEpoch
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
