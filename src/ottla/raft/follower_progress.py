"""What a leader knows of its followers: how far each has fetched, and whether a majority fetches.

The high watermark is the offset up to which a majority of the voters has the log on disk, once that includes
a record of the leader's own epoch (Raft's commit rule).
"""

from __future__ import annotations

from ottla.raft.roles import Leader, Progress
from ottla.raft.voters import ReplicaKey, Voter, VoterSet

OBSERVER_SESSION_MS = 300_000
"""A leader forgets an observer that has not fetched for so long."""
OBSERVERS_MAX = 10_000
CAUGHT_UP_MS_MAX = 3_600_000
"""An observer that becomes a voter must have fetched within this time."""


def record_fetch(progress: Progress, offset: int, leader_end_offset: int, now_ms: int) -> None:
    """A replica has everything before `offset`. Record also when it last had all that the leader had."""
    if offset >= leader_end_offset:
        progress.last_caught_up_ms = now_ms
    elif progress.last_fetch_ms >= 0 and offset >= progress.leader_end_offset:
        progress.last_caught_up_ms = max(progress.last_caught_up_ms, progress.last_fetch_ms)
    progress.end_offset = offset
    progress.leader_end_offset = leader_end_offset
    progress.last_fetch_ms = now_ms


def record_observer_fetch(
    leader: Leader, key: ReplicaKey, offset: int, leader_end_offset: int, now_ms: int
) -> None:
    """As above for a replica that does not vote; also forget silent observers."""
    observers = leader.observers
    for silent in [k for k, p in observers.items() if now_ms - p.last_fetch_ms >= OBSERVER_SESSION_MS]:
        del observers[silent]
    if key in observers or len(observers) < OBSERVERS_MAX:
        record_fetch(observers.setdefault(key, Progress()), offset, leader_end_offset, now_ms)


def record_contact(leader: Leader, local_id: int, voter_id: int, now_ms: int, timeout_ms: int) -> None:
    """A voter fetches. Once a majority has, the leader may lead for another `timeout_ms`."""
    if voter_id in leader.progress:
        leader.fetched_voters.add(voter_id)
    needed = len(leader.progress) // 2 + 1
    if local_id in leader.progress:
        needed -= 1  # the leader itself
    if len(leader.fetched_voters) >= needed:
        leader.fetched_voters.clear()
        leader.check_quorum_ms = now_ms + timeout_ms


def committed_offset(leader: Leader) -> int | None:
    """The new high watermark, None if it does not move."""
    if not leader.progress:
        return None
    ends = sorted((progress.end_offset for progress in leader.progress.values()), reverse=True)
    offset = ends[len(ends) // 2]
    if offset <= leader.start_offset or offset <= leader.high_watermark:
        return None
    return offset


def change_voters(leader: Leader, before: VoterSet, voters: VoterSet) -> None:
    """Keep the progress of each replica when voters become observers or the reverse."""
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
    leader.fetched_voters &= set(progress)


def preferred_successors(leader: Leader, local_id: int, voters: VoterSet) -> tuple[ReplicaKey, ...]:
    """The other voters, the one with the longest log first."""
    others = [voter.key for voter in voters if voter.key.id != local_id]
    return tuple(sorted(others, key=lambda key: -leader.progress[key.id].end_offset))


def silent_voters(
    leader: Leader, local_id: int, voters: VoterSet, now_ms: int, timeout_ms: int
) -> list[Voter]:
    """The other voters that have not fetched for `timeout_ms`, and may not know the leader."""
    return [
        voter
        for voter in voters
        if voter.key.id != local_id
        and not 0 <= now_ms - leader.progress[voter.key.id].last_fetch_ms < timeout_ms
    ]


def has_caught_up(leader: Leader, key: ReplicaKey, now_ms: int) -> bool:
    """Whether an observer has had the whole log recently."""
    progress = leader.observers.get(key)
    return (
        progress is not None
        and progress.last_caught_up_ms >= 0
        and now_ms - progress.last_fetch_ms < CAUGHT_UP_MS_MAX
    )
