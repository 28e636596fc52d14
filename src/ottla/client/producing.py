"""The producer's engine: takes batches from the accumulator to the brokers that lead their partitions.

It lives on one event loop. A turn looks at every partition that has batches, and sends what is ready: full,
or older than `linger.ms`, or wanted by a flush. A request holds one batch of each partition that its node
leads. What comes back decides in `_judge`: done, again, split or failed. Only turns and answers change
batches, so nothing here needs a lock; users' threads only add batches at the end of the queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import Accumulator, Batch, Delivery, PartitionQueue, TopicQueues
from ottla.client.core.idempotence import Idempotence, PartitionSequences
from ottla.client.core.metadata import ClusterView, Node, TopicView
from ottla.client.core.partitioners import BrokerDelays, Sticky
from ottla.client.core.transactions import PRODUCE_VERSION_MAX_V1
from ottla.client.errors import (
    AbortableError,
    ClientError,
    Closed,
    ConnectionRefused,
    ConnectTimedOut,
    Disconnected,
    FatalError,
    NameNotResolved,
    NodeUnknown,
    TimedOut,
)
from ottla.client.transacting import TransactionRunner
from ottla.client.values import Status
from ottla.ports import Clock, Network, Random
from ottla.records.batch import Codec
from ottla.records.builder import BatchBuilder
from ottla.records.record import read_batch
from ottla.wire.errors import ErrorCode, InvalidRecord, KafkaError, UnsupportedVersion, for_code
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

log = logging.getLogger(__name__)

LANE = "produce"

_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_PERHAPS_WRITTEN = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
_NEVER_SENT = (ConnectionRefused, ConnectTimedOut, NameNotResolved, NodeUnknown)
_HOPELESS_TOPIC = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_WEIGH_SECONDS = 0.02
_LEVELS = {
    "gzip": "compression_gzip_level",
    "lz4": "compression_lz4_level",
    "zstd": "compression_zstd_level",
}


class _NodeState:
    """What is under way to one broker."""

    __slots__ = ("connecting", "id", "in_flight")

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.in_flight = 0
        self.connecting: asyncio.Task[None] | None = None


class Engine:
    """One producer's work on the network."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        clock: Clock,
        network: Network,
        random: Random,
        schedule: Callable[[Callable[[], object]], object],
        fallback: Callable[..., Any],
        block: Callable[[Delivery, float | None], object],
        lock: AbstractContextManager[Any],
    ) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, clock=clock, network=network, random=random)
        codec = Codec.from_name(settings.compression_type)
        level_name = _LEVELS.get(settings.compression_type)
        self.accumulator = Accumulator(
            batch_size=max(1, min(settings.batch_size, settings.max_request_size)),
            codec=codec,
            level=None if level_name is None else getattr(settings, level_name),
            buffer_memory=settings.buffer_memory,
            max_request_size=settings.max_request_size,
            ignores_keys=settings.partitioner_ignore_keys,
            random=random,
            now_ms=clock.now_ms,
            monotonic=clock.monotonic,
            wake=self.wake,
            fallback=fallback,
            block=block,
            wait=self.wait_for,
            lock=lock,
        )
        self.idempotence = (
            Idempotence(transactional=settings.transactional_id is not None)
            if settings.enable_idempotence
            else None
        )
        self.transactions: TransactionRunner | None = None
        if settings.transactional_id is not None:
            assert self.idempotence is not None
            self.transactions = TransactionRunner(self, settings, self.idempotence)
        self.fatal: Exception | None = None
        self.is_closed = False
        self.counts = {"records_sent": 0, "records_failed": 0, "requests": 0, "retries": 0, "splits": 0}
        self.may_be_fast = False
        """Whether records need no call of Python code on their way: the producer's class knows."""
        self.room_wanted: list[Callable[[], object]] = []
        """Called when memory has become free."""
        self._clock = clock
        self._random = random
        self._schedule = schedule
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._nodes: dict[int, _NodeState] = {}
        self._sequences: dict[tuple[str, int], PartitionSequences] = {}
        self._flushes = 0
        self._is_leaving = False
        self._linger = settings.linger_ms / 1000
        self._delivery_seconds = settings.delivery_timeout_ms / 1000
        self._delays = BrokerDelays(settings.partitioner_availability_timeout_ms)
        self._weighed_at = 0.0
        self._id_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.cluster.on_view(self._view_changed)

    # Waiting and waking

    def wake(self) -> None:
        """Have a turn soon. Any thread may call it."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._turn)

    async def wait_for(self, delivery: Delivery) -> Any:
        """What `await delivery` does."""
        while not delivery.done():
            await self._batch_done(delivery.batch)
        return delivery.result()

    async def _batch_done(self, batch: Batch) -> None:
        done = asyncio.Event()
        batch.on_done(done.set)
        await done.wait()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine beside the turns, until the engine is closed."""
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Topics

    async def topic(self, name: str, partition: int, timeout_ms: float) -> TopicQueues:
        """The queues of a topic, once metadata has it with this partition."""
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self.cluster.follow([name])
        attempt = 0
        while True:
            self.check_open()
            view = self.cluster.view.topics.get(name)
            if view is not None and view.error in _HOPELESS_TOPIC:
                raise for_code(int(view.error or 0))(f"The topic {name} cannot be written to.")
            if view is not None and view.error is None and len(view.partitions) > max(partition, 0):
                return self._queues(name, view)
            left_ms = (deadline - self._clock.monotonic()) * 1000
            if left_ms <= 0:
                raise self._no_topic(name, partition, view, timeout_ms)
            if attempt:
                wait_ms = min(self.cluster.backoff.delay_ms(attempt - 1), left_ms)
                await asyncio.sleep(wait_ms / 1000)
                left_ms = max((deadline - self._clock.monotonic()) * 1000, 1.0)
            attempt += 1
            try:
                await self.cluster.refresh(topics=[name], allow_auto_topic_creation=True, timeout_ms=left_ms)
            except (Disconnected, TimedOut) as error:
                raise TimedOut(
                    f"No metadata of {name} came within max.block.ms ({timeout_ms:g} ms): {error}"
                ) from error

    def _no_topic(self, name: str, partition: int, view: TopicView | None, timeout_ms: float) -> ClientError:
        if view is not None and view.partitions:
            return TimedOut(
                f"{name} has {len(view.partitions)} partitions, and no partition {partition} after "
                f"max.block.ms ({timeout_ms:g} ms)."
            )
        reason = f" ({view.error.name})" if view is not None and view.error is not None else ""
        return TimedOut(f"The topic {name} is not there{reason} after max.block.ms ({timeout_ms:g} ms).")

    def _queues(self, name: str, view: TopicView) -> TopicQueues:
        found: TopicQueues | None = self.accumulator.topics.get(name)
        if found is None:
            found = TopicQueues(
                self.accumulator, name, view, Sticky(self.accumulator.batch_size, self._random)
            )
            found.grow(view)
            found.last_used = self._clock.monotonic()
            self.accumulator.topics[name] = found
        elif found.view is not view:
            found.grow(view)
        return found

    def _view_changed(self, view: ClusterView) -> None:
        now = self._clock.monotonic()
        idle_max = self.settings.metadata_max_idle_ms / 1000
        for name, queues in list(self.accumulator.topics.items()):
            seen = view.topics.get(name)
            if seen is not None and seen.error is None and len(seen.partitions) >= len(queues.queues):
                queues.grow(seen)
            if now - queues.last_used > idle_max and not any(queue.batches for queue in queues.queues):
                del self.accumulator.topics[name]
                self.cluster.unfollow([name])
        self.wake()

    # Turns

    def _turn(self) -> None:
        self._is_scheduled = False
        if self.is_closed:
            return
        now = self._clock.monotonic()
        if self.idempotence is not None:
            self._tend_identity()
        if self.transactions is not None and self.transactions.drops_unsent:
            self.fail_unsent(self.transactions.reason)
        next_at = self._expire(now)
        by_node: dict[int, list[PartitionQueue]] = {}
        accumulator = self.accumulator
        everything = bool(self._flushes or self.room_wanted)
        for queue in list(accumulator.active):
            ready_at = self._ready_at(queue, now, everything)
            if ready_at is None:
                continue
            if ready_at > now:
                next_at = min(next_at, ready_at)
                continue
            queue.topic.last_used = now
            leader = self.cluster.view.leader(queue.topic.name, queue.index)
            if leader < 0:
                self.cluster.request_refresh()
                next_at = min(next_at, now + 0.1)
            else:
                by_node.setdefault(leader, []).append(queue)
        for node_id, queues in by_node.items():
            self._send_to(node_id, queues, now)
        if now - self._weighed_at > _WEIGH_SECONDS and self.settings.partitioner_adaptive_partitioning_enable:
            self._weighed_at = now
            self._weigh()
        self._set_timer(next_at, now)

    def _set_timer(self, at: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at < float("inf"):
            self._timer = asyncio.get_running_loop().call_later(max(at - now, 0.0), self._turn)

    def _ready_at(self, queue: PartitionQueue, now: float, everything: bool) -> float | None:
        """When the next batch of a partition may be sent; None where it has none."""
        batches = queue.batches
        if not batches:
            self.accumulator.active.pop(queue, None)
            if batches:  # one came meanwhile
                self.accumulator.active[queue] = None
                self.wake()
            return None
        batch: Batch = batches[0]
        if batch.attempts or batch.is_split:
            return queue.blocked_until
        if everything or not batch.is_open or len(batches) > 1 or batch.builder.is_full:
            return now
        return batch.created + self._linger

    def _send_to(self, node_id: int, queues: list[PartitionQueue], now: float) -> None:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _NodeState(node_id)
        limit = self.settings.max_in_flight_requests_per_connection
        is_free = node.in_flight < limit
        self._delays.had_records(node_id, int(now * 1000), taken=is_free)
        if not is_free:
            return
        if not self.cluster.is_connected(node_id, LANE):
            if node.connecting is None:
                node.connecting = self.spawn(self._connect(node))
            return
        while node.in_flight < limit:
            batches = self._take(queues)
            if not batches:
                return
            self._send(node, batches)

    async def _connect(self, node: _NodeState) -> None:
        try:
            await self.cluster.connect(node.id, LANE)
        except Disconnected as error:
            log.debug("Node %d cannot be reached: %s", node.id, error)
            self.cluster.last_error = error
            self.cluster.request_refresh()
            self.cluster_unreachable(node.id)
        except (ClientError, KafkaError, OSError) as error:
            self.fail_everything(error)
        finally:
            node.connecting = None
            self.wake()

    def cluster_unreachable(self, node_id: int) -> None:
        """A node refused the connection: what is for it waits a little."""
        until = self._clock.monotonic() + self.settings.retry_backoff_ms / 1000
        for queue in list(self.accumulator.active):
            if self.cluster.view.leader(queue.topic.name, queue.index) == node_id:
                queue.blocked_until = max(queue.blocked_until, until)

    def _take(self, queues: Iterable[PartitionQueue]) -> list[Batch]:
        """The first batch of each partition that may send one, as much as one request holds."""
        taken: list[Batch] = []
        size = 0
        keeps_order = self.settings.max_in_flight_requests_per_connection == 1
        for queue in queues:
            if not queue.batches or (keeps_order and queue.in_flight):
                continue
            batch: Batch = queue.batches[0]
            if (batch.attempts or batch.is_split) and queue.blocked_until > self._clock.monotonic():
                continue
            if not self._may_send(queue, batch):
                continue
            self.accumulator.seal(queue, batch)
            size += batch.builder.bytes_estimate
            if size > self.settings.max_request_size and taken:
                break
            if self.idempotence is not None and batch.sequence < 0:
                queue.sequences.give(batch)
            queue.batches.popleft()
            queue.in_flight += 1
            batch.is_in_flight = True
            batch.attempts += 1
            taken.append(batch)
        return taken

    def _may_send(self, queue: PartitionQueue, batch: Batch) -> bool:
        if self.transactions is not None and not self.transactions.may_send(queue.topic.name, queue.index):
            return False
        if self.idempotence is None:
            return True
        if queue.sequences is None:
            if not self.idempotence.has_id:
                return False
            key = (queue.topic.name, queue.index)
            queue.sequences = self._sequences.get(key)
            if queue.sequences is None:
                queue.sequences = self._sequences[key] = self.idempotence.sequences()
        return self.idempotence.may_send(queue.sequences, batch)

    def _send(self, node: _NodeState, batches: list[Batch]) -> None:
        topics: dict[str, ProduceRequest.TopicProduceData] = {}
        transactional_id = self.settings.transactional_id
        is_transactional = transactional_id is not None
        for batch in batches:
            queue = batch.queue
            data = topics.get(queue.topic.name)
            if data is None:
                data = topics[queue.topic.name] = ProduceRequest.TopicProduceData(
                    name=queue.topic.name, topic_id=queue.topic.view.topic_id
                )
            records = batch.builder.build(
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.sequence,
                transactional=is_transactional,
            )
            data.partition_data.append(
                ProduceRequest.PartitionProduceData(index=queue.index, records=records)
            )
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=self.settings.acks,
            timeout_ms=self.settings.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        version_max = None
        if self.transactions is not None and self.transactions.protocol < 2:
            version_max = PRODUCE_VERSION_MAX_V1
        node.in_flight += 1
        self.counts["requests"] += 1
        future = self.cluster.send(
            node.id,
            request,
            lane=LANE,
            timeout_ms=self.settings.request_timeout_ms,
            version_max=version_max,
            answered=self.settings.acks != 0,
        )
        future.add_done_callback(partial(self._answered, node, batches))

    # Answers

    def _answered(self, node: _NodeState, batches: list[Batch], future: asyncio.Future[Any]) -> None:
        node.in_flight -= 1
        for batch in batches:
            batch.is_in_flight = False
            batch.queue.in_flight -= 1
        if self.is_closed:
            return
        error = Closed("The request was cancelled.") if future.cancelled() else future.exception()
        if error is not None:
            self._lost(batches, error)
        elif self.settings.acks == 0:
            for batch in batches:
                batch.is_doubtful = True
                self._finish(batch, -1, -1)
        else:
            self._sort_answers(batches, future.result())
        self.wake()

    def _lost(self, batches: list[Batch], error: BaseException) -> None:
        is_retriable = isinstance(error, Disconnected)
        if is_retriable:
            self.cluster.request_refresh()
        for batch in batches:
            if batch.is_done:
                continue
            if not isinstance(error, _NEVER_SENT):
                batch.is_doubtful = True
            if is_retriable and self._has_tries(batch):
                self._again(batch, wait=True)
            else:
                self._fail(batch, error if isinstance(error, Exception) else Closed(str(error)))

    def _sort_answers(self, batches: list[Batch], answer: ProduceResponse) -> None:
        by_place = {(batch.queue.topic.name, batch.queue.index): batch for batch in batches}
        names = self.cluster.view.topic_names
        for topic in answer.responses:
            name = topic.name or names.get(topic.topic_id)
            if name is None:  # a topic of this name was made anew meanwhile
                same = [one for one in batches if one.queue.topic.view.topic_id == topic.topic_id]
                name = same[0].queue.topic.name if same else ""
            for told in topic.partition_responses:
                batch = by_place.pop((name, told.index), None)
                if batch is not None and not batch.is_done:
                    self._judge(batch, told, answer)
        if by_place:
            missing = Disconnected("The broker's answer says nothing of some of the batches sent.")
            self._lost(list(by_place.values()), missing)

    def _judge(
        self, batch: Batch, told: ProduceResponse.PartitionProduceResponse, answer: ProduceResponse
    ) -> None:
        code = told.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self._finish(batch, told.base_offset, told.log_append_time_ms)
            return
        if code in _PERHAPS_WRITTEN:
            batch.is_doubtful = True
        has_hint = code in _MOVED and self._follow_hint(batch, told, answer)
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            self._split(batch)
        elif self._has_tries(batch) and self._may_retry(batch, code, told.log_start_offset):
            self._again(batch, wait=not has_hint)
        else:
            error: KafkaError = for_code(code)(told.error_message)
            if told.record_errors:
                batch.record_errors = {
                    one.batch_index: InvalidRecord(one.batch_index_error_message or told.error_message)
                    for one in told.record_errors
                }
                error = InvalidRecord(
                    told.error_message or "Other records of the same batch were refused, so all of it was."
                )
            self._fail(batch, error)

    def _follow_hint(
        self, batch: Batch, told: ProduceResponse.PartitionProduceResponse, answer: ProduceResponse
    ) -> bool:
        leader = told.current_leader
        if leader is not None and leader.leader_id >= 0:
            endpoint = next((one for one in answer.node_endpoints if one.node_id == leader.leader_id), None)
            node = None if endpoint is None else Node(endpoint.node_id, endpoint.host, endpoint.port)
            queue = batch.queue
            if self.cluster.update_leader(
                queue.topic.name, queue.index, leader.leader_id, leader.leader_epoch, node
            ):
                return True
        self.cluster.request_refresh()
        return False

    def _has_tries(self, batch: Batch) -> bool:
        if self.transactions is not None and self.transactions.drops_unsent:
            return False
        age = self._clock.monotonic() - batch.created
        return batch.attempts <= self.settings.retries and age < self._delivery_seconds

    def _may_retry(self, batch: Batch, code: int, log_start_offset: int) -> bool:
        if self.idempotence is None or batch.sequence < 0:
            return for_code(code).retriable
        return self.idempotence.may_retry(batch.queue.sequences, batch, code, log_start_offset)

    def _again(self, batch: Batch, *, wait: bool) -> None:
        """Put a batch back where it was: in front, and among others that are tried again in their order."""
        self.counts["retries"] += 1
        queue = batch.queue
        position = 0
        if batch.sequence >= 0:
            for position, other in enumerate(queue.batches):  # noqa: B007
                if other.sequence < 0 or other.sequence > batch.sequence:
                    break
            else:
                position = len(queue.batches)
        queue.batches.insert(position, batch)
        self.accumulator.active[queue] = None
        if wait:
            delay_ms = self.cluster.backoff.delay_ms(batch.attempts - 1)
            queue.blocked_until = self._clock.monotonic() + delay_ms / 1000
        else:
            queue.blocked_until = 0.0

    def _split(self, batch: Batch) -> None:
        """A batch that the broker finds too large becomes several, of half the size at most."""
        self.counts["splits"] += 1
        queue, accumulator = batch.queue, self.accumulator
        records = read_batch(batch.builder.build(), 0)
        size_max = max(1, min(accumulator.batch_size, batch.builder.bytes_estimate // 2))
        if batch.is_split or batch.count == 2:
            size_max = max(1, batch.builder.bytes_estimate // 2)
        pieces: list[Batch] = []
        builder: BatchBuilder | None = None
        for record in records:
            if builder is None or not builder.append(
                record.timestamp, record.key, record.value, record.headers
            ):
                builder = BatchBuilder(codec=accumulator.codec, level=accumulator.level, batch_size=size_max)
                builder.append(record.timestamp, record.key, record.value, record.headers)
                piece = Batch(queue, builder, batch.created, 0)
                piece.is_split, piece.is_open = True, False
                piece.is_doubtful = batch.is_doubtful
                pieces.append(piece)
            pieces[-1].count += 1
        if accumulator.codec:
            queue.topic.ratio = 1.0
        pieces[0].reserved, batch.reserved = batch.reserved, 0
        self._number_pieces(batch, pieces)
        for piece in pieces:
            accumulator.incomplete[piece] = None
        accumulator.incomplete.pop(batch, None)
        queue.batches.extendleft(reversed(pieces))
        accumulator.active[queue] = None
        queue.blocked_until = 0.0
        batch.hand_over(pieces)

    def _number_pieces(self, batch: Batch, pieces: list[Batch]) -> None:
        if self.idempotence is None or batch.sequence < 0:
            return
        sequences: PartitionSequences = batch.queue.sequences
        sequences.remove(batch)
        sequence = batch.sequence
        for piece in pieces:
            piece.producer_id, piece.producer_epoch = batch.producer_id, batch.producer_epoch
            piece.sequence = sequence
            sequence += piece.count
            sequences.add(piece)

    # Ends

    def _finish(self, batch: Batch, base_offset: int, log_append_time: int) -> None:
        batch.base_offset = base_offset
        batch.log_append_time = log_append_time
        batch.status = Status.POSSIBLY_PERSISTED if self.settings.acks == 0 else Status.PERSISTED
        if self.idempotence is not None:
            batch.queue.sequences.acknowledge(batch)
        self._end(batch)

    def _fail(self, batch: Batch, error: Exception) -> None:
        """Give a batch up."""
        batch.error = error
        batch.status = Status.POSSIBLY_PERSISTED if batch.is_doubtful else Status.NOT_PERSISTED
        code = int(error.code) if isinstance(error, KafkaError) else -1
        if self.idempotence is not None and batch.queue.sequences is not None:
            was_refused = not batch.is_doubtful and not batch.is_in_flight
            self.idempotence.failed(batch.queue.sequences, batch, code, was_refused=was_refused)
        if self.transactions is not None:
            self.transactions.batch_failed(error)
        elif code in (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.PRODUCER_FENCED):
            self.fatal = self.fatal or error
        if self.accumulator.is_fast:
            self.update_fast()
        self._end(batch)

    def _end(self, batch: Batch) -> None:
        batch.is_done = True
        self.counts["records_sent" if batch.error is None else "records_failed"] += batch.count
        self.accumulator.release(batch)
        if batch.watched:
            for callback, report in batch.reports():
                try:
                    callback(report)
                except Exception:
                    log.exception("A delivery callback failed.")
            batch.watched = []
        batch.tell()
        if self.room_wanted and self.accumulator.used <= self.accumulator.buffer_memory // 2:
            self.tell_room()

    def want_room(self, notify: Callable[[], object]) -> None:
        """Have `notify` called once there is memory again: soon, since everything is sent until then."""
        if notify not in self.room_wanted:
            self.room_wanted.append(notify)
        if self.accumulator.used <= self.accumulator.buffer_memory // 2:
            self.tell_room()
        else:
            self.wake()

    def tell_room(self) -> None:
        """Wake those who wait for memory."""
        waiting, self.room_wanted = self.room_wanted, []
        for notify in waiting:
            notify()

    def _expire(self, now: float) -> float:
        """Give up batches that are too old; when the next one will be."""
        with self.accumulator.lock:
            oldest = next(iter(self.accumulator.incomplete), None)
        if oldest is None:
            return float("inf")
        if oldest.created + self._delivery_seconds > now:
            return oldest.created + self._delivery_seconds
        for batch in list(self.accumulator.incomplete):
            if batch.created + self._delivery_seconds <= now and not batch.is_done:
                self._give_up(batch)
        return now + 0.1

    def _give_up(self, batch: Batch) -> None:
        queue = batch.queue
        reason = f" ({self.cluster.last_error})" if self.cluster.last_error is not None else ""
        late = TimedOut(
            f"{batch.count} records for {queue} were not acknowledged within delivery.timeout.ms "
            f"({self.settings.delivery_timeout_ms} ms){reason}."
        )
        if batch.is_in_flight:
            batch.is_doubtful = True
        elif batch in queue.batches:
            self.accumulator.seal(queue, batch)
            queue.batches.remove(batch)
        self._fail(batch, late)

    def fail_unsent(self, error: Exception) -> None:
        """Give up everything that is not on the wire."""
        for queue in list(self.accumulator.active):
            while queue.batches:
                batch = queue.batches.popleft()
                self.accumulator.seal(queue, batch)
                self._fail(batch, error)

    def fail_everything(self, error: Exception) -> None:
        """Nothing can be sent any more."""
        if not isinstance(error, AbortableError):
            self.fatal = self.fatal or error
        self.update_fast()
        for batch in list(self.accumulator.incomplete):
            if not batch.is_done:
                if batch.is_in_flight:
                    batch.is_doubtful = True
                elif batch in batch.queue.batches:
                    self.accumulator.seal(batch.queue, batch)
                    batch.queue.batches.remove(batch)
                self._fail(batch, error)
        self.tell_room()

    # Identity

    def _tend_identity(self) -> None:
        idempotence = self.idempotence
        assert idempotence is not None
        idempotence.settle_unresolved()
        if self.transactions is not None:
            return
        if idempotence.may_bump:
            idempotence.bump()
        if not idempotence.has_id and self._id_task is None and self.fatal is None:
            self._id_task = self.spawn(self._take_id())

    async def _take_id(self) -> None:
        """Ask for a producer id, until one is given."""
        assert self.idempotence is not None
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFF_FFFF)
        attempt = 0
        try:
            while True:
                try:
                    answer = await self.cluster.ask_any(request)
                    if answer.error_code:
                        raise for_code(answer.error_code)("No producer id was given.")
                    self.idempotence.set_id(answer.producer_id, answer.producer_epoch)
                    return
                except (Disconnected, KafkaError) as error:
                    if isinstance(error, KafkaError) and not error.retriable:
                        self.fail_everything(error)
                        return
                    self.cluster.last_error = error
                await asyncio.sleep(self.cluster.backoff.delay_ms(attempt) / 1000)
                attempt += 1
        except (ClientError, UnsupportedVersion) as error:
            self.fail_everything(error)
        finally:
            self._id_task = None
            self.wake()

    # The adaptive part of the sticky partitioner

    def _weigh(self) -> None:
        view = self.cluster.view
        for queues in list(self.accumulator.topics.values()):
            if len(queues.queues) < 2:
                continue
            usable = [
                queue
                for queue in queues.queues
                if (leader := view.leader(queues.name, queue.index)) >= 0 and not self._delays.is_late(leader)
            ]
            queues.sticky.weigh(
                [len(queue.batches) for queue in usable],
                [queue.index for queue in usable],
                len(queues.queues),
            )

    # What users ask for

    def update_fast(self) -> None:
        """Whether `send` may take the short way, after anything that it depends on has changed."""
        is_taking = self.transactions is None or self.transactions.is_taking
        is_usable = self.fatal is None and not self.is_closed and not self._is_leaving
        self.accumulator.is_fast = self.may_be_fast and is_taking and is_usable

    def check_open(self) -> None:
        if self.is_closed or self._is_leaving:
            raise Closed("The producer is closed.")
        if self.fatal is not None:
            raise FatalError(f"The producer cannot go on: {self.fatal} Make another.") from self.fatal

    async def flush(self) -> None:
        """Send everything that is there now, and wait until all of it is done."""
        with self.accumulator.lock:
            batches: list[Batch] = list(self.accumulator.incomplete)
        self._flushes += 1
        self.wake()
        try:
            while batches:
                batch = batches.pop()
                if batch.pieces is not None:
                    batches.extend(batch.pieces)
                elif not batch.is_done:
                    batches.append(batch)
                    await self._batch_done(batch)
        finally:
            self._flushes -= 1

    async def close(self, timeout: float | None) -> None:
        """Flush for up to `timeout` seconds, give up what is left, and leave."""
        if self.is_closed:
            return
        self._is_leaving = True
        self.update_fast()
        if self.transactions is not None:
            self.transactions.leave()
        try:
            if timeout is None or timeout > 0:
                async with asyncio.timeout(timeout):
                    await self.flush()
        except TimeoutError:
            log.warning("The producer is closed with records that were not acknowledged.")
        finally:
            self.fail_everything(Closed("The producer was closed before the record was acknowledged."))
            self.is_closed = True
            if self._timer is not None:
                self._timer.cancel()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.cluster.close()
