"""One replica of the metadata log as a state machine: events and ticks in, effects out.

No IO, no clock, no chance of its own: times come with the events, random draws through a callable. A change
of role goes through `roles.TRANSITIONS`; one that is not there is a mistake of ours and raises.

What it does today is what a quorum of one and its observers need, with any number of voters in mind: votes
are tallied against the set's majority and the high watermark is what a majority has on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.raft.effects import Effect, HighWatermarkMoved, LeaderChanged, PersistElection, StartEpoch
from ottla.raft.election import NOBODY, ElectionState
from ottla.raft.history import History
from ottla.raft.roles import (
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Progress,
    Prospective,
    Resigned,
    Role,
    Unattached,
    Votes,
)
from ottla.raft.voters import ReplicaKey, Voter, VoterSet

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for so long is forgotten."""
OBSERVERS_MAX = 10_000

BOOTSTRAP_OFFSET = -1
"""The offset of what `kafka-storage format` wrote: before the first record of the log."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """`controller.quorum.election.timeout.ms` and `controller.quorum.fetch.timeout.ms`."""

    election_ms: int = 1_000
    fetch_ms: int = 2_000


class NotLeader(Exception):
    """Something was asked that only the leader can do."""


class Replica:
    """The quorum as one of its replicas sees it. `start` first, then whatever happens."""

    def __init__(
        self,
        local: Voter,
        static_voters: VoterSet,
        *,
        timeouts: Timeouts,
        draw: Callable[[int], int],
    ) -> None:
        self.local = local
        self.voters: History[VoterSet] = History(static_voters)
        self.kraft_version: History[int] = History(0)
        self._timeouts = timeouts
        self._draw = draw
        self._role: Role | None = None
        self._announced: LeaderChanged | None = None
        self._end_offset = 0
        self._followed_high_watermark = -1

    # Facts

    @property
    def role(self) -> Role:
        if self._role is None:
            raise RuntimeError("The replica was not started.")
        return self._role

    @property
    def is_started(self) -> bool:
        return self._role is not None

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        return self.role.election.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed; -1 while that is not known."""
        role = self.role
        return role.high_watermark if isinstance(role, Leader) else self._followed_high_watermark

    @property
    def end_offset(self) -> int:
        """Up to here the log is on stable storage."""
        return self._end_offset

    @property
    def is_voter(self) -> bool:
        return self.voters.last.is_voter(self.local.key)

    @property
    def is_only_voter(self) -> bool:
        return self.voters.last.is_only_voter(self.local.key)

    @property
    def deadline_ms(self) -> int | None:
        """When `tick` has something to do; None: never, unless something else happens."""
        role = self.role
        if isinstance(role, Leader) or not self.is_voter:
            return None
        return role.deadline_ms

    # Events

    def start(self, election: ElectionState, end_offset: int, end_epoch: int, now_ms: int) -> list[Effect]:
        """Begin with what was on disk: the election, and the log's end and the epoch of its last record."""
        self._end_offset = end_offset
        effects: list[Effect] = []
        self._become(self._first_role(election, end_epoch, now_ms), effects)
        if self.is_only_voter and isinstance(self.role, Unattached | Follower | Resigned):
            self._become_prospective(now_ms, effects)
        elif isinstance(self.role, Candidate):
            self._count_own_vote(now_ms, effects)
        self._announce(effects)
        return effects

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        effects: list[Effect] = []
        role = self.role
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms or isinstance(role, Leader):
            return effects
        if isinstance(role, Unattached | Follower | Candidate):
            self._become_prospective(now_ms, effects)
        elif isinstance(role, Resigned):
            self._become(Unattached(role.epoch + 1, self._election_deadline(now_ms)), effects)
        elif role.leader_id != NOBODY:
            deadline_ms = now_ms + self._timeouts.fetch_ms
            self._become(Follower(role.epoch, deadline_ms, role.leader_id, role.voted), effects)
        else:
            deadline_ms = self._election_deadline(now_ms)
            self._become(Unattached(role.epoch, deadline_ms, voted=role.voted), effects)
        self._announce(effects)
        return effects

    def flushed(self, end_offset: int, now_ms: int) -> list[Effect]:
        """This replica's own log is on stable storage up to `end_offset`."""
        self._end_offset = end_offset
        role = self.role
        if not isinstance(role, Leader):
            return []
        progress = role.progress.get(self.local.key.id)
        if progress is not None:
            progress.end_offset = end_offset
            progress.last_fetch_ms = progress.last_caught_up_ms = now_ms
        return self._advanced(role)

    def fetched_by(self, key: ReplicaKey, offset: int, now_ms: int) -> list[Effect]:
        """A replica fetches from `offset`, so it has everything before it."""
        role = self.role
        if not isinstance(role, Leader) or key.id < 0 or key.id == self.local.key.id:
            return []
        if self.voters.last.is_voter(key):
            _fetched(role.progress[key.id], offset, self._end_offset, now_ms)
            return self._advanced(role)
        observers = role.observers
        for silent in [k for k, p in observers.items() if now_ms - p.last_fetch_ms >= OBSERVER_SESSION_MS]:
            del observers[silent]
        if key in observers or len(observers) < OBSERVERS_MAX:
            _fetched(observers.setdefault(key, Progress()), offset, self._end_offset, now_ms)
        return []

    def heard_of(self, leader_id: int, epoch: int, now_ms: int) -> list[Effect]:
        """Somebody says who leads an epoch (-1: nobody yet). What is older than ours changes nothing."""
        role = self.role
        effects: list[Effect] = []
        if epoch < role.epoch:
            return effects
        if leader_id == NOBODY:
            if epoch > role.epoch:
                self._become(Unattached(epoch, self._election_deadline(now_ms)), effects)
        elif epoch > role.epoch or role.election.leader_id == NOBODY or isinstance(role, Unattached):
            voted = role.election.voted if epoch == role.epoch else None
            self._become(Follower(epoch, now_ms + self._timeouts.fetch_ms, leader_id, voted), effects)
        self._announce(effects)
        return effects

    def follow_high_watermark(self, offset: int, end_offset: int) -> list[Effect]:
        """The leader says what is committed; of that, this log holds what is below `end_offset`."""
        self._end_offset = end_offset
        offset = min(offset, end_offset)
        if isinstance(self.role, Leader) or offset <= self._followed_high_watermark:
            return []
        self._followed_high_watermark = offset
        return [HighWatermarkMoved(offset)]

    def voters_written(self, offset: int, voters: VoterSet) -> None:
        """A VotersRecord stands at `offset` of the log: it holds from now on, committed or not."""
        self.voters.add(offset, voters)
        if isinstance(self._role, Leader):
            known = self._role.progress
            self._role.progress = {voter.key.id: known.get(voter.key.id, Progress()) for voter in voters}

    def kraft_version_written(self, offset: int, level: int) -> None:
        """A KRaftVersionRecord stands at `offset` of the log."""
        self.kraft_version.add(offset, level)

    def resign(self, now_ms: int) -> list[Effect]:
        """Lead no longer: the node shuts down, or has lost its log."""
        role = self.role
        effects: list[Effect] = []
        if isinstance(role, Leader):
            self._become(Resigned(role.epoch, self._election_deadline(now_ms), role.leader_id), effects)
        return effects

    def upgrade(self, level: int) -> VoterSet:
        """The voters to write with a raised kraft.version: from then on the log knows their directories."""
        if not isinstance(self.role, Leader):
            raise NotLeader
        if not all(lowest <= level <= highest for lowest, highest in self._supported(level)):
            raise ValueError(
                f"Invalid upgrade of kraft.version to {level} because not all of the voters support it"
            )
        return self.voters.last.updated(self.local)

    # Roles

    def _first_role(self, election: ElectionState, end_epoch: int, now_ms: int) -> Role:
        deadline_ms = self._election_deadline(now_ms)
        if election.epoch < end_epoch:
            return Unattached(end_epoch, deadline_ms)  # the log was copied from elsewhere
        if election.leader_id == self.local.key.id:
            return Resigned(election.epoch, deadline_ms, election.leader_id)
        if election.voted is not None and election.voted.matches(self.local.key):
            return Candidate(election.epoch, deadline_ms, Votes(self.voters.last), self.local.key)
        if election.leader_id in self.voters.last.ids:
            deadline_ms = now_ms + self._timeouts.fetch_ms
            return Follower(election.epoch, deadline_ms, election.leader_id, election.voted)
        return Unattached(election.epoch, deadline_ms, election.leader_id, election.voted)

    def _become_prospective(self, now_ms: int, effects: list[Effect]) -> None:
        role = self.role
        votes = Votes(self.voters.last, granted={self.local.key.id})
        election = role.election
        leader_id = NOBODY if election.leader_id == self.local.key.id else election.leader_id
        deadline_ms = self._election_deadline(now_ms)
        prospective = Prospective(role.epoch, deadline_ms, votes, leader_id, election.voted)
        self._become(prospective, effects, is_durable=False)
        if votes.is_won:
            votes = Votes(self.voters.last)
            deadline_ms = self._election_deadline(now_ms)
            self._become(Candidate(role.epoch + 1, deadline_ms, votes, self.local.key), effects)
            self._count_own_vote(now_ms, effects)

    def _count_own_vote(self, now_ms: int, effects: list[Effect]) -> None:
        role = self.role
        assert isinstance(role, Candidate)
        role.votes.granted.add(self.local.key.id)
        if role.votes.is_won:
            self._become_leader(role, effects)

    def _become_leader(self, candidate: Candidate, effects: list[Effect]) -> None:
        voters = self.voters.last
        leader = Leader(
            candidate.epoch,
            self.local.key.id,
            self._end_offset,
            frozenset(candidate.votes.granted),
            {voter.key.id: Progress() for voter in voters},
        )
        self._become(leader, effects)
        told = self._voters_to_tell()
        effects.append(
            StartEpoch(
                leader.epoch,
                leader.leader_id,
                tuple(voters.ids),
                tuple(sorted(leader.granting)),
                None if told is None else self.kraft_version.last,
                told,
            )
        )

    def _voters_to_tell(self) -> VoterSet | None:
        """The voters, if the log does not know them as they are: only a dynamic quorum keeps them there."""
        if self.kraft_version.last == 0:
            return None
        voters = self.voters.last
        if self.voters.last_offset == BOOTSTRAP_OFFSET or voters.get(self.local.key.id) != self.local:
            return voters.updated(self.local)
        return None

    def _become(self, role: Role, effects: list[Effect], *, is_durable: bool = True) -> None:
        before = self._role
        if before is not None and type(role) not in TRANSITIONS[type(before)]:
            raise RuntimeError(f"No way leads from {before} to {role}.")
        self._role = role
        if is_durable and not isinstance(role, Resigned):
            effects.append(PersistElection(role.election))

    def _announce(self, effects: list[Effect]) -> None:
        role = self.role
        leader_id = NOBODY if isinstance(role, Resigned) else role.election.leader_id
        changed = LeaderChanged(leader_id, role.epoch)
        if changed != self._announced:
            self._announced = changed
            effects.append(changed)

    # The high watermark

    def _advanced(self, leader: Leader) -> list[Effect]:
        """What a majority has, provided that a record of this epoch is among it (Raft's commit rule)."""
        ends = sorted((progress.end_offset for progress in leader.progress.values()), reverse=True)
        offset = ends[self.voters.last.majority - 1]
        if offset <= leader.start_offset or offset <= leader.high_watermark:
            return []
        leader.high_watermark = offset
        return [HighWatermarkMoved(offset)]

    def _supported(self, level: int) -> list[tuple[int, int]]:
        return [
            self.local.kraft_versions if voter.key.id == self.local.key.id else voter.kraft_versions
            for voter in self.voters.last
        ]

    def _election_deadline(self, now_ms: int) -> int:
        timeout_ms = self._timeouts.election_ms
        return now_ms + timeout_ms + (self._draw(timeout_ms) if timeout_ms else 0)


def _fetched(progress: Progress, offset: int, leader_end_offset: int, now_ms: int) -> None:
    """Note how far a replica has come, and since when it has had what the leader had then."""
    if offset >= leader_end_offset:
        progress.last_caught_up_ms = now_ms
    elif progress.last_fetch_ms >= 0 and offset >= progress.leader_end_offset:
        progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
    progress.end_offset = offset
    progress.leader_end_offset = leader_end_offset
    progress.last_fetch_ms = now_ms
