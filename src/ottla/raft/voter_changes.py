"""Which changes of the voters the leader of a dynamic quorum may append: one at a time, each committed first.

The functions return the voters to append, or raise VoterChangeRefused.
"""

from __future__ import annotations

from ottla.raft import follower_progress, leading
from ottla.raft.messages import VoterChangeRefused
from ottla.raft.quorum_state import NotLeader, QuorumState
from ottla.raft.roles import Leader
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.errors import ErrorCode


def check_new_voter(quorum: QuorumState, key: ReplicaKey) -> Leader:
    leader = _check_change(quorum, "adding")
    voters = quorum.voters.last
    if voters.get(key.id) is not None:
        raise VoterChangeRefused(
            ErrorCode.DUPLICATE_VOTER,
            f"The voter id for {key} is already part of the set of voters [{voters.keys_text}].",
        )
    return leader


def with_voter(quorum: QuorumState, voter: Voter, now_ms: int) -> VoterSet:
    """The voters after an observer has become one of them."""
    leader = check_new_voter(quorum, voter.key)
    level = quorum.kraft_version.last
    if not voter.supports(level):
        raise VoterChangeRefused(
            ErrorCode.INVALID_REQUEST,
            f"Node {voter.key.id} supports kraft.version {voter.kraft_versions[0]} to "
            f"{voter.kraft_versions[1]}, but the cluster is at {level}.",
        )
    if not follower_progress.has_caught_up(leader, voter.key, now_ms):
        raise VoterChangeRefused(  # commits would wait for it
            ErrorCode.REQUEST_TIMED_OUT,
            f"Node {voter.key.id} has not caught up with the metadata log as an observer; start it, wait "
            "until it has, and try again.",
        )
    # As an observer it may fetch rarely.
    leader.check_quorum_ms = max(leader.check_quorum_ms, now_ms + quorum.timeouts.check_quorum_ms)
    return quorum.voters.last.added(voter)


def without_voter(quorum: QuorumState, key: ReplicaKey) -> VoterSet:
    """The voters after the removal of one."""
    _check_change(quorum, "removing")
    voters = quorum.voters.last
    remaining = voters.removed(key)
    if remaining is None:
        raise VoterChangeRefused(
            ErrorCode.VOTER_NOT_FOUND,
            f"Cannot remove voter {key} from the set of voters [{voters.keys_text}]",
        )
    return remaining


def with_updated_voter(quorum: QuorumState, voter: Voter, now_ms: int) -> VoterSet | None:
    """The voters with what one reports of itself; None if the log need not change."""
    leader = _leader(quorum)
    level = quorum.kraft_version.last
    if leader.high_watermark < 0:
        raise VoterChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT, "The leader has not committed a record of its epoch yet; try again."
        )
    if not voter.supports(level):
        raise VoterChangeRefused(
            ErrorCode.INVALID_REQUEST, f"Node {voter.key.id} does not support kraft.version {level}."
        )
    if level:
        _check_change(quorum, "updating")
    known = quorum.voters.last if level or leader.reported_voters is None else leader.reported_voters
    old = known.get(voter.key.id)
    if old is None or (level and not old.key.matches(voter.key)):
        raise VoterChangeRefused(ErrorCode.VOTER_NOT_FOUND, f"Node {voter.key.id} is not a voter.")
    leading.record_contact(quorum, leader, voter.key.id, now_ms)
    updated = known.updated(voter)
    if level:
        return updated if updated != known else None
    leader.reported_voters = updated  # the log of a static quorum does not describe its voters
    return None


def with_kraft_version(quorum: QuorumState, level: int) -> VoterSet:
    """The voters to append with a higher kraft.version: from then on the log knows their directories."""
    leader = _leader(quorum)
    voters = leader.reported_voters or quorum.voters.last.updated(quorum.local)
    if not all(voter.supports(level) for voter in voters):
        raise ValueError(
            f"Invalid upgrade of kraft.version to {level} because not all of the voters support it"
        )
    return voters


def _leader(quorum: QuorumState) -> Leader:
    if quorum.leader_role is None:
        raise NotLeader
    return quorum.leader_role


def _check_change(quorum: QuorumState, verb: str) -> Leader:
    """Everything before must be committed, and the quorum must be dynamic."""
    leader, level, voters_offset = _leader(quorum), quorum.kraft_version.last, quorum.voters.last_offset
    if leader.high_watermark < 0:
        raise VoterChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            "The leader has not committed a record of its epoch yet, so earlier changes of the voters may be "
            "unfinished; try again.",
        )
    if level < 1:
        raise VoterChangeRefused(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {verb} voter because the kraft.version feature is {level}",
        )
    if voters_offset is None or voters_offset >= leader.high_watermark:
        raise VoterChangeRefused(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The change of the voters at offset {voters_offset} is not committed yet; try again.",
        )
    return leader
