"""What a leader keeps of its followers: how far each has come, whether a majority fetches, who may vote.

The high watermark is what a majority of the voters has on disk, once a record of the leader's own epoch is
among it (Raft's commit rule). Voters change one at a time, each change after the one before is committed.
"""

from __future__ import annotations

from ottla.raft.history import History
from ottla.raft.messages import VoterChangeRefused
from ottla.raft.roles import Leader, Progress
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.errors import ErrorCode

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for so long is forgotten."""
OBSERVERS_MAX = 10_000
CAUGHT_UP_MS_MAX = 3_600_000
"""Who is to become a voter must have fetched within this time."""


def note_fetch(progress: Progress, offset: int, leader_end_offset: int, now_ms: int) -> None:
    """Note how far a replica has come, and since when it has had what the leader had then."""
    if offset >= leader_end_offset:
        progress.last_caught_up_ms = now_ms
    elif progress.last_fetch_ms >= 0 and offset >= progress.leader_end_offset:
        progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
    progress.end_offset = offset
    progress.leader_end_offset = leader_end_offset
    progress.last_fetch_ms = now_ms


def note_observer(leader: Leader, key: ReplicaKey, offset: int, leader_end_offset: int, now_ms: int) -> None:
    """As above for a replica that does not vote; those who went silent are forgotten."""
    observers = leader.observers
    for silent in [k for k, p in observers.items() if now_ms - p.last_fetch_ms >= OBSERVER_SESSION_MS]:
        del observers[silent]
    if key in observers or len(observers) < OBSERVERS_MAX:
        note_fetch(observers.setdefault(key, Progress()), offset, leader_end_offset, now_ms)


def note_contact(leader: Leader, local_id: int, key_id: int, now_ms: int, check_timeout_ms: int) -> None:
    """A replica fetches: once a majority of the voters has, the leader is sure of itself for a while."""
    if key_id in leader.progress:
        leader.fetched.add(key_id)
    needed = len(leader.progress) // 2 + 1
    if local_id in leader.progress:
        needed -= 1  # the leader itself
    if len(leader.fetched) >= needed:
        leader.fetched.clear()
        leader.check_ms = now_ms + check_timeout_ms


def committed_offset(leader: Leader) -> int | None:
    """The new high watermark, None if it does not move."""
    if not leader.progress:
        return None
    ends = sorted((progress.end_offset for progress in leader.progress.values()), reverse=True)
    offset = ends[len(ends) // 2]
    if offset <= leader.start_offset or offset <= leader.high_watermark:
        return None
    return offset


def take_voters(leader: Leader, before: VoterSet, voters: VoterSet) -> None:
    """Keep what is known of each replica when voters become observers or the reverse."""
    progress = {}
    for voter in voters:
        old = before.get(voter.key.id)
        if old is not None and old.key.matches(voter.key) and voter.key.id in leader.progress:
            progress[voter.key.id] = leader.progress[voter.key.id]
        else:
            progress[voter.key.id] = leader.observers.get(voter.key, Progress())
        leader.observers.pop(voter.key, None)
    for voter in before:
        if voter.key.id in leader.progress and not voters.is_voter(voter.key):
            leader.observers[voter.key] = leader.progress[voter.key.id]
    leader.progress = progress
    leader.fetched &= set(progress)


def preferred_successors(leader: Leader, local_id: int, voters: VoterSet) -> tuple[ReplicaKey, ...]:
    """The other voters, those who have most of the log first."""
    others = [voter.key for voter in voters if voter.key.id != local_id]
    return tuple(sorted(others, key=lambda key: -leader.progress[key.id].end_offset))


def silent_voters(
    leader: Leader, local_id: int, voters: VoterSet, now_ms: int, timeout_ms: int
) -> list[Voter]:
    """The other voters that have not fetched for `timeout_ms`: they may not know who leads."""
    return [
        voter
        for voter in voters
        if voter.key.id != local_id
        and not 0 <= now_ms - leader.progress[voter.key.id].last_fetch_ms < timeout_ms
    ]


# Changes of the voters


def check_change(leader: Leader, kraft_version: int, voters: History[VoterSet], what: str) -> None:
    """VoterChangeRefused unless everything before is committed and the quorum is a dynamic one."""
    if leader.high_watermark < 0:
        raise VoterChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            "The leader has not committed a record of its epoch yet, so earlier changes of the voters may be "
            "unfinished; try again.",
        )
    if kraft_version < 1:
        raise VoterChangeRefused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {what} voter because the kraft.version feature is {kraft_version}",
        )
    if voters.last_offset is None or voters.last_offset >= leader.high_watermark:
        raise VoterChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The change of the voters at offset {voters.last_offset} is not committed yet; try again.",
        )


def check_caught_up(leader: Leader, key: ReplicaKey, now_ms: int) -> None:
    """VoterChangeRefused unless an observer has lately had all of the log: else commits would wait for it."""
    progress = leader.observers.get(key)
    is_caught_up = (
        progress is not None
        and progress.last_caught_up_ms >= 0
        and now_ms - progress.last_fetch_ms < CAUGHT_UP_MS_MAX
    )
    if not is_caught_up:
        raise VoterChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"Node {key.id} has not caught up with the metadata log as an observer; start it, wait until it "
            "has, and try again.",
        )


def check_new(voters: VoterSet, key: ReplicaKey) -> None:
    if voters.get(key.id) is not None:
        raise VoterChangeRefused(
            ErrorCode.DUPLICATE_VOTER,
            f"The voter id for {key} is already part of the set of voters [{voters.keys_text}].",
        )


def without(voters: VoterSet, key: ReplicaKey) -> VoterSet:
    remaining = voters.removed(key)
    if remaining is None:
        raise VoterChangeRefused(
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {key} from the set of voters [{voters.keys_text}]",
        )
    return remaining
