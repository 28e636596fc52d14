"""The replica's own log grows, is flushed, truncated or replaced, and names voters."""

from __future__ import annotations

from ottla.raft import follower_progress, leading
from ottla.raft.events import (
    KraftVersionAppended,
    LogAppended,
    LogFlushed,
    LogReplaced,
    LogTruncated,
    VotersAppended,
)
from ottla.raft.quorum_state import LogEnd, QuorumState


def on_appended(quorum: QuorumState, event: LogAppended) -> None:
    quorum.end = LogEnd(event.end_epoch, event.end_offset)


def on_flushed(quorum: QuorumState, event: LogFlushed) -> None:
    quorum.flushed_end = LogEnd(event.end_epoch, event.end_offset)
    quorum.end = max(quorum.end, quorum.flushed_end)
    leader = quorum.leader_role
    if leader is None:
        return
    own = leader.progress.get(quorum.local_id)
    if own is not None:
        own.end_offset = event.end_offset
        own.last_fetch_ms = own.last_caught_up_ms = event.now_ms
    leading.advance_high_watermark(quorum, leader, event.now_ms)


def on_truncated(quorum: QuorumState, event: LogTruncated) -> None:
    """Truncated records take the voters that they named with them."""
    quorum.end = LogEnd(event.end_epoch, event.end_offset)
    quorum.flushed_end = min(quorum.flushed_end, quorum.end)
    quorum.voters.truncate_to(event.end_offset)
    quorum.kraft_version.truncate_to(event.end_offset)


def on_replaced(quorum: QuorumState, event: LogReplaced) -> None:
    quorum.end = quorum.flushed_end = LogEnd(event.end_epoch, event.end_offset)
    quorum.voters.clear()
    quorum.kraft_version.clear()


def on_voters_appended(quorum: QuorumState, event: VotersAppended) -> None:
    before = quorum.voters.last
    quorum.voters.add(event.offset, event.voters)
    leader = quorum.leader_role
    if leader is not None:
        follower_progress.change_voters(leader, before, event.voters)


def on_kraft_version_appended(quorum: QuorumState, event: KraftVersionAppended) -> None:
    quorum.kraft_version.add(event.offset, event.level)
    leader = quorum.leader_role
    if event.level and leader is not None:
        leader.reported_voters = None  # from here on the log describes the voters
