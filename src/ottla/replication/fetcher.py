"""The fetch loops of a follower: fetch, append, truncate, repeat.

One loop runs per leader (or `num.replica.fetchers` of them); `follower.py` decides what to do. Rule: a log is
changed only while its partition is followed in the leader epoch that the fetch was sent with, and there is no
await between that check and the write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol
from zlib import crc32

from ottla.detached import detach
from ottla.log.log import Log, UnexpectedAppendOffset
from ottla.log.replicated_batches import OffsetsOutOfOrder
from ottla.ports import Clock
from ottla.rare_paths import rarely
from ottla.records.batch import iterate_headers
from ottla.replication.fetch_exchange import FetchExchange
from ottla.replication.follower import (
    Append,
    FindOffsets,
    Following,
    GiveUp,
    Key,
    PartitionFetch,
    Pause,
    Plan,
    Position,
    Truncate,
    out_of_range,
)
from ottla.replication.throttle import Throttle
from ottla.wire.errors import (
    CorruptMessage,
    ErrorCode,
    InvalidRecord,
    KafkaError,
    KafkaStorageError,
    for_code,
)
from ottla.wire.message import Message
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest

LATEST = -1
EARLIEST = -2
IDLE_SECONDS = 0.1

logger = logging.getLogger("ottla.replication.fetcher")

_PartitionData = FetchResponse.PartitionData


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    wait_max_ms: int = 500
    min_bytes: int = 1
    response_bytes_max: int = 10 * 1024 * 1024
    partition_bytes_max: int = 1024 * 1024
    backoff_ms: int = 1000


class Replica(Protocol):
    """A partition that this node follows."""

    topic: str
    topic_id: bytes
    index: int
    leader_id: int
    leader_epoch: int
    log: Log | None

    def watermark_moved(self) -> None:
        """Notify the waiters for records of this partition."""


class Storage(Protocol):
    """The disks of this node."""

    async def truncate_to(self, log: Log, offset: int) -> bool: ...

    async def start_over(self, log: Log, offset: int) -> None: ...

    def storage_error(self, log: Log, error: OSError) -> KafkaError: ...

    def flush(self, log: Log) -> Coroutine[Any, Any, None]: ...


Ask = Callable[[int, Message], Awaitable[Any]]
"""Sends a request to a broker. Raises OSError if no response arrives."""

AskRepeatedly = Callable[[int, Message, FetchExchange], Awaitable[Any]]
"""The same, and the exchange may handle responses and send more requests."""


class Fetcher:
    """The loop that fetches from one leader."""

    def __init__(
        self,
        leader_id: int,
        node_id: int,
        broker_epoch: Callable[[], int],
        *,
        clock: Clock,
        storage: Storage,
        ask: Ask,
        settings: FetchSettings,
        throttle: Throttle,
        ask_repeatedly: AskRepeatedly | None = None,
    ) -> None:
        self.following = Following()
        self._leader_id = leader_id
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._storage = storage
        self._ask = ask
        self._settings = settings
        self._throttle = throttle
        self._replicas: dict[Key, Replica] = {}
        self._changed = asyncio.Event()
        self._failures = 0
        self._ask_repeatedly = ask_repeatedly
        self._exchange = FetchExchange(
            self.following, self._replicas, storage, throttle, broker_epoch, settings.partition_bytes_max
        )

    def follow(self, replica: Replica, log: Log) -> None:
        position = Position(replica.topic, replica.topic_id, replica.index, replica.leader_epoch, log)
        self._replicas[position.key] = replica
        self.following.follow(position)
        self._changed.set()

    def forget(self, key: Key) -> None:
        self.following.forget(key)
        self._replicas.pop(key, None)

    async def run(self) -> None:
        """Fetch until cancelled."""
        while True:
            for position in self.following.without_epochs(self._now_ms()):
                await self._truncate_to_high_watermark(position)
            plan = self._plan()
            if plan is None:
                await self._wait()
                continue
            response = await self._fetch(plan)
            if response is not None and (
                self._exchange.has_lost_answer() or rarely("a follower loses an answer")
            ):
                self.following.session.reset()
            elif response is not None:
                await self._handle_response(plan, response)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def _plan(self) -> Plan | None:
        if self._broker_epoch() < 0:
            return None  # not registered yet: a fetch needs the broker epoch
        is_held_back = self._is_held_back if self._throttle.has_topics else None
        return self.following.plan(self._now_ms(), self._log_start_of, is_held_back)

    def _log_start_of(self, key: Key) -> int | None:
        log = self._replicas[key].log
        return None if log is None else log.log_start_offset

    def _is_held_back(self, position: Position) -> bool:
        return self._throttle.holds_back(
            position.topic, position.index, in_sync=position.is_in_sync, now_ms=self._now_ms()
        )

    async def _wait(self) -> None:
        """Wait until there may be something to fetch."""
        now_ms = self._now_ms()
        resume_ms = self.following.next_resume_ms(now_ms)
        seconds = IDLE_SECONDS if resume_ms is None else min((resume_ms - now_ms) / 1000, IDLE_SECONDS)
        self._changed.clear()
        try:
            async with asyncio.timeout(max(seconds, 0.001) if self.following.positions else None):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _fetch(self, plan: Plan) -> FetchResponse | None:
        try:
            response = await self._response(plan)
        except (OSError, KafkaError) as error:
            self._failures += 1
            if self._failures in (1, 10) or self._failures % 600 == 0:
                logger.warning("Fetching from broker %d failed, will retry: %s", self._leader_id, error)
            self.following.session.reset()
            self._pause_all()
            return None
        if self._failures:
            logger.info("Resumed fetching from broker %d", self._leader_id)
            self._failures = 0
        if self.following.session.on_response(response.error_code, response.session_id):
            return response
        code = for_code(response.error_code).code
        if code not in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
            logger.warning("Broker %d rejected a fetch: %s", self._leader_id, code.name)
            self._pause_all()
        return None

    async def _response(self, plan: Plan) -> FetchResponse:
        """The response to this fetch; or to a later one, if the exchange handled those before."""
        request = self._request(plan)
        response: FetchResponse
        if self._ask_repeatedly is not None and self._exchange.may_follow(plan):
            response = await self._ask_repeatedly(self._leader_id, request, self._exchange)
        else:
            response = await self._ask(self._leader_id, request)
        return response

    def _pause_all(self) -> None:
        self.following.pause(list(self.following.positions), self._now_ms() + self._settings.backoff_ms)

    def _request(self, plan: Plan) -> FetchRequest:
        settings = self._settings
        topics: dict[bytes, list[FetchRequest.FetchPartition]] = {}
        for fetch in plan.sent:
            topics.setdefault(fetch.topic_id, []).append(
                FetchRequest.FetchPartition(
                    partition=fetch.index,
                    current_leader_epoch=fetch.leader_epoch,
                    fetch_offset=fetch.offset,
                    last_fetched_epoch=fetch.last_fetched_epoch,
                    log_start_offset=fetch.log_start_offset,
                    partition_max_bytes=settings.partition_bytes_max,
                )
            )
        forgotten: dict[bytes, list[int]] = {}
        for topic_id, index in plan.forgotten:
            forgotten.setdefault(topic_id, []).append(index)
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._node_id, replica_epoch=self._broker_epoch()
            ),
            max_wait_ms=settings.wait_max_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.response_bytes_max,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            topics=[
                FetchRequest.FetchTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in forgotten.items()
            ],
        )

    # Responses

    async def _handle_response(self, plan: Plan, response: FetchResponse) -> None:
        for topic in response.responses:
            for data in topic.partitions:
                fetch = plan.fetches.get((topic.topic_id, data.partition_index))
                position = self.following.current(fetch)
                if fetch is None or position is None:
                    continue
                try:
                    await self._handle_partition(fetch, position, data)
                except (CorruptMessage, InvalidRecord) as error:
                    # The bytes were truncated while they were sent: the next fetch returns the complete
                    # batch.
                    logger.error("%s-%d: %s", position.topic, position.index, error)
                    self._pause(position)
                except KafkaStorageError as error:
                    logger.error("%s-%d: %s", position.topic, position.index, error)
                    self._pause(position)  # retry: a full disk may get space; a failed one closes the log
                except (KafkaError, OSError) as error:
                    logger.warning("%s-%d: %s", position.topic, position.index, error)
                    self._pause(position)
                except (UnexpectedAppendOffset, OffsetsOutOfOrder) as error:
                    logger.error("Stopped following %s-%d: %s", position.topic, position.index, error)
                    self.following.forget(position.key)
                except Exception:  # contained to this partition; the next fetch may succeed
                    logger.exception("Failed to follow %s-%d", position.topic, position.index)
                    self._pause(position)

    def _pause(self, position: Position) -> None:
        self.following.pause([position.key], self._now_ms() + self._settings.backoff_ms)

    async def _handle_partition(
        self, fetch: PartitionFetch, position: Position, data: _PartitionData
    ) -> None:
        replica = self._replicas[position.key]
        log = replica.log
        if log is None:
            return
        step = self.following.step(
            log,
            leader_epoch=fetch.leader_epoch,
            code=data.error_code,
            diverging_epoch=data.diverging_epoch.epoch,
            diverging_end_offset=data.diverging_epoch.end_offset,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
        )
        if isinstance(step, Append):
            self._append(position, replica, log, data, step)
            if log.is_flush_due:
                # A started flush must complete, even if nobody follows the partition any more or waits for
                # the result.
                await detach(self._storage.flush(log))
        elif isinstance(step, Truncate):
            logger.info(
                "%s: truncating to %d: epoch %d of the leader ends at %d",
                log.name,
                step.offset,
                data.diverging_epoch.epoch,
                data.diverging_epoch.end_offset,
            )
            await self._storage.truncate_to(log, step.offset)
            self._restart(position, log)
        elif isinstance(step, FindOffsets):
            await self._find_offsets(position, log)
        elif isinstance(step, GiveUp):
            logger.info("%s: leader epoch %d has ended; waiting for metadata", log.name, fetch.leader_epoch)
            self.following.forget(position.key)
        elif isinstance(step, Pause):
            logger.debug("%s: broker %d answered %s", log.name, self._leader_id, step.code.name)
            self._pause(position)

    def _restart(self, position: Position, log: Log) -> None:
        if self.following.positions.get(position.key) is position:
            position.restart(log)

    def _append(
        self, position: Position, replica: Replica, log: Log, data: _PartitionData, step: Append
    ) -> None:
        records = data.records
        size = len(records) if records is not None else 0
        if log.log_end_offset != position.offset:
            position.restart(log)  # another log has replaced it
            return
        if size:
            assert records is not None
            self._write(log, memoryview(records), step.leader_epoch)
            if self._throttle.has_topics and self._throttle.is_throttled(position.topic, position.index):
                self._throttle.record(size, self._now_ms())
        if log.advance_high_watermark(step.high_watermark):
            replica.watermark_moved()
        if step.log_start_offset > log.log_start_offset:
            self._move_log_start(log, step.log_start_offset)
        self.following.appended(position, log, step.high_watermark)

    def _write(self, log: Log, records: memoryview, leader_epoch: int) -> None:
        try:
            try:
                log.append_as_follower(records, leader_epoch=leader_epoch)
            except UnexpectedAppendOffset:
                # The leader's log starts within a batch, and this log is empty: the batch arrives complete,
                # so the segment starts at the batch's base offset.
                first = next(header for _, header in iterate_headers(records))
                if log.log_start_offset != log.log_end_offset or first.last_offset < log.log_start_offset:
                    raise
                log.truncate_fully_and_start_at(first.base_offset, log.log_start_offset)
                log.append_as_follower(records, leader_epoch=leader_epoch)
        except OSError as error:
            raise self._storage.storage_error(log, error) from error

    def _move_log_start(self, log: Log, offset: int) -> None:
        try:
            log.increase_log_start_offset(min(offset, log.high_watermark), "the leader's log starts there")
        except OSError as error:
            raise self._storage.storage_error(log, error) from error

    async def _truncate_to_high_watermark(self, position: Position) -> None:
        log = self._replicas[position.key].log
        if log is None:
            return
        logger.warning(
            "%s has records without leader epochs: truncating to its high watermark %d",
            log.name,
            log.high_watermark,
        )
        try:
            await self._storage.truncate_to(log, log.high_watermark)
        except KafkaError as error:
            logger.error("%s: %s", log.name, error)
            self._pause(position)
            return
        self._restart(position, log)

    # Offsets out of range

    async def _find_offsets(self, position: Position, log: Log) -> None:
        leader_end_offset = await self._offset(position, LATEST)
        leader_start_offset = await self._offset(position, EARLIEST)
        if self.following.positions.get(position.key) is not position:
            return
        restart = out_of_range(log, leader_start_offset, leader_end_offset)
        if restart.truncate_to is not None:
            logger.warning(
                "%s ends at %d, but its leader's log at %d: truncating",
                log.name,
                log.log_end_offset,
                leader_end_offset,
            )
            await self._storage.truncate_to(log, restart.truncate_to)
        elif restart.start_over_at is not None:
            logger.warning(
                "%s ends at %d, before the start of its leader's log: restarting at %d",
                log.name,
                log.log_end_offset,
                leader_start_offset,
            )
            await self._storage.start_over(log, restart.start_over_at)
        else:
            self._pause(position)
        self._restart(position, log)

    async def _offset(self, position: Position, timestamp: int) -> int:
        request = ListOffsetsRequest(
            replica_id=self._node_id,
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=position.topic,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsPartition(
                            partition_index=position.index,
                            current_leader_epoch=position.leader_epoch,
                            timestamp=timestamp,
                        )
                    ],
                )
            ],
        )
        response = await self._ask(self._leader_id, request)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise for_code(answer.error_code)(f"Broker {self._leader_id} did not return its offsets.")
        offset: int = answer.offset
        return offset


class Fetchers:
    """All fetch loops of a node: at most one of them follows a partition."""

    def __init__(self, make: Callable[[int, int], Fetcher], count: Callable[[], int]) -> None:
        """`make` creates a fetcher from the leader's id and the fetcher's number; `count` is the number per
        leader."""
        self._make = make
        self._count = count
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._tasks: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._places: dict[Key, tuple[int, int]] = {}

    def follow(self, replica: Replica) -> None:
        """Fetch a partition from its leader, starting at the end of its log."""
        key = (replica.topic_id, replica.index)
        self.forget(key)
        log = replica.log
        if log is None or replica.leader_id < 0:
            return
        place = (replica.leader_id, (crc32(replica.topic_id) + replica.index) % self._count())
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = self._make(*place)
            task = self._tasks[place] = asyncio.ensure_future(fetcher.run())
            task.add_done_callback(lambda done: self._on_ended(place, done))
        self._places[key] = place
        fetcher.follow(replica, log)

    def forget(self, key: Key) -> None:
        """Stop fetching a partition. A loop without partitions ends and closes its connection."""
        place = self._places.pop(key, None)
        if place is None:
            return
        fetcher = self._fetchers[place]
        fetcher.forget(key)

    def end_idle(self) -> None:
        """End the loops without partitions."""
        for place, fetcher in list(self._fetchers.items()):
            if not fetcher.following.positions and place not in self._places.values():
                del self._fetchers[place]
                self._tasks.pop(place).cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._fetchers.clear()
        self._tasks.clear()
        self._places.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_ended(self, place: tuple[int, int], task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        logger.error("The fetcher for broker %d failed", place[0], exc_info=error)
        if self._tasks.get(place) is task:
            # Its partitions stay with it until it restarts: once per second at most.
            asyncio.get_running_loop().call_later(1.0, self._restart_loop, place)

    def _restart_loop(self, place: tuple[int, int]) -> None:
        fetcher = self._fetchers.get(place)
        if fetcher is not None:
            fetcher.following.session.reset()
            task = self._tasks[place] = asyncio.ensure_future(fetcher.run())
            task.add_done_callback(lambda done: self._on_ended(place, done))
