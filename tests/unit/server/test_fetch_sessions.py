"""Who gets a fetch session when there is no room for all."""

from __future__ import annotations

from ottla.host import HostRandom
from ottla.server.fetch_sessions import FetchSession, FetchSessions
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest

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


def test_a_consumer_waits_for_a_session_that_nobody_uses() -> None:
    clock = _Clock()
    sessions = FetchSessions(clock, HostRandom(), 2)
    assert begin(sessions).id
    assert begin(sessions).id
    assert begin(sessions).id == 0
    clock.ms += 120_000
    assert begin(sessions).id
    assert len(sessions) == 2


def test_a_follower_takes_the_place_of_a_consumer_and_never_that_of_another_follower() -> None:
    sessions = FetchSessions(_Clock(), HostRandom(), 2)
    begin(sessions)
    first, second = begin(sessions, 2), begin(sessions, 3)
    assert first.id
    assert second.id
    assert begin(sessions, 4).id == 0
    assert begin(sessions).id == 0
