"""The allocation of fetch sessions when the cache is full, and the state that a session sends."""

from __future__ import annotations

from typing import Any

from ottla.host import HostRandom
from ottla.server.handlers.fetch import is_news
from ottla.server.replicas.fetch_sessions import FetchSession, FetchSessions
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

VERSION = 17


class _Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def begin(sessions: FetchSessions, replica_id: int = -1) -> FetchSession:
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=replica_id),
        session_epoch=0,
        topics=[
            FetchRequest.FetchTopic(topic_id=b"t" * 16, partitions=[FetchRequest.FetchPartition(partition=0)])
        ],
    )
    session = sessions.resolve(request, VERSION)
    assert not isinstance(session, ErrorCode)
    return session


def test_a_consumer_needs_an_idle_session() -> None:
    clock = _Clock()
    sessions = FetchSessions(clock, HostRandom(), 2)
    assert begin(sessions).id
    assert begin(sessions).id
    assert begin(sessions).id == 0
    clock.ms += 120_000
    assert begin(sessions).id
    assert len(sessions) == 2


def test_a_follower_evicts_consumers_but_no_followers() -> None:
    sessions = FetchSessions(_Clock(), HostRandom(), 2)
    begin(sessions)
    first, second = begin(sessions, 2), begin(sessions, 3)
    assert first.id
    assert second.id
    assert begin(sessions, 4).id == 0
    assert begin(sessions).id == 0


def _fetch_again(sessions: FetchSessions, session: FetchSession, replica_id: int, *, epoch: int) -> None:
    """The next fetch of the session, by a client whose last record now has `epoch`."""
    asked = FetchRequest.FetchPartition(partition=0, fetch_offset=79, last_fetched_epoch=epoch)
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=replica_id),
        session_id=session.id,
        session_epoch=session.epoch,
        topics=[FetchRequest.FetchTopic(topic_id=b"t" * 16, partitions=[asked])],
    )
    assert sessions.resolve(request, VERSION) is session


def _told(high_watermark: int, **fields: Any) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(high_watermark=high_watermark, log_start_offset=0, **fields)


def test_a_repeated_partition_gets_the_watermark_again() -> None:
    sessions = FetchSessions(_Clock(), HostRandom(), 2)
    session = begin(sessions, replica_id=2)
    (fetched,) = session.partitions.values()
    diverging = FetchResponse.EpochEndOffset(epoch=0, end_offset=79)
    assert is_news(fetched, _told(79, diverging_epoch=diverging), 0, True)
    # Its log end is unchanged, so no records will bring the watermark along.
    assert is_news(fetched, _told(79), 0, True)
    assert not is_news(fetched, _told(79), 0, True)
    # The response was of an outdated leader epoch, so the follower dropped it.
    _fetch_again(sessions, session, 2, epoch=3)
    assert is_news(fetched, _told(79), 0, True)


def test_an_unchanged_watermark_is_not_sent_again() -> None:
    sessions = FetchSessions(_Clock(), HostRandom(), 2)
    session = begin(sessions)
    (fetched,) = session.partitions.values()
    assert is_news(fetched, _told(79), 0, True)
    _fetch_again(sessions, session, -1, epoch=3)
    assert not is_news(fetched, _told(79), 0, True)
