"""What one replica of the metadata log knows of its quorum, and how it changes its role.

A change of role goes through `roles.TRANSITIONS`; one that is not there is a bug and raises.

The replica keeps two ends of its log. What it says to others (in votes and fetches, and what it counts for
itself as a leader) is the end on stable storage: a promise must survive a crash. A new epoch starts at the
end of the log itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.raft.effects import Effect, LeaderChanged, LeadershipLost, PersistElection
from ottla.raft.election_state import NOBODY
from ottla.raft.log_history import LogHistory
from ottla.raft.roles import TRANSITIONS, Follower, Leader, Prospective, Resigned, Role
from ottla.raft.voters import ReplicaKey, Voter, VoterSet

BOOTSTRAP_OFFSET = -1
"""The offset of what `kafka-storage format` wrote: before the first record of the log."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """`controller.quorum.`: `election.timeout.ms`, `fetch.timeout.ms`, `election.backoff.max.ms`."""

    election_ms: int = 1_000
    fetch_ms: int = 2_000
    backoff_max_ms: int = 1_000

    @property
    def check_quorum_ms(self) -> int:
        """A leader resigns if a majority has not fetched for so long."""
        return self.fetch_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        """How often a leader sends BeginEpoch to voters that do not fetch."""
        return self.fetch_ms // 2

    @property
    def resend_ms(self) -> int:
        """How often a request without a response is sent again."""
        return max(min(self.election_ms, self.fetch_ms) // 5, 1)


class NotLeader(Exception):
    """Only the leader can do what was requested."""


class LogEnd(NamedTuple):
    """The epoch of the last record, and the offset after it: of two logs the greater is more up to date."""

    epoch: int
    offset: int


class QuorumState:
    """The state that the handlers of events read and change. They add the effects to `effects`."""

    def __init__(
        self, local: Voter, static_voters: VoterSet, timeouts: Timeouts, draw: Callable[[int], int]
    ) -> None:
        self.local = local
        self.local_id = local.key.id
        self.voters: LogHistory[VoterSet] = LogHistory(static_voters)
        self.kraft_version: LogHistory[int] = LogHistory(0)
        self.timeouts = timeouts
        self.effects: list[Effect] = []
        self.end = LogEnd(0, 0)
        self.flushed_end = LogEnd(0, 0)
        self.leader_high_watermark = -1  # the highest that this replica has followed, or led to
        self._draw = draw
        self._role: Role | None = None
        self._announced: LeaderChanged | None = None

    @property
    def role(self) -> Role:
        if self._role is None:
            raise RuntimeError("The replica was not started.")
        return self._role

    @property
    def is_started(self) -> bool:
        return self._role is not None

    @property
    def leader_role(self) -> Leader | None:
        """The role of a replica that leads, with what only a leader knows."""
        return self._role if isinstance(self._role, Leader) else None

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed; -1 while that is not known."""
        role = self.role
        return role.high_watermark if isinstance(role, Leader) else self.leader_high_watermark

    @property
    def is_voter(self) -> bool:
        return self.voters.last.is_voter(self.local.key)

    @property
    def is_only_voter(self) -> bool:
        return self.voters.last.is_only_voter(self.local.key)

    @property
    def is_only_voter_leading(self) -> bool:
        """Such a leader never follows: another leader was elected by the voters of another quorum."""
        return isinstance(self.role, Leader) and self.is_only_voter

    def is_receiver(self, key: ReplicaKey | None) -> bool:
        """Whether a request names this replica as its receiver, or (None) names none."""
        return key is None or self.local.key.matches(key)

    def emit(self, effect: Effect) -> None:
        self.effects.append(effect)

    def become(self, role: Role, *, is_durable: bool = True) -> None:
        """Change the role. `is_durable`: a restart must know of it."""
        before = self._role
        if before is not None and type(role) not in TRANSITIONS[type(before)]:
            raise RuntimeError(f"There is no transition from {before} to {role}.")
        self._role = role
        if isinstance(before, Leader):
            self.leader_high_watermark = max(self.leader_high_watermark, before.high_watermark)
            self.emit(LeadershipLost(before.epoch))
        if is_durable and not isinstance(role, Resigned):
            self.emit(PersistElection(role.election))

    def announce_leader(self) -> None:
        """Say who leads which epoch, if that has changed since it was said last."""
        role = self.role
        leader_id = NOBODY if isinstance(role, Resigned) else role.leader_id
        announced = self._announced
        if announced is None or announced.leader_id != leader_id or announced.epoch != role.epoch:
            self._announced = LeaderChanged(leader_id, role.epoch)
            self.emit(self._announced)

    def election_deadline(self, now_ms: int) -> int:
        """A random time between one and two election timeouts from now."""
        timeout_ms = self.timeouts.election_ms
        return now_ms + timeout_ms + (self._draw(timeout_ms) if timeout_ms else 0)

    def unattached_deadline(self, now_ms: int) -> int:
        """When to start an election in a higher epoch: that epoch alone does not postpone a due election."""
        role = self.role
        if isinstance(role, (Leader, Follower)) or (isinstance(role, Prospective) and role.votes.is_lost):
            return self.election_deadline(now_ms)
        return max(role.deadline_ms, now_ms)
