"""One replica of the metadata log as a state machine: events and ticks in, effects out.

No IO, no clock, no chance of its own: times come with the events, random draws through a callable. A change
of role goes through `roles.TRANSITIONS`; one that is not there is a mistake of ours and raises.

Two ends of the log are kept apart. What a replica tells others (its votes, its fetches, what it counts for
itself as the leader) is what it has on stable storage: a promise must outlive a crash. A new epoch starts
where the log really ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.raft import follower_progress
from ottla.raft.effects import (
    Ask,
    Effect,
    HighWatermarkMoved,
    LeaderChanged,
    LeadershipLost,
    PersistElection,
    StartEpoch,
)
from ottla.raft.election_state import EPOCH_JUMP_MAX, EPOCH_MAX, NOBODY, ElectionState
from ottla.raft.follower_progress import OBSERVER_SESSION_MS, OBSERVERS_MAX
from ottla.raft.history import History
from ottla.raft.messages import Answer, BeginEpoch, EndEpoch, Request, UpdateVoter, Vote, VoterChangeRefused
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
from ottla.wire import uuid
from ottla.wire.errors import ErrorCode

__all__ = [
    "BOOTSTRAP_OFFSET",
    "OBSERVERS_MAX",
    "OBSERVER_SESSION_MS",
    "NotLeader",
    "Replica",
    "Timeouts",
]

BOOTSTRAP_OFFSET = -1
"""The offset of what `kafka-storage format` wrote: before the first record of the log."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """`controller.quorum.`: `election.timeout.ms`, `fetch.timeout.ms`, `election.backoff.max.ms`."""

    election_ms: int = 1_000
    fetch_ms: int = 2_000
    backoff_max_ms: int = 1_000

    @property
    def check_ms(self) -> int:
        """A leader that a majority has not fetched from for so long steps down."""
        return self.fetch_ms * 3 // 2

    @property
    def begin_ms(self) -> int:
        """How often a leader tells those who do not fetch that it leads."""
        return self.fetch_ms // 2

    @property
    def resend_ms(self) -> int:
        """How often a request without an answer is sent again."""
        return max(min(self.election_ms, self.fetch_ms) // 5, 1)


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
        self._end = (0, 0)  # epoch and offset: comparable as logs are
        self._flushed = (0, 0)
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
        return self.role.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed; -1 while that is not known."""
        role = self.role
        return role.high_watermark if isinstance(role, Leader) else self._followed_high_watermark

    @property
    def end_offset(self) -> int:
        """Up to here the log is on stable storage."""
        return self._flushed[1]

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
        if isinstance(role, Leader):
            if role.progress.keys() <= {self.local.key.id}:
                return None
            return min(role.check_ms, role.begin_ms)
        if isinstance(role, Resigned):
            return min(role.deadline_ms, role.resend_ms) if role.untold else role.deadline_ms
        if not self.is_voter:
            return role.deadline_ms if isinstance(role, (Prospective, Candidate)) else None
        if isinstance(role, (Prospective, Candidate)):
            return min(role.deadline_ms, role.resend_ms)
        return min(role.deadline_ms, role.update_ms) if isinstance(role, Follower) else role.deadline_ms

    # Beginning, and the passing of time

    def start(self, election: ElectionState, end_offset: int, end_epoch: int, now_ms: int) -> list[Effect]:
        """Begin with what was on disk: the election, and the log's end and the epoch of its last record."""
        self._end = self._flushed = (end_epoch, end_offset)
        effects: list[Effect] = []
        self._become(self._first_role(election, end_epoch, now_ms), effects)
        role = self.role
        if self.is_only_voter and isinstance(role, (Unattached, Follower, Resigned)):
            self._become_prospective(now_ms, effects)
        elif isinstance(role, Candidate):
            self._count_own_vote(role, now_ms, effects)
        elif isinstance(role, Resigned):
            self._tell_end(role, now_ms, effects)
        self._announce(effects)
        return effects

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        effects: list[Effect] = []
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return effects
        role = self.role
        if isinstance(role, Leader):
            self._tick_leader(role, now_ms, effects)
        elif isinstance(role, (Prospective, Candidate)):
            self._tick_election(role, now_ms, effects)
        elif isinstance(role, Resigned):
            if now_ms >= role.deadline_ms:
                epoch = min(role.epoch + 1, EPOCH_MAX)
                # Of the last epoch it was the leader: it may vote for no other in that.
                voted = self.local.key if epoch == role.epoch else None
                self._become(Unattached(epoch, self._election_deadline(now_ms), voted=voted), effects)
            else:
                self._tell_end(role, now_ms, effects)
        elif now_ms >= role.deadline_ms:
            self._become_prospective(now_ms, effects)
        elif isinstance(role, Follower):
            self._tell_about_self(role, now_ms, effects)
        self._announce(effects)
        return effects

    def _tick_leader(self, role: Leader, now_ms: int, effects: list[Effect]) -> None:
        if now_ms >= role.check_ms:
            self._resign(role, now_ms, effects)
            return
        role.begin_ms = now_ms + self._timeouts.begin_ms
        voters, own_id = self.voters.last, self.local.key.id
        for voter in follower_progress.silent_voters(role, own_id, voters, now_ms, self._timeouts.begin_ms):
            effects.append(Ask(voter.key.id, BeginEpoch(own_id, role.epoch, voter.key)))

    def _tick_election(self, role: Prospective | Candidate, now_ms: int, effects: list[Effect]) -> None:
        if now_ms < role.deadline_ms:
            self._ask_for_votes(role, now_ms, effects)
        elif not self.is_voter:
            self._become(Unattached(role.epoch, self._election_deadline(now_ms), voted=role.voted), effects)
        elif isinstance(role, Candidate):
            self._become_prospective(now_ms, effects)
        else:
            self._give_up_pre_vote(role, now_ms, effects)

    def _tell_about_self(self, role: Follower, now_ms: int, effects: list[Effect]) -> None:
        """See to it that the leader knows where this voter is and what it supports."""
        role.update_ms = now_ms + self._timeouts.fetch_ms
        known = self.voters.last.get(self.local.key.id)
        if known == self.local if self.kraft_version.last else role.has_updated_leader:
            return
        if self.local.endpoints and self.local.key.directory_id != uuid.ZERO:
            effects.append(Ask(role.leader_id, UpdateVoter(role.epoch, self.local)))

    # This replica's own log

    def appended(self, end_offset: int, end_epoch: int) -> None:
        """The log ends here now; that is not yet on stable storage."""
        self._end = (end_epoch, end_offset)

    def flushed(self, end_offset: int, now_ms: int, *, end_epoch: int | None = None) -> list[Effect]:
        """The log is on stable storage up to `end_offset`; without `end_epoch`: with records of our own."""
        role = self.role
        if end_epoch is None:
            is_own = isinstance(role, Leader) and end_offset > role.start_offset
            end_epoch = role.epoch if is_own else self._flushed[0]
        self._flushed = (end_epoch, end_offset)
        self._end = max(self._end, self._flushed)
        if not isinstance(role, Leader):
            return []
        progress = role.progress.get(self.local.key.id)
        if progress is not None:
            progress.end_offset = end_offset
            progress.last_fetch_ms = progress.last_caught_up_ms = now_ms
        return self._advanced(role, now_ms)

    def truncated(self, end_offset: int, end_epoch: int) -> None:
        """The log was cut off, and what stood there never was."""
        self._end = (end_epoch, end_offset)
        self._flushed = min(self._flushed, self._end)
        self.voters.truncate_to(end_offset)
        self.kraft_version.truncate_to(end_offset)

    def replaced_by_snapshot(self, end_offset: int, end_epoch: int) -> None:
        """The log goes on from a snapshot, which is on stable storage; the voters it names are to follow."""
        self._end = self._flushed = (end_epoch, end_offset)
        self.voters.clear()
        self.kraft_version.clear()

    def voters_written(self, offset: int, voters: VoterSet) -> None:
        """A VotersRecord stands at `offset` of the log: it holds from now on, committed or not."""
        before = self.voters.last
        self.voters.add(offset, voters)
        if isinstance(self._role, Leader):
            follower_progress.take_voters(self._role, before, voters)

    def kraft_version_written(self, offset: int, level: int) -> None:
        """A KRaftVersionRecord stands at `offset` of the log."""
        self.kraft_version.add(offset, level)
        if level and isinstance(self._role, Leader):
            self._role.known_voters = None

    # Followers of this replica

    def fetched_by(self, key: ReplicaKey, offset: int, now_ms: int) -> list[Effect]:
        """A replica fetches from `offset`, so it has everything before it."""
        role = self.role
        if not isinstance(role, Leader) or key.id < 0 or key.id == self.local.key.id:
            return []
        if not self.voters.last.is_voter(key):
            follower_progress.note_observer(role, key, offset, self.end_offset, now_ms)
            return []
        follower_progress.note_fetch(role.progress[key.id], offset, self.end_offset, now_ms)
        follower_progress.note_contact(role, self.local.key.id, key.id, now_ms, self._timeouts.check_ms)
        return self._advanced(role, now_ms)

    def contacted_by(self, key: ReplicaKey, now_ms: int) -> None:
        """A voter loads a snapshot, which shows that it follows."""
        role = self.role
        if isinstance(role, Leader) and key.id != self.local.key.id and self.voters.last.is_voter(key):
            follower_progress.note_contact(role, self.local.key.id, key.id, now_ms, self._timeouts.check_ms)

    def _advanced(self, leader: Leader, now_ms: int) -> list[Effect]:
        offset = follower_progress.committed_offset(leader)
        if offset is None:
            return []
        leader.high_watermark = offset
        effects: list[Effect] = [HighWatermarkMoved(offset)]
        voters_offset = self.voters.last_offset
        if not self.is_voter and (voters_offset is None or voters_offset < offset):
            self._resign(leader, now_ms, effects)  # its removal is committed
            self._announce(effects)
        return effects

    # The leader that this replica follows

    def heard_of(self, leader_id: int, epoch: int, now_ms: int) -> list[Effect]:
        """Somebody says who leads an epoch (-1: nobody yet). What is older than ours changes nothing."""
        effects: list[Effect] = []
        self._hear_of(leader_id, epoch, now_ms, effects)
        self._announce(effects)
        return effects

    def _hear_of(self, leader_id: int, epoch: int, now_ms: int, effects: list[Effect]) -> None:
        role = self.role
        if epoch < role.epoch or self._keeps_leading:
            return
        if leader_id == self.local.key.id:
            leader_id = NOBODY  # of a run before this one: that epoch is over
        if leader_id == NOBODY:
            if epoch > role.epoch:
                self._become(Unattached(epoch, self._unattached_deadline(now_ms)), effects)
        elif epoch > role.epoch or role.leader_id == NOBODY or isinstance(role, Unattached):
            voted = role.election.voted if epoch == role.epoch else None
            self._become(self._follower(epoch, leader_id, voted, now_ms), effects)

    def fetched_from_leader(self, now_ms: int) -> None:
        """The leader answered a fetch."""
        role = self.role
        if isinstance(role, Follower):
            role.deadline_ms = now_ms + self._timeouts.fetch_ms
            role.has_fetched = True

    def follow_high_watermark(self, offset: int, end_offset: int) -> list[Effect]:
        """The leader says what is committed; of that, this log holds what is below `end_offset`."""
        offset = min(offset, end_offset)
        if isinstance(self.role, Leader) or offset <= self._followed_high_watermark:
            return []
        self._followed_high_watermark = offset
        return [HighWatermarkMoved(offset)]

    # What others ask

    def asked(self, request: Request, now_ms: int) -> tuple[list[Effect], Answer]:
        """Another replica's request: what to do, and then the answer."""
        effects: list[Effect] = []
        is_granted = False
        if isinstance(request, Vote):
            error, is_granted = self._asked_for_vote(request, now_ms, effects)
        elif isinstance(request, BeginEpoch):
            error = self._told_of_leader(request, now_ms, effects)
            if error is ErrorCode.NONE and not self._is_addressed_to(request.receiver):
                error = ErrorCode.INVALID_VOTER_KEY
        elif isinstance(request, EndEpoch):
            error = self._told_of_leader(request, now_ms, effects)
            role = self.role
            if error is ErrorCode.NONE and isinstance(role, Follower) and role.leader_id == request.leader_id:
                role.deadline_ms = now_ms + self._successor_backoff(request.successors)
        else:
            raise TypeError(f"{request} is for the driver of a leader")
        self._announce(effects)
        return effects, Answer(error, self.leader_id, self.epoch, is_granted)

    def _asked_for_vote(self, vote: Vote, now_ms: int, effects: list[Effect]) -> tuple[ErrorCode, bool]:
        is_illegal = vote.last_epoch > vote.epoch if vote.is_pre_vote else vote.last_epoch >= vote.epoch
        if vote.last_offset < 0 or vote.last_epoch < 0 or is_illegal:
            return ErrorCode.INVALID_REQUEST, False
        error = self._judge_peer(vote.epoch, vote.candidate.id)
        if error is not ErrorCode.NONE:
            return error, False
        self._hear_of(NOBODY, vote.epoch, now_ms, effects)
        if not self._is_addressed_to(vote.receiver):
            return ErrorCode.INVALID_VOTER_KEY, False
        is_granted = vote.epoch == self.epoch and self._would_grant(vote)
        role = self.role
        if is_granted and not vote.is_pre_vote and role.election.voted is None:
            deadline_ms = self._election_deadline(now_ms)  # the candidate has at least as good a chance
            if isinstance(role, Unattached):
                self._become(Unattached(role.epoch, deadline_ms, role.leader_id, vote.candidate), effects)
            elif isinstance(role, Prospective):
                role.voted, role.deadline_ms = vote.candidate, deadline_ms
                effects.append(PersistElection(role.election))
        return ErrorCode.NONE, is_granted

    def _would_grant(self, vote: Vote) -> bool:
        role = self.role
        is_up_to_date = (vote.last_epoch, vote.last_offset) >= self._flushed
        if isinstance(role, Leader):
            return False
        if vote.is_pre_vote:
            return is_up_to_date and not (isinstance(role, Follower) and role.has_fetched)
        if not isinstance(role, (Unattached, Prospective)):
            return False
        if role.voted is not None:
            return role.voted.id == vote.candidate.id and (
                role.voted.directory_id in (uuid.ZERO, vote.candidate.directory_id)
            )
        return role.leader_id == NOBODY and is_up_to_date

    def _told_of_leader(self, told: BeginEpoch | EndEpoch, now_ms: int, effects: list[Effect]) -> ErrorCode:
        error = self._judge_peer(told.epoch, told.leader_id)
        if error is not ErrorCode.NONE:
            return error
        if told.leader_id != self.local.key.id and (
            self._keeps_leading
            or (told.epoch == self.epoch and self.leader_id not in (NOBODY, told.leader_id))
        ):
            return ErrorCode.INCONSISTENT_VOTER_SET
        self._hear_of(told.leader_id, told.epoch, now_ms, effects)
        return ErrorCode.NONE

    def _judge_peer(self, epoch: int, peer_id: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        # One damaged or forged request must not use up the epochs, nor bring the quorum close to their end.
        is_absurd = epoch - self.epoch > EPOCH_JUMP_MAX
        return ErrorCode.INVALID_REQUEST if peer_id < 0 or is_absurd else ErrorCode.NONE

    def _is_addressed_to(self, key: ReplicaKey | None) -> bool:
        """Whether a request that names its receiver (None: it does not) means this replica."""
        return key is None or self.local.key.matches(key)

    @property
    def _keeps_leading(self) -> bool:
        """The only voter gives way to nobody: whoever was elected, it was by other voters than ours."""
        return isinstance(self.role, Leader) and self.is_only_voter

    def _successor_backoff(self, successors: tuple[ReplicaKey, ...]) -> int:
        """How long to wait after the leader resigned: those before us in its list get their chance first."""
        longest_ms = self._timeouts.backoff_max_ms
        for position, key in enumerate(successors):
            if self.local.key.matches(key):
                if position == 0:
                    return 0
                return min(longest_ms, (longest_ms >> (len(successors) - 1)) << (position - 1))
        return longest_ms if successors else 0

    # What others answer

    def answered(self, replica_id: int, request: Request, answer: Answer, now_ms: int) -> list[Effect]:
        """The answer to a request that an `Ask` had sent."""
        effects: list[Effect] = []
        self._take_answer(replica_id, request, answer, now_ms, effects)
        self._announce(effects)
        return effects

    def _take_answer(
        self, replica_id: int, request: Request, answer: Answer, now_ms: int, effects: list[Effect]
    ) -> None:
        role = self.role
        if answer.error is ErrorCode.UNSUPPORTED_VERSION and isinstance(request, Vote):
            if isinstance(role, Prospective) and request.is_pre_vote and request.epoch == role.epoch:
                self._become_candidate(now_ms, effects)  # a voter that knows no pre-votes
            return
        if answer.epoch < role.epoch or answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return
        self._hear_of(answer.leader_id, answer.epoch, now_ms, effects)
        role = self.role
        if answer.error is not ErrorCode.NONE or request.epoch != role.epoch:
            return
        if isinstance(request, Vote):
            self._count_vote(replica_id, request, answer.is_granted, now_ms, effects)
        elif isinstance(request, EndEpoch) and isinstance(role, Resigned):
            role.untold.discard(replica_id)
        elif isinstance(request, UpdateVoter) and isinstance(role, Follower):
            role.has_updated_leader = True

    def _count_vote(
        self, voter_id: int, request: Vote, is_granted: bool, now_ms: int, effects: list[Effect]
    ) -> None:
        role = self.role
        if not isinstance(role, Prospective if request.is_pre_vote else Candidate):
            return
        assert isinstance(role, (Prospective, Candidate))
        votes = role.votes
        if votes.voters.get(voter_id) is None:
            return
        if is_granted:
            votes.granted.add(voter_id)
            votes.rejected.discard(voter_id)
        elif voter_id not in votes.granted:
            votes.rejected.add(voter_id)
        if votes.is_won:
            if isinstance(role, Candidate):
                self._become_leader(role, now_ms, effects)
            else:
                self._become_candidate(now_ms, effects)
        elif votes.is_lost and isinstance(role, Prospective):
            self._give_up_pre_vote(role, now_ms, effects)

    # Changes of the voters, on the leader

    def check_voter_change(self, what: str) -> None:
        """VoterChangeRefused unless the voters may change now. `what`: "adding" or "removing"."""
        follower_progress.check_change(self._leader(), self.kraft_version.last, self.voters, what)

    def check_new_voter(self, key: ReplicaKey) -> None:
        self.check_voter_change("adding")
        follower_progress.check_new(self.voters.last, key)

    def with_voter(self, voter: Voter, now_ms: int) -> VoterSet:
        """The voters to write to the log when an observer becomes one of them."""
        self.check_new_voter(voter.key)
        level = self.kraft_version.last
        if not voter.kraft_versions[0] <= level <= voter.kraft_versions[1]:
            raise VoterChangeRefused(
                ErrorCode.INVALID_REQUEST,
                f"Node {voter.key.id} supports kraft.version {voter.kraft_versions[0]} to "
                f"{voter.kraft_versions[1]}, and the cluster is at {level}.",
            )
        leader = self._leader()
        follower_progress.check_caught_up(leader, voter.key, now_ms)
        leader.check_ms = max(leader.check_ms, now_ms + self._timeouts.check_ms)  # it may fetch seldom as yet
        return self.voters.last.added(voter)

    def without_voter(self, key: ReplicaKey) -> VoterSet:
        """The voters to write to the log when one of them is to vote no more."""
        self.check_voter_change("removing")
        return follower_progress.without(self.voters.last, key)

    def with_updated_voter(self, voter: Voter, now_ms: int) -> VoterSet | None:
        """The voters to write when one says anew what it is; None where the log does not keep them."""
        leader = self._leader()
        level = self.kraft_version.last
        if leader.high_watermark < 0:
            raise VoterChangeRefused(
                ErrorCode.REQUEST_TIMED_OUT, "The epoch is not committed yet; try again."
            )
        if not voter.kraft_versions[0] <= level <= voter.kraft_versions[1]:
            raise VoterChangeRefused(
                ErrorCode.INVALID_REQUEST, f"Node {voter.key.id} does not support kraft.version {level}."
            )
        if level:
            follower_progress.check_change(leader, level, self.voters, "updating")
        known = self.voters.last if level or leader.known_voters is None else leader.known_voters
        old = known.get(voter.key.id)
        if old is None or (level and not old.key.matches(voter.key)):
            raise VoterChangeRefused(ErrorCode.VOTER_NOT_FOUND, f"Node {voter.key.id} is not a voter.")
        follower_progress.note_contact(
            leader, self.local.key.id, voter.key.id, now_ms, self._timeouts.check_ms
        )
        updated = known.updated(voter)
        if level:
            return updated if updated != known else None
        leader.known_voters = updated
        return None

    def upgrade(self, level: int) -> VoterSet:
        """The voters to write with a raised kraft.version: from then on the log knows their directories."""
        leader = self._leader()
        voters = leader.known_voters or self.voters.last.updated(self.local)
        if not all(voter.kraft_versions[0] <= level <= voter.kraft_versions[1] for voter in voters):
            raise ValueError(
                f"Invalid upgrade of kraft.version to {level} because not all of the voters support it"
            )
        return voters

    def resign(self, now_ms: int) -> list[Effect]:
        """Lead no longer: the node shuts down, or has lost its log."""
        effects: list[Effect] = []
        if isinstance(self.role, Leader):
            self._resign(self.role, now_ms, effects)
        return effects

    def _leader(self) -> Leader:
        if not isinstance(self.role, Leader):
            raise NotLeader
        return self.role

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
            return self._follower(election.epoch, election.leader_id, election.voted, now_ms)
        return Unattached(election.epoch, deadline_ms, election.leader_id, election.voted)

    def _follower(self, epoch: int, leader_id: int, voted: ReplicaKey | None, now_ms: int) -> Follower:
        fetch_ms = now_ms + self._timeouts.fetch_ms
        return Follower(epoch, fetch_ms, leader_id, voted, update_ms=fetch_ms)

    def _become_prospective(self, now_ms: int, effects: list[Effect]) -> None:
        role = self.role
        votes = Votes(self.voters.last, granted={self.local.key.id})
        election = role.election
        leader_id = NOBODY if election.leader_id == self.local.key.id else election.leader_id
        deadline_ms = self._election_deadline(now_ms)
        prospective = Prospective(role.epoch, deadline_ms, votes, leader_id, election.voted)
        self._become(prospective, effects, is_durable=False)
        if votes.is_won:
            self._become_candidate(now_ms, effects)
        else:
            self._ask_for_votes(prospective, now_ms, effects)

    def _become_candidate(self, now_ms: int, effects: list[Effect]) -> None:
        deadline_ms = self._election_deadline(now_ms)
        if self.epoch >= EPOCH_MAX:  # there is no epoch left to be elected in
            voted = self.role.election.voted
            self._become(Unattached(self.epoch, deadline_ms, voted=voted), effects)
            return
        candidate = Candidate(self.epoch + 1, deadline_ms, Votes(self.voters.last), self.local.key)
        self._become(candidate, effects)
        self._count_own_vote(candidate, now_ms, effects)

    def _count_own_vote(self, candidate: Candidate, now_ms: int, effects: list[Effect]) -> None:
        if self.is_voter:
            candidate.votes.granted.add(self.local.key.id)
        if candidate.votes.is_won:
            self._become_leader(candidate, now_ms, effects)
        else:
            self._ask_for_votes(candidate, now_ms, effects)

    def _ask_for_votes(self, role: Prospective | Candidate, now_ms: int, effects: list[Effect]) -> None:
        role.resend_ms = now_ms + self._timeouts.resend_ms
        if role.votes.is_lost or not self.is_voter:
            role.resend_ms = role.deadline_ms  # nothing to win any more: wait for the end
            return
        last_epoch, last_offset = self._flushed
        is_pre_vote = isinstance(role, Prospective)
        for voter in role.votes.unrecorded:
            vote = Vote(role.epoch, self.local.key, last_epoch, last_offset, is_pre_vote, voter.key)
            effects.append(Ask(voter.key.id, vote))

    def _give_up_pre_vote(self, role: Prospective, now_ms: int, effects: list[Effect]) -> None:
        """Not elected, so nothing has changed: follow the leader again if one is known."""
        if role.leader_id != NOBODY:
            self._become(self._follower(role.epoch, role.leader_id, role.voted, now_ms), effects)
        else:
            deadline_ms = self._election_deadline(now_ms)
            self._become(Unattached(role.epoch, deadline_ms, voted=role.voted), effects)

    def _become_leader(self, candidate: Candidate, now_ms: int, effects: list[Effect]) -> None:
        voters = self.voters.last
        leader = Leader(
            candidate.epoch,
            self.local.key.id,
            self._end[1],
            frozenset(candidate.votes.granted),
            {voter.key.id: Progress() for voter in voters},
            check_ms=now_ms + self._timeouts.check_ms,
            begin_ms=now_ms + self._timeouts.begin_ms,
        )
        if self.kraft_version.last == 0:
            leader.known_voters = voters.updated(self.local)
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
        for voter in voters:
            if voter.key.id != self.local.key.id:
                effects.append(Ask(voter.key.id, BeginEpoch(leader.leader_id, leader.epoch, voter.key)))

    def _voters_to_tell(self) -> VoterSet | None:
        """The voters, if the log does not know them as they are: only a dynamic quorum keeps them there."""
        if self.kraft_version.last == 0:
            return None
        voters = self.voters.last
        if self.voters.last_offset == BOOTSTRAP_OFFSET or voters.get(self.local.key.id) != self.local:
            return voters.updated(self.local)
        return None

    def _resign(self, role: Leader, now_ms: int, effects: list[Effect]) -> None:
        voters, own_id = self.voters.last, self.local.key.id
        successors = follower_progress.preferred_successors(role, own_id, voters)
        untold = {key.id for key in successors}
        resigned = Resigned(role.epoch, self._election_deadline(now_ms), own_id, successors, untold)
        self._become(resigned, effects)
        self._tell_end(resigned, now_ms, effects)

    def _tell_end(self, role: Resigned, now_ms: int, effects: list[Effect]) -> None:
        role.resend_ms = now_ms + self._timeouts.resend_ms
        request = EndEpoch(role.leader_id, role.epoch, role.successors)
        effects.extend(Ask(voter_id, request) for voter_id in sorted(role.untold))

    def _become(self, role: Role, effects: list[Effect], *, is_durable: bool = True) -> None:
        before = self._role
        if before is not None and type(role) not in TRANSITIONS[type(before)]:
            raise RuntimeError(f"No way leads from {before} to {role}.")
        self._role = role
        if isinstance(before, Leader):
            self._followed_high_watermark = max(self._followed_high_watermark, before.high_watermark)
            effects.append(LeadershipLost(before.epoch))
        if is_durable and not isinstance(role, Resigned):
            effects.append(PersistElection(role.election))

    def _announce(self, effects: list[Effect]) -> None:
        role = self.role
        leader_id = NOBODY if isinstance(role, Resigned) else role.leader_id
        known = self._announced
        if known is None or known.leader_id != leader_id or known.epoch != role.epoch:
            self._announced = LeaderChanged(leader_id, role.epoch)
            effects.append(self._announced)

    # Times

    def _election_deadline(self, now_ms: int) -> int:
        timeout_ms = self._timeouts.election_ms
        return now_ms + timeout_ms + (self._draw(timeout_ms) if timeout_ms else 0)

    def _unattached_deadline(self, now_ms: int) -> int:
        """A higher epoch alone does not put an election off that is due."""
        role = self.role
        if isinstance(role, (Leader, Follower)) or (isinstance(role, Prospective) and role.votes.is_lost):
            return self._election_deadline(now_ms)
        return max(role.deadline_ms, now_ms)
