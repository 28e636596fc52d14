"""Incremental fetch sessions (KIP-227): the node remembers a client's partitions, so that requests name only
changes.

A session keeps its partitions in the order in which they are served next: one that returned data moves to the
end, so that no partition starves behind a busy one. Rule: only a request with the session's id and its next
epoch changes a session; any other request is refused and has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.ports import Clock, Random
from ottla.rare_paths import rarely
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from ottla.server.replicas.partition import Partition

EPOCH_FINAL = -1
EPOCH_INITIAL = 0
_EPOCH_MAX = 0x7FFFFFFF
_EVICTION_MS = 120_000

PartitionKey = tuple[bytes | str, int]


class FetchedPartition:
    """A partition in a session, and the state that was last sent to the client."""

    __slots__ = (
        "fetch_offset",
        "hosted",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
    )

    def __init__(self, topic: bytes | str, asked: FetchRequest.FetchPartition) -> None:
        self.topic = topic  # an id if the request names topics by id, else a name
        self.index = asked.partition
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.hosted: Partition | None = None  # cached for a follower until it sends a change
        self.update(asked)

    def update(self, asked: FetchRequest.FetchPartition) -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset  # the follower's
        self.hosted = None


class FetchSession:
    """The partitions of one client's fetches. Session id 0 is a fetch without a session."""

    __slots__ = (
        "by_id",
        "created_ms",
        "epoch",
        "id",
        "is_follower",
        "is_incremental",
        "partitions",
        "used_ms",
        "waiting",
    )

    def __init__(self, session_id: int, by_id: bool, now_ms: int, *, is_follower: bool = False) -> None:
        self.id = session_id
        self.by_id = by_id
        self.epoch = 1
        self.is_incremental = False
        self.is_follower = is_follower
        self.created_ms = self.used_ms = now_ms
        self.partitions: dict[PartitionKey, FetchedPartition] = {}
        self.waiting: Any = None  # what the fast path keeps from one fetch to the next

    def take(self, topics: Iterable[FetchRequest.FetchTopic]) -> None:
        """Add or update the partitions in a request."""
        partitions = self.partitions
        for topic in topics:
            name: bytes | str = topic.topic_id if self.by_id else topic.topic
            for asked in topic.partitions:
                known = partitions.get((name, asked.partition))
                if known is None:
                    partitions[name, asked.partition] = FetchedPartition(name, asked)
                else:
                    known.update(asked)
                    if self.is_follower:
                        # The client may repeat it because it could not use the last response: send the state
                        # again.
                        known.told_high_watermark = -1

    def forget(self, topics: Iterable[FetchRequest.ForgottenTopic]) -> None:
        for topic in topics:
            name: bytes | str = topic.topic_id if self.by_id else topic.topic
            for index in topic.partitions:
                self.partitions.pop((name, index), None)

    def serve_last(self, partition: FetchedPartition) -> None:
        """Serve the other partitions first next time."""
        key = (partition.topic, partition.index)
        if len(self.partitions) > 1 and self.partitions.pop(key, None) is not None:
            self.partitions[key] = partition


class FetchSessions:
    """All sessions of a node: at most `max.incremental.fetch.session.cache.slots`."""

    def __init__(self, clock: Clock, random: Random, slots: int) -> None:
        self._clock = clock
        self._random = random
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest, version: int) -> FetchSession | ErrorCode:
        """The session that a request continues or begins, updated by the request."""
        session = self.begin(request, version)
        if not isinstance(session, ErrorCode):
            session.take(request.topics)
            if session.is_incremental:
                session.forget(request.forgotten_topics_data)
            self.keep(session, request)
        return session

    def begin(self, request: FetchRequest, version: int) -> FetchSession | ErrorCode:
        """The session that a request continues or begins. The caller applies the request's partitions
        (`take`, and `forget` if it is incremental), at once or in steps, and then calls `keep`."""
        by_id = version >= 13
        if request.session_epoch in (EPOCH_INITIAL, EPOCH_FINAL):
            self._drop(request.session_id)
            is_follower = request.replica_id >= 0 or request.replica_state.replica_id >= 0
            return FetchSession(0, by_id, self._clock.now_ms(), is_follower=is_follower)
        return self._continue(request, by_id)

    def _continue(self, request: FetchRequest, by_id: bool) -> FetchSession | ErrorCode:
        known = self._sessions.get(request.session_id)
        if known is None or rarely("a fetch session is forgotten"):
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if known.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self.advance(known)
        return known

    def current(self, session_id: int, epoch: int) -> FetchSession | None:
        """The session with this id, if this is the epoch of its next request."""
        session = self._sessions.get(session_id)
        return session if session is not None and session.epoch == epoch else None

    def advance(self, session: FetchSession) -> None:
        """A request continues a session."""
        session.is_incremental = True
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.used_ms = self._clock.now_ms()
        # Most recently used last: the first one is evicted first.
        self._sessions[session.id] = self._sessions.pop(session.id)

    def keep(self, session: FetchSession, request: FetchRequest) -> None:
        """Store a new session; drop one without partitions."""
        if request.session_epoch == EPOCH_INITIAL:
            self._remember(session)
        elif request.session_epoch != EPOCH_FINAL and not session.partitions:
            self._drop(session.id)
            session.id = 0

    def _drop(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            # They refer to each other, and a node looks for such garbage once per hour.
            session.waiting = None

    def _remember(self, session: FetchSession) -> None:
        """Give a new session an id, if there is a free slot or another session can be evicted."""
        if not session.partitions or self._slots <= 0:
            return
        if len(self._sessions) >= self._slots:
            victim = self._victim(session)
            if victim is None:
                return
            self._drop(victim.id)
        while session.id == 0 or session.id in self._sessions:
            session.id = self._random.below(_EPOCH_MAX) + 1
        self._sessions[session.id] = session

    def _victim(self, session: FetchSession) -> FetchSession | None:
        """The session to evict for a new one: an idle one, or for a follower any consumer's."""
        oldest = next(iter(self._sessions.values()))
        if session.created_ms - oldest.used_ms >= _EVICTION_MS:
            return oldest
        if not session.is_follower:
            return None
        return next((one for one in self._sessions.values() if not one.is_follower), None)
