"""Fetch (1), versions 4 to 18.

Returns records from each partition's offset on: at once if `min_bytes` are available, or a partition has an
error; otherwise when they are, or after `max_wait_ms`. Limits: `max_bytes` in total and `partition_max_bytes`
each; only the first batch of the response may exceed them, so that a consumer never gets stuck at a large
record. read_committed reads up to the last stable offset and gets the list of aborted transactions. A
follower reads up to the log end, and its fetch offset tells the leader how far it is.

v7 adds incremental sessions; v11 the client's rack, and consumers may read followers; v12 is flexible and
adds the last fetched epoch; v13 topic ids; v15 the epoch of a follower's broker; v16 the new leader's
address.

Records are sent as slices of the segment files: nothing here decodes them. A fetch of many partitions
processes them in steps, one partition at a time; between two steps all other state may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.log.file_slice import FileSlice
from ottla.log.log import Log
from ottla.ports import Buffer
from ottla.rare_paths import rarely
from ottla.server.handlers.common import leader_endpoints, leader_hint
from ottla.server.handlers.fetch_fast_path import PARTITIONS_MAX, READ_NOW_BYTES_MAX, FetchFastPath
from ottla.server.handlers.offset_common import in_parts
from ottla.server.handlers.unexpected_errors import error_of
from ottla.server.net.dispatch import Api, RequestContext, Routes
from ottla.server.net.long_requests import Steps
from ottla.server.net.step_runner import Run, freed
from ottla.server.parts import (
    HasConfig,
    HasDirectories,
    HasFailures,
    HasFetchSessions,
    HasImage,
    HasPartitions,
    HasReplication,
    HasStepRunner,
)
from ottla.server.replicas.fetch_sessions import FetchedPartition, FetchSession
from ottla.server.replicas.partition import Partition, not_hosted_error
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    ErrorCode,
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.server.broker import Broker
    from ottla.server.net.connection import Connection

KEY = 1
READ_COMMITTED = 1
DEBUGGING = -2  # a consumer that reads up to the log's end, from any replica
FROM_FOLLOWERS_VERSION = 11
DIVERGING_VERSION = 12
REPLICA_STATE_VERSION = 15

PARTITIONS_AT_ONCE = PARTITIONS_MAX
"""A fetch of more partitions, or with more in its session, runs in steps."""
_PARTITIONS_IN_STEP = 64

_PartitionData = FetchResponse.PartitionData
_TopicResponse = FetchResponse.FetchableTopicResponse
_NO_RECORDS = b""
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

_T = TypeVar("_T")
_Found = list[tuple[FetchedPartition, _PartitionData]]
_AtEnd = list[tuple[int, FetchedPartition]]
"""Partitions without news, with the position of each among the found ones."""


class Parts(
    HasConfig,
    HasImage,
    HasPartitions,
    HasDirectories,
    HasReplication,
    HasFetchSessions,
    HasStepRunner,
    HasFailures,
    Protocol,
):
    """The parts of a node that Fetch needs."""


def handle(
    parts: Parts, request: FetchRequest, context: RequestContext
) -> FetchResponse | PendingResponse | Steps[FetchResponse | PendingResponse]:
    if _names_many(request):
        return _handle_in_steps(parts, request, context)
    session = parts.fetch_sessions.resolve(request, context.version)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    fetch = _Fetch(parts, request, session, context)
    return fetch.in_steps() if len(session.partitions) > PARTITIONS_AT_ONCE else fetch.outcome()


def _names_many(request: FetchRequest) -> bool:
    topics, forgotten = request.topics, request.forgotten_topics_data
    if len(topics) + len(forgotten) > PARTITIONS_AT_ONCE:
        return True
    count = 0
    for topic in topics:
        count += len(topic.partitions)
    for gone in forgotten:
        count += len(gone.partitions)
    return count > PARTITIONS_AT_ONCE


def _handle_in_steps(
    parts: Parts, request: FetchRequest, context: RequestContext
) -> Steps[FetchResponse | PendingResponse]:
    sessions = parts.fetch_sessions
    session = sessions.begin(request, context.version)
    if isinstance(session, ErrorCode):
        return FetchResponse(error_code=session)
    for topics in (yield from in_parts(request.topics)):
        session.take(topics)
        yield
    if session.is_incremental:
        for forgotten in (yield from in_parts(request.forgotten_topics_data)):
            session.forget(forgotten)
            yield
    sessions.keep(session, request)
    return (yield from _Fetch(parts, request, session, context).in_steps())


class _Look:
    """One pass over the partitions of a fetch: the remaining byte limit, and whether it must be answered."""

    __slots__ = ("at_least_one", "budget", "must_answer", "total")

    def __init__(self, budget: int, *, must_answer: bool) -> None:
        self.budget = budget
        self.at_least_one = True
        self.total = 0
        self.must_answer = must_answer


class _Fetch:
    """One fetch request: collected once, or again each time that one of its partitions grew."""

    __slots__ = (
        "_context",
        "_is_due",
        "_is_late",
        "_parts",
        "_pending",
        "_replica_epoch",
        "_replica_id",
        "_request",
        "_run",
        "_session",
        "_watches_all",
    )

    def __init__(
        self, parts: Parts, request: FetchRequest, session: FetchSession, context: RequestContext
    ) -> None:
        self._parts = parts
        self._request = request
        self._session = session
        self._context = context
        self._pending: PendingResponse | None = None
        self._watches_all = False
        self._is_due = False
        self._is_late = False
        self._run: Run[FetchResponse | None] | None = None  # a look in steps that is under way
        # A broker that follows; negative for a consumer.
        if context.version >= REPLICA_STATE_VERSION:
            self._replica_id = request.replica_state.replica_id
            self._replica_epoch = request.replica_state.replica_epoch
        else:
            self._replica_id = request.replica_id
            self._replica_epoch = -1

    def outcome(self) -> FetchResponse | PendingResponse:
        """The response, now or later."""
        found = self.collect(is_first=True)
        if found is not None or self._request.max_wait_ms <= 0 or not self._session.partitions:
            return self.respond(found)
        return self.wait()

    # Collecting

    def collect(self, *, is_first: bool = False, at_deadline: bool = False) -> _Found | None:
        """Read every partition; None if that is too little to answer yet."""
        look = self._new_look(at_deadline=at_deadline)
        awake = self._awake(self._session.partitions.values(), is_first=is_first)
        found, at_end = self._collect_some(look, awake, is_first=is_first)
        if not look.must_answer and look.total < self._request.min_bytes:
            return None
        return _merge(found, at_end) if at_end else found

    def _collect_in_steps(self, *, is_first: bool = False, at_deadline: bool = False) -> Steps[_Found | None]:
        """The same, in steps. Small slices are read in the same step: their file may be truncated before the
        next one.
        """
        look = self._new_look(at_deadline=at_deadline)
        pieces: list[tuple[_Found, _AtEnd]] = []
        for some in _pieces(list(self._session.partitions.values())):
            awake = self._awake(some, is_first=is_first)
            found, at_end = self._collect_some(look, awake, is_first=is_first)
            pieces.append(([(fetched, self._read_now(fetched, data)) for fetched, data in found], at_end))
            yield
        if not look.must_answer and look.total < self._request.min_bytes:
            return None
        whole: _Found = []
        for found, at_end in pieces:
            whole += _merge(found, at_end) if at_end else found
            yield
        return whole

    def _new_look(self, *, at_deadline: bool) -> _Look:
        budget = min(self._request.max_bytes, self._parts.config.int_of("fetch.max.bytes"))
        return _Look(budget, must_answer=at_deadline)

    def _collect_some(
        self, look: _Look, partitions: Iterable[FetchedPartition], *, is_first: bool
    ) -> tuple[_Found, _AtEnd]:
        """Read some of the partitions."""
        found: _Found = []
        at_end: _AtEnd = []
        data: _PartitionData | None
        for fetched in partitions:
            limit_bytes = min(look.budget, fetched.max_bytes)
            try:
                if self._replica_id >= 0:
                    data, count = self._read_as_follower(fetched, limit_bytes, look.at_least_one, is_first)
                else:
                    data, count = self._read(fetched, limit_bytes, look.at_least_one)
            except Exception as raised:  # noqa: BLE001 - it concerns this partition alone
                error = error_of(self._parts.failures, raised, "Fetch", str(fetched.topic), fetched.index)
                data, count = self._failed(fetched, error), 0
                look.must_answer = True
            if data is None:
                at_end.append((len(found), fetched))
                continue
            if count:
                look.at_least_one = False
                look.budget = max(0, look.budget - count)
                look.total += count
            elif data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0:
                look.must_answer = True
            found.append((fetched, data))
        return found, at_end

    def _awake(self, partitions: Iterable[FetchedPartition], *, is_first: bool) -> Iterable[FetchedPartition]:
        """The partitions to read.

        A follower may have thousands, most of them without news: those are skipped, but the fetch is noted.
        """
        session, replica_id, epoch = self._session, self._replica_id, self._replica_epoch
        replication = self._parts.replication
        if replica_id < 0 or not session.is_incremental or not session.id or replication is None:
            return partitions
        standing = replication.brokers.get(replica_id)
        if standing is None or standing.fenced or standing.epoch != epoch:
            return partitions
        now_ms = replication.now_ms()
        awake = []
        for fetched in partitions:
            partition = fetched.hosted
            if (
                partition is not None
                and partition.is_leader
                and partition.leader_epoch == fetched.leader_epoch
                and (log := partition.log) is not None
                and (leadership := partition.leadership) is not None
                and log.log_end_offset == fetched.fetch_offset
                and log.high_watermark == fetched.told_high_watermark
                and log.log_start_offset == fetched.told_log_start_offset
            ):
                if not is_first:
                    continue
                progress = leadership.unchanged_follower(
                    replica_id,
                    offset=fetched.fetch_offset,
                    log_start_offset=fetched.log_start_offset,
                    broker_epoch=epoch,
                )
                if progress is not None:
                    progress.stay(now_ms)
                    continue
            awake.append(fetched)
        return awake

    def _find(self, fetched: FetchedPartition) -> Partition:
        partitions = self._parts.partitions
        topic, index = fetched.topic, fetched.index
        hosted = partitions.by_id.get(topic) if isinstance(topic, bytes) else partitions.by_name.get(topic)
        partition = hosted.get(index) if hosted is not None else None
        if partition is None:
            image = self._parts.image
            known = image.topics.get(topic) if isinstance(topic, bytes) else image.topics_by_name.get(topic)
            raise not_hosted_error(
                topic if known is None else known.name,
                index,
                is_known=known is not None and index in known.partitions,
            )
        return partition

    def _read(
        self, fetched: FetchedPartition, limit_bytes: int, at_least_one: bool
    ) -> tuple[_PartitionData, int]:
        partition = self._find(fetched)
        if self._context.version >= FROM_FOLLOWERS_VERSION or self._replica_id == DEBUGGING:
            log = partition.replica_log(fetched.leader_epoch)
        else:
            log = partition.leader_log(fetched.leader_epoch)
        offset = fetched.fetch_offset
        data = _data_of(log, fetched)
        if self._request.rack_id and partition.leadership is not None:
            assert self._parts.replication is not None
            preferred = self._parts.replication.preferred_replica(
                partition, self._request.rack_id, offset, self._context.listener
            )
            if preferred is not None:
                data.preferred_read_replica = preferred
                return data, 0
        if self._may_diverge(fetched) and _diverges(log, fetched, data):
            return data, 0
        if offset > log.log_end_offset and not partition.is_leader and self._replica_id != DEBUGGING:
            # This replica is behind, and the leader may have it. Out of range would mean that nobody does: a
            # client that still takes this node for the leader, and names no epoch, would begin anew.
            raise NotLeaderOrFollower(
                f"This replica of {partition.topic}-{partition.index} has not reached {offset} yet."
            )
        read_committed = self._request.isolation_level == READ_COMMITTED
        limit_offset = data.last_stable_offset if read_committed else data.high_watermark
        if self._replica_id == DEBUGGING:
            limit_offset = log.log_end_offset
        if read_committed:
            data.aborted_transactions = []
        if limit_bytes <= 0 and not at_least_one and log.log_start_offset <= offset <= log.log_end_offset:
            return data, 0
        try:
            found = log.locate(offset, limit_bytes, limit_offset=limit_offset, at_least_one=at_least_one)
            if found.length and read_committed:
                data.aborted_transactions = [
                    FetchResponse.AbortedTransaction(
                        producer_id=one.producer_id, first_offset=one.first_offset
                    )
                    for one in log.aborted_in(found, offset)
                ]
        except OSError as error:
            raise self._parts.directories.storage_error(log, error) from error
        if found.length:
            data.records = found
        return data, found.length

    def _may_diverge(self, fetched: FetchedPartition) -> bool:
        """Whether the client sent the epoch of its last record, and its version can report a divergence.

        A request of a newer version than this one may have created its session.
        """
        return fetched.last_fetched_epoch >= 0 and self._context.version >= DIVERGING_VERSION

    def _read_as_follower(
        self, fetched: FetchedPartition, limit_bytes: int, at_least_one: bool, is_first: bool
    ) -> tuple[_PartitionData | None, int]:
        """Read up to the log end.

        The first read of a request records the follower's progress. None: it has everything; other news waits
        for a response.
        """
        partition = self._find(fetched)
        log = partition.leader_log(fetched.leader_epoch)
        replication = self._parts.replication
        assert replication is not None
        names_epoch = fetched.leader_epoch >= 0
        if partition.leadership is not None:
            partition.leadership.follower(self._replica_id, names_epoch=names_epoch)
        offset, last_epoch = fetched.fetch_offset, fetched.last_fetched_epoch
        if offset == log.log_end_offset and last_epoch in (-1, log.epochs.latest_epoch):
            if is_first:
                self._note_fetch(partition, fetched)
            fetched.hosted = partition
            return None, 0
        data = _data_of(log, fetched)
        if self._may_diverge(fetched) and _diverges(log, fetched, data):
            return data, 0
        try:
            found = log.locate(
                offset, limit_bytes, limit_offset=log.log_end_offset, at_least_one=at_least_one
            )
        except OSError as error:
            raise self._parts.directories.storage_error(log, error) from error
        if is_first:
            self._note_fetch(partition, fetched)
            data.high_watermark = log.high_watermark
            data.last_stable_offset = log.last_stable_offset
        if not found.length or replication.is_held_back(partition, self._replica_id):
            return data, 0
        data.records = found
        return data, found.length

    def _note_fetch(self, partition: Partition, fetched: FetchedPartition) -> None:
        """Record that a follower has everything below its fetch offset."""
        assert self._parts.replication is not None
        self._parts.replication.fetched(
            partition,
            self._replica_id,
            self._replica_epoch,
            fetched.fetch_offset,
            fetched.log_start_offset,
            names_epoch=fetched.leader_epoch >= 0,
        )

    def _failed(self, fetched: FetchedPartition, error: KafkaError) -> _PartitionData:
        code = error.code
        if isinstance(error, KafkaStorageError) and self._context.version <= 5:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # a client that old does not know the storage error
        data = _PartitionData(
            partition_index=fetched.index, error_code=code, high_watermark=-1, records=_NO_RECORDS
        )
        if not isinstance(error, (UnknownTopicId, UnknownTopicOrPartition)):
            data.aborted_transactions = None
        if self._context.version >= 16 and isinstance(error, (NotLeaderOrFollower, FencedLeaderEpoch)):
            topic_id, name = (fetched.topic, "") if isinstance(fetched.topic, bytes) else (b"", fetched.topic)
            leader_id, leader_epoch = leader_hint(self._parts.image, topic_id, name, fetched.index)
            data.current_leader = FetchResponse.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=leader_epoch
            )
        return data

    def _unreadable(self, fetched: FetchedPartition, error: OSError) -> KafkaError:
        log = self._find(fetched).log
        if log is None:
            return KafkaStorageError(f"The log of {fetched.topic!r}-{fetched.index} is offline: {error}.")
        return self._parts.directories.storage_error(log, error)

    # Waiting

    def wait(self) -> PendingResponse:
        """Answer when a partition has grown enough, or at the deadline.

        A follower's fetch may itself make a partition grow before it watches: it moves high watermarks, and a
        request that waited for one may append here. So it reads again if there is more than it requested.
        """
        pending = self._pending = PendingResponse()
        has_grown = False
        for fetched in self._session.partitions.values():
            has_grown |= self._watch(pending, fetched)
        self._set_deadline(pending)
        if has_grown and self._replica_id >= 0:
            self._on_growth()
        return pending

    def _set_deadline(self, pending: PendingResponse) -> None:
        self._watches_all = True
        wait_ms = 0 if rarely("a fetch waits for nothing") else self._request.max_wait_ms
        pending.timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_deadline)

    def _watch(self, pending: PendingResponse, fetched: FetchedPartition) -> bool:
        """Read again when a partition grows. Returns whether it has already grown."""
        partition = fetched.hosted or self._find(fetched)
        is_consumer = self._replica_id < 0
        pending.watch(partition.growth if is_consumer else partition.appends, self._on_growth)
        log = partition.log
        if log is None:
            return False
        return (log.high_watermark if is_consumer else log.log_end_offset) > fetched.fetch_offset

    def _on_growth(self) -> bool:
        pending = self._pending
        assert pending is not None
        if not self._watches_all:
            self._is_due = True
            return False
        if self._replica_id < 0:
            return self._answer_if_enough()
        if not self._is_due:
            # What else comes in this turn of the loop, to this partition or another, goes in the same answer.
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._answer_if_enough)
        return pending.is_completed

    def _answer_if_enough(self) -> bool:
        pending = self._pending
        assert pending is not None
        self._is_due = False
        if not pending.is_completed:
            if self._is_long:
                self._look_again()
            elif (found := self.collect()) is not None:
                pending.complete(self.respond(found))
        return pending.is_completed

    def _on_deadline(self) -> None:
        assert self._pending is not None
        if self._is_long:
            self._is_late = True
            self._look_again()
        else:
            self._pending.complete(self.respond(None))

    def _cancel_look(self) -> None:
        if self._run is not None:
            self._run.cancel()
            self._run = None

    # In steps

    @property
    def _is_long(self) -> bool:
        return len(self._session.partitions) > PARTITIONS_AT_ONCE

    def in_steps(self) -> Steps[FetchResponse | PendingResponse]:
        """The response of a fetch of many partitions."""
        must_answer = self._request.max_wait_ms <= 0
        found = yield from self._collect_in_steps(is_first=True, at_deadline=must_answer)
        if found is None and self._session.partitions:
            return (yield from self._wait_in_steps())
        return (yield from self._respond_in_steps(found or []))

    def _wait_in_steps(self) -> Steps[PendingResponse]:
        """Watch all partitions, and read again if one has changed since it was read."""
        pending = self._pending = PendingResponse()
        try:
            for some in _pieces(list(self._session.partitions.values())):
                for fetched in some:
                    try:
                        self._is_due |= self._watch(pending, fetched)
                    except KafkaError:  # it is not here any more: the answer says so
                        self._is_due = True
                yield
        except BaseException:  # the connection is lost
            pending.abandon()
            raise
        self._set_deadline(pending)
        if self._is_due:
            self._look_again()
        return pending

    def _look_again(self) -> None:
        assert self._pending is not None
        if self._run is None:
            self._pending.when_released(self._cancel_look)
            self._run = self._parts.step_runner.start(self._looked_again(), self._on_looked, self._on_failed)
        else:
            self._is_due = True

    def _looked_again(self) -> Steps[FetchResponse | None]:
        """The response once there is enough for it, after as many passes as that takes."""
        while True:
            self._is_due = False
            found = yield from self._collect_in_steps(at_deadline=self._is_late)
            if found is not None:
                return (yield from self._respond_in_steps(found))
            if not self._is_due:
                return None

    def _on_looked(self, response: FetchResponse | None) -> None:
        assert self._pending is not None
        self._run = None
        if response is not None:
            self._pending.complete(response)

    def _on_failed(self, error: Exception) -> None:
        assert self._pending is not None
        self._run = None
        self._parts.failures.note("Fetch", "", error)
        self._pending.complete(None)

    def _respond_in_steps(self, found: _Found) -> Steps[FetchResponse]:
        """`respond`, in steps."""
        known: _Found = []
        unknown: _Found = []
        for some in _pieces(found):
            for one in some:
                (unknown if one[1].error_code in _UNKNOWN else known).append(one)
            yield
        response = FetchResponse(session_id=self._session.id)
        leaders: set[int] = set()
        for part in (known, unknown):
            for some in _pieces(part):
                self._respond_some(response.responses, some, leaders)
                yield
        self._name_leaders(response, leaders)
        yield from freed([found, known, unknown])
        return response

    # Answering

    def respond(self, found: _Found | None) -> FetchResponse:
        """The response; in a session only what is new to the client."""
        if found is None:
            found = self.collect(at_deadline=True) or []
        response = FetchResponse(session_id=self._session.id)
        leaders: set[int] = set()
        self._respond_some(response.responses, _in_order(found), leaders)
        self._name_leaders(response, leaders)
        return response

    def _respond_some(self, topics: list[_TopicResponse], found: _Found, leaders: set[int]) -> None:
        """Append what is new to the client about some partitions, and collect the leaders that it names."""
        session = self._session
        topic_key: bytes | str | None = None
        if topics:
            topic_key = topics[-1].topic_id if session.by_id else topics[-1].topic
        for fetched, data in found:
            data = self._read_now(fetched, data)
            records = data.records
            count = len(records) if records is not None else 0
            if data.current_leader.leader_id >= 0:
                leaders.add(data.current_leader.leader_id)
            if session.id and not is_news(fetched, data, count, session.is_incremental):
                continue
            if fetched.topic != topic_key:
                topic_key = fetched.topic
                topics.append(_topic_response(topic_key))
            topics[-1].partitions.append(data)
            if count:
                session.serve_last(fetched)
                if self._replica_id >= 0:
                    self._note_sent(fetched, count)

    def _read_now(self, fetched: FetchedPartition, data: _PartitionData) -> _PartitionData:
        """Read small slices into bytes; an error if they cannot be read."""
        records = data.records
        if type(records) is FileSlice and len(records) <= READ_NOW_BYTES_MAX:
            try:
                data.records = records.read()
            except OSError as error:
                return self._failed(fetched, self._unreadable(fetched, error))
        return data

    def _name_leaders(self, response: FetchResponse, leaders: set[int]) -> None:
        if leaders and self._context.version >= 16:
            response.node_endpoints = leader_endpoints(
                self._parts.image, leaders, self._context.listener, FetchResponse.NodeEndpoint
            )

    def _note_sent(self, fetched: FetchedPartition, count: int) -> None:
        replication = self._parts.replication
        if replication is not None and replication.leader_throttle.has_topics:
            replication.record_sent(self._find(fetched).topic, fetched.index, count)


def _pieces(items: list[_T]) -> Iterator[list[_T]]:
    for start in range(0, len(items), _PARTITIONS_IN_STEP):
        yield items[start : start + _PARTITIONS_IN_STEP]


def _merge(found: _Found, at_end: _AtEnd) -> _Found:
    """Insert the partitions without news where the request has them."""
    merged: _Found = []
    done = 0
    for place, fetched in at_end:
        log = None if fetched.hosted is None else fetched.hosted.log
        if log is not None:
            merged += found[done:place]
            merged.append((fetched, _data_of(log, fetched)))
            done = place
    merged += found[done:]
    return merged


def _in_order(found: _Found) -> _Found:
    """The order of the response: that of the request, with unknown partitions last."""
    if all(data.error_code not in _UNKNOWN for _, data in found):
        return found
    return sorted(found, key=lambda one: one[1].error_code in _UNKNOWN)


def _topic_response(topic: bytes | str) -> _TopicResponse:
    return _TopicResponse(topic_id=topic) if isinstance(topic, bytes) else _TopicResponse(topic=topic)


def _data_of(log: Log, fetched: FetchedPartition) -> _PartitionData:
    return _PartitionData(
        partition_index=fetched.index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=_NO_RECORDS,
    )


def _diverges(log: Log, fetched: FetchedPartition, data: _PartitionData) -> bool:
    """Whether the fetcher's log diverges from this one below its offset; if so, set the epoch (v12)."""
    epoch, end_offset = log.end_offset_for_epoch(fetched.last_fetched_epoch)
    if end_offset < 0:
        raise OffsetOutOfRange(
            f"Epoch {fetched.last_fetched_epoch} of {log.topic}-{log.partition} is older than the log, "
            f"which starts at offset {log.log_start_offset}."
        )
    if fetched.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(
            f"Offset {fetched.fetch_offset} of {log.topic}-{log.partition} is below the log's start, "
            f"{log.log_start_offset}."
        )
    if epoch < fetched.last_fetched_epoch or end_offset < fetched.fetch_offset:
        data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
        return True
    return False


def is_news(fetched: FetchedPartition, data: _PartitionData, count: int, is_incremental: bool) -> bool:
    """Whether a partition has news for the client, and note that it was sent."""
    is_news = (
        count > 0
        or data.error_code != 0
        or data.diverging_epoch.epoch >= 0
        or data.preferred_read_replica >= 0
        or fetched.told_high_watermark != data.high_watermark
        or fetched.told_log_start_offset != data.log_start_offset
    )
    is_used = not data.error_code and data.diverging_epoch.epoch < 0  # else its watermark is for nothing
    fetched.told_high_watermark = data.high_watermark if is_used else -1
    fetched.told_log_start_offset = data.log_start_offset
    return is_news or not is_incremental


def fast_path(broker: Broker, routes: Routes) -> FetchFastPath:
    """The fast path of a listener; `_Fetch` continues where it does not apply."""

    def continued(
        connection: Connection, frame: memoryview, version: int, correlation_id: int, session: FetchSession
    ) -> _Fetch:
        request, context = routes.decoded(connection, frame, KEY, version, correlation_id)
        return _Fetch(broker, request, session, context)

    def send(connection: Connection, version: int, outcome: object, correlation_id: int) -> None:
        routes.answer(connection, KEY, version, outcome, correlation_id)

    def frame_of(version: int, response: FetchResponse, correlation_id: int) -> list[Buffer | FileSlice]:
        return routes.frame(KEY, version, response, correlation_id)

    return FetchFastPath(broker, continued, send, frame_of)


API = Api(KEY, handle, fast_path=fast_path)
