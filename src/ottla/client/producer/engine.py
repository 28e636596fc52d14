"""The producer's engine: sends batches from the accumulator to the leaders of their partitions.

It runs on one event loop. A turn looks at every partition with batches, and sends what is ready: full, or
older than `linger.ms`, or part of a flush. A request contains one batch of each partition that its node
leads; `batch_outcomes.py` handles the responses. Only turns and responses change batches, so nothing here
needs a lock; users' threads only append batches to the queues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import Accumulator, Batch, Delivery, PartitionQueue, TopicQueues
from ottla.client.core.idempotence import Idempotence, PartitionSequences
from ottla.client.core.metadata import ClusterView, TopicView
from ottla.client.core.partitioners import BrokerDelays, Sticky
from ottla.client.core.transactions import PRODUCE_VERSION_MAX_V1
from ottla.client.errors import (
    ClientError,
    Closed,
    Disconnected,
    TimedOut,
    TransactionStateError,
)
from ottla.client.net.cluster import Cluster
from ottla.client.ports import Ports
from ottla.client.producer.batch_outcomes import BatchOutcomes
from ottla.client.producer.state import MemoryWaiters, ProducerState
from ottla.client.producer.transactions import TransactionRunner
from ottla.rare_paths import rarely
from ottla.records.batch import Codec
from ottla.wire.errors import (
    ErrorCode,
    KafkaError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    for_code,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import ProduceRequest

log = logging.getLogger(__name__)

LANE = "produce"

_HOPELESS_TOPIC = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
_WEIGH_SECONDS = 0.02
_FAILED_TURN_MS_MIN = 10
_LEVELS = {
    "gzip": "compression_gzip_level",
    "lz4": "compression_lz4_level",
    "zstd": "compression_zstd_level",
}


class _NodeState:
    """The requests in flight to one broker."""

    __slots__ = ("connecting", "id", "in_flight")

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.in_flight = 0
        self.connecting: asyncio.Task[None] | None = None


def _raise(failure: BaseException) -> None:
    raise failure


class Engine:
    """The network part of one producer."""

    is_watched = False
    """Whether to log a loss if the engine ends without a close: only for the asyncio producer.

    It is a class attribute, since `__del__` also sees an engine whose settings were invalid.
    """

    def __init__(
        self,
        settings: ProducerSettings,
        ports: Ports,
        *,
        schedule: Callable[[Callable[[], object]], object],
        fallback: Callable[..., Any],
        block: Callable[[Delivery, float | None], object],
        lock: AbstractContextManager[object],
        may_be_fast: bool,
    ) -> None:
        clock, random = ports.clock, ports.random
        self.clock = clock
        self.settings = settings
        self.counts = {"records_sent": 0, "records_failed": 0, "requests": 0, "retries": 0, "splits": 0}
        self.cluster = Cluster(settings, clock=clock, network=ports.network, random=random)
        codec = Codec.from_name(settings.compression_type)
        level_name = _LEVELS.get(settings.compression_type)
        self.accumulator = Accumulator(
            batch_size=max(1, min(settings.batch_size, settings.max_request_size)),
            codec=codec,
            level=None if level_name is None else getattr(settings, level_name),
            buffer_memory=settings.buffer_memory,
            max_request_size=settings.max_request_size,
            ignores_keys=settings.partitioner_ignore_keys,
            # A size that the user has set is an upper bound. And without responses the producer would not
            # learn that a topic takes smaller batches only.
            may_grow="batch.size" not in settings.given and settings.acks != 0,
            random=random,
            now_ns=getattr(clock, "now_ns", lambda: clock.now_ms() * 1_000_000),
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
        self.state = ProducerState(self.accumulator, may_be_fast=may_be_fast)
        self.memory = MemoryWaiters(self.accumulator, self.wake)
        self.transactions: TransactionRunner | None = None
        if settings.transactional_id is not None:
            assert self.idempotence is not None
            self.transactions = TransactionRunner(self, settings, self.idempotence)
            self.state.transactions = self.transactions
        self.outcomes = BatchOutcomes(
            settings,
            clock,
            self.cluster,
            self.accumulator,
            self.idempotence,
            self.transactions,
            self.state,
            self.memory,
            self.counts,
            pass_on=self._pass_on,
        )
        self._random = random
        self._schedule = schedule
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._nodes: dict[int, _NodeState] = {}
        self._sequences: dict[tuple[str, int], PartitionSequences] = {}
        self._flushes = 0
        self._linger = settings.linger_ms / 1000
        self._probes = (
            settings.acks != 0
            and self.idempotence is None
            and settings.max_in_flight_requests_per_connection > 1
        )
        self._delays = BrokerDelays(settings.partitioner_availability_timeout_ms)
        self._weighed_at = 0.0
        self._id_task: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.cluster.on_view(self._view_changed)

    def warn_of_loss(self) -> None:
        """Log that the engine's loop or the program ended before the producer was closed."""
        count = sum(batch.count for batch in self.accumulator.incomplete)
        if count and not self.state.is_closed:
            self.state.is_closed = True
            log.warning(
                "A producer was not closed before its event loop ended, and %d records were not delivered. "
                "Use `async with`, or await close().",
                count,
            )

    def __del__(self) -> None:
        if self.is_watched:
            self.warn_of_loss()

    # Waiting and waking

    def wake(self) -> None:
        """Run a turn soon. Thread-safe."""
        if self._is_scheduled:
            return
        try:
            self._is_scheduled = True
            self._schedule(self._turn)
        except BaseException:  # Ctrl-C too: no other call would schedule a turn
            self._is_scheduled = False
            raise

    def _pass_on(self, failure: BaseException) -> None:
        """Raise a callback's Ctrl-C or `sys.exit()` in the user's own loop, after this turn.

        The blocking producer's thread continues, since nothing would be sent or reported without it.
        """
        if self.is_watched:
            asyncio.get_running_loop().call_soon(_raise, failure)

    async def wait_for(self, delivery: Delivery) -> Any:
        """What `await delivery` does."""
        while not delivery.done():
            await self.batch_done(delivery.batch)
        return delivery.result()

    async def batch_done(self, batch: Batch) -> None:
        """Wait until a batch is done or split."""
        done = asyncio.Event()
        batch.on_done(done.set)
        await done.wait()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine beside the turns, until the engine is closed."""
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    # Topics

    async def topic(self, name: str, partition: int, timeout_ms: float) -> TopicQueues:
        """The queues of a topic, once the metadata has it with this partition."""
        deadline = self.clock.monotonic() + timeout_ms / 1000
        self.cluster.follow([name])
        attempt = 0
        while True:
            self.state.check_open()
            view = self.cluster.view.topics.get(name)
            if view is not None and view.error in _HOPELESS_TOPIC:
                raise for_code(int(view.error or 0))(f"Cannot write to topic {name}.")
            if view is not None and view.error is None and len(view.partitions) > max(partition, 0):
                return self._queues(name, view)
            left_ms = (deadline - self.clock.monotonic()) * 1000
            if left_ms <= 0:
                raise self._no_topic(name, partition, view, timeout_ms)
            if attempt:
                wait_ms = min(self.cluster.backoff.delay_ms(attempt - 1), left_ms)
                await asyncio.sleep(wait_ms / 1000)
                left_ms = max((deadline - self.clock.monotonic()) * 1000, 1.0)
            attempt += 1
            try:
                await self.cluster.refresh(topics=[name], allow_auto_topic_creation=True, timeout_ms=left_ms)
            except (Disconnected, TimedOut) as error:
                if view is not None and isinstance(error, TimedOut):
                    raise self._no_topic(name, partition, view, timeout_ms) from error
                raise TimedOut(
                    f"No metadata of {name} was received within max.block.ms ({timeout_ms:.0f} ms): {error}"
                ) from error

    def _no_topic(self, name: str, partition: int, view: TopicView | None, timeout_ms: float) -> ClientError:
        if view is not None and view.partitions:
            return TimedOut(
                f"{name} has {len(view.partitions)} partitions; partition {partition} did not appear within "
                f"max.block.ms ({timeout_ms:.0f} ms)."
            )
        reason = f" ({view.error.name})" if view is not None and view.error is not None else ""
        return TimedOut(
            f"Topic {name} did not become available{reason} within max.block.ms ({timeout_ms:.0f} ms)."
        )

    def _queues(self, name: str, view: TopicView) -> TopicQueues:
        found: TopicQueues | None = self.accumulator.topics.get(name)
        if found is None:
            found = TopicQueues(
                self.accumulator, name, view, Sticky(self.accumulator.batch_size, self._random)
            )
            found.grow(view)
            found.last_used = self.clock.monotonic()
            self.accumulator.topics[name] = found
        elif found.view is not view:
            return self._update(found, view)
        return found

    def _update(self, queues: TopicQueues, view: TopicView) -> TopicQueues:
        """Apply a newer view of a topic; return its current queues."""
        is_another = view.topic_id != queues.view.topic_id
        if is_another:
            queues.proven_bytes = self.accumulator.batch_size
            for queue in queues.queues:
                if queue.sequences is not None:
                    queue.sequences.is_known = False  # the new log has seen nothing of this producer
        if len(view.partitions) >= len(queues.queues):
            queues.grow(view)
            return queues
        if not is_another:
            return queues  # an old answer: partitions are never fewer than before
        made = queues.recreated(view, Sticky(self.accumulator.batch_size, self._random))
        gone = UnknownTopicOrPartition(
            f"{queues.name} was deleted and recreated with {len(view.partitions)} partitions."
        )
        for queue in queues.queues[len(view.partitions) :]:
            while queue.batches:
                self.outcomes.fail_first(queue, gone)
        return made

    def _view_changed(self, view: ClusterView) -> None:
        now = self.clock.monotonic()
        idle_max = self.settings.metadata_max_idle_ms / 1000
        for name, queues in list(self.accumulator.topics.items()):
            seen = view.topics.get(name)
            if seen is not None and seen.error is None and seen is not queues.view:
                queues = self._update(queues, seen)
            if now - queues.last_used > idle_max and self.accumulator.forget(queues):
                self.cluster.unfollow([name])
        self.wake()

    # Turns

    def _turn(self) -> None:
        self._is_scheduled = False
        self._look()

    def _look(self) -> None:
        """Send what is ready, and look again when more will be."""
        if self.state.is_closed:
            return
        now = self.clock.monotonic()
        try:
            next_at = self._send_ready(now)
        except Exception:
            # Memory that is used up, or a bug: without another turn nothing would be sent or given up.
            log.exception("The producer failed to send; retrying.")
            next_at = now + max(self.settings.retry_backoff_ms, _FAILED_TURN_MS_MIN) / 1000
        self._set_timer(next_at, now)

    def _send_ready(self, now: float) -> float:
        """Send what is ready; return when more will be."""
        if self.idempotence is not None:
            self._tend_identity()
        if self.transactions is not None and self.transactions.drops_unsent:
            self.outcomes.fail_unsent(self.transactions.reason)
        next_at = self.outcomes.fail_expired(now)
        by_node: dict[int, list[PartitionQueue]] = {}
        accumulator = self.accumulator
        everything = bool(self._flushes or self.memory)
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
                self.cluster.follow([queue.topic.name])
                self.cluster.request_refresh()
                next_at = min(next_at, now + 0.1)
            else:
                by_node.setdefault(leader, []).append(queue)
        for node_id, queues in by_node.items():
            self._send_to(node_id, queues, now)
        if now - self._weighed_at > _WEIGH_SECONDS and self.settings.partitioner_adaptive_partitioning_enable:
            self._weighed_at = now
            self._weigh()
        return next_at

    def _set_timer(self, at: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at < float("inf"):
            self._timer = asyncio.get_running_loop().call_later(max(at - now, 0.0), self._turn)

    def _ready_at(self, queue: PartitionQueue, now: float, everything: bool) -> float | None:
        """When the next batch of a partition may be sent; None if it has none."""
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
        if everything or not batch.is_open or len(batches) > 1:
            return now
        batch.builder.limit_to(self.accumulator.batch_size)  # it may have grown, but no other waits any more
        if batch.builder.is_full:
            return now
        return now if rarely("a batch is sent early") else batch.created + self._linger

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
            batches: list[Batch] = []
            try:
                self._take(queues, batches)
                if not batches:
                    return
                self._send(node, batches)
            except Exception:
                self._untake(batches)
                raise

    async def _connect(self, node: _NodeState) -> None:
        try:
            await self.cluster.connect(node.id, LANE)
        except Disconnected as error:
            log.debug("Cannot connect to node %d: %s", node.id, error)
            self.cluster.last_error = error
            self.cluster.request_refresh()
            self.cluster_unreachable(node.id)
        except (ClientError, KafkaError, OSError) as error:
            self.outcomes.fail_all(error)
        finally:
            node.connecting = None
            self.wake()

    def cluster_unreachable(self, node_id: int) -> None:
        """A node refused the connection: its batches wait a little."""
        until = self.clock.monotonic() + self.settings.retry_backoff_ms / 1000
        for queue in list(self.accumulator.active):
            if self.cluster.view.leader(queue.topic.name, queue.index) == node_id:
                queue.blocked_until = max(queue.blocked_until, until)

    def _take(self, queues: Iterable[PartitionQueue], taken: list[Batch]) -> None:
        """Take the first batch of each partition that may send one, up to the size of one request."""
        size = 0
        keeps_order = self.settings.max_in_flight_requests_per_connection == 1
        for queue in queues:
            if not queue.batches or (keeps_order and queue.in_flight):
                continue
            batch: Batch = queue.batches[0]
            if (batch.attempts or batch.is_split) and queue.blocked_until > self.clock.monotonic():
                continue
            if not self._may_send(queue, batch):
                continue
            self.accumulator.seal(queue, batch)
            if self._probes and not self._probe(queue, batch):
                continue
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

    def _untake(self, batches: list[Batch]) -> None:
        """No request could be built from these batches: they wait for a retry."""
        for batch in batches:
            batch.is_in_flight = False
            batch.is_doubtful = True
            batch.queue.in_flight -= 1
            self.outcomes.retry(batch, wait=True)

    def _probe(self, queue: PartitionQueue, batch: Batch) -> bool:
        """Whether a batch without a sequence may be sent, and keeps its place if it is rejected as too large.

        One that has grown beyond what the topic has accepted, or is of a table, is in flight alone: if it is
        split, no later one may have been written before its pieces.
        """
        is_proven = batch.builder.bytes_estimate <= queue.topic.proven_bytes or batch.count == 1
        if not is_proven and queue.in_flight:
            return False
        queue.probe = None if is_proven else batch
        return True

    def _may_send(self, queue: PartitionQueue, batch: Batch) -> bool:
        if self.transactions is not None and not self.transactions.may_send(queue.topic.name, queue.index):
            return False
        if self.idempotence is None:
            return queue.probe is None or not queue.probe.is_in_flight
        if queue.sequences is None:
            if not self.idempotence.has_id:
                return False
            queue.sequences = self._sequences_of(self.idempotence, queue.topic.name, queue.index)
        return self.idempotence.may_send(queue.sequences, batch)

    def _sequences_of(self, idempotence: Idempotence, topic: str, partition: int) -> PartitionSequences:
        key = (topic, partition)
        if key not in self._sequences:
            self._sequences[key] = idempotence.sequences()
        return self._sequences[key]

    async def resume(self, topic: str, partition: int, sequence: int) -> None:
        """Continue a partition's sequences at `sequence`; only within a joined transaction."""
        if self.idempotence is None or self.transactions is None or not self.transactions.is_joined:
            raise TransactionStateError(
                "Only a producer that has joined a transaction can set its next sequence number."
            )
        self._sequences_of(self.idempotence, topic, partition).resume(sequence)

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
        future = self.cluster.send(
            node.id,
            request,
            lane=LANE,
            timeout_ms=self.settings.request_timeout_ms,
            version_max=version_max,
            answered=self.settings.acks != 0,
        )
        node.in_flight += 1
        self.counts["requests"] += 1
        future.add_done_callback(partial(self._answered, node, batches))

    # Answers

    def _answered(self, node: _NodeState, batches: list[Batch], future: asyncio.Future[Any]) -> None:
        node.in_flight -= 1
        for batch in batches:
            batch.is_in_flight = False
            batch.queue.in_flight -= 1
        # Read also when the producer is closed: asyncio reports exceptions that nothing has read.
        error = Closed("The request was cancelled.") if future.cancelled() else future.exception()
        if self.state.is_closed:
            return
        if error is not None:
            self.outcomes.request_failed(batches, error)
        elif self.settings.acks == 0:
            for batch in batches:
                if not batch.is_done:
                    batch.is_doubtful = True
                    self.outcomes.complete(batch, -1, -1)
        else:
            self.outcomes.answered(batches, future.result())
        self._look()  # in this step: a user's thread that gets the interpreter between two may keep it

    # Identity

    def _tend_identity(self) -> None:
        idempotence = self.idempotence
        assert idempotence is not None
        idempotence.resolve_unresolved()
        if self.transactions is not None:
            return
        if idempotence.may_bump:
            idempotence.bump()
        if not idempotence.has_id and self._id_task is None and self.state.fatal is None:
            self._id_task = self.spawn(self._take_id())

    async def _take_id(self) -> None:
        """Request a producer id, with retries."""
        assert self.idempotence is not None
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFF_FFFF)
        attempt = 0
        try:
            while True:
                try:
                    answer = await self.cluster.ask_any(request)
                    if answer.error_code:
                        raise for_code(answer.error_code)("The broker did not allocate a producer id.")
                    if answer.producer_id < 0 or answer.producer_epoch < 0:
                        raise Disconnected(f"A broker returned the invalid producer id {answer.producer_id}.")
                    self.idempotence.set_id(answer.producer_id, answer.producer_epoch)
                    return
                except (Disconnected, KafkaError) as error:
                    if isinstance(error, KafkaError) and not error.retriable:
                        self.outcomes.fail_all(error)
                        return
                    self.cluster.last_error = error
                await asyncio.sleep(self.cluster.backoff.delay_ms(attempt) / 1000)
                attempt += 1
        except (ClientError, UnsupportedVersion) as error:
            self.outcomes.fail_all(error)
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

    async def flush(self) -> None:
        """Send everything appended so far, and wait until all of it is done."""
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
                    await self.batch_done(batch)
        finally:
            self._flushes -= 1

    def abandon(self) -> None:
        """The loop ended: fail what is left, which wakes all waiters.

        That is everything if the producer was not closed, or what a thread sent while another one closed it.
        """
        if not self.state.is_closed or self.accumulator.incomplete:
            self.outcomes.fail_all(Closed("The producer's thread ended before the record was acknowledged."))
            self.state.is_closed = True
            self.state.update_fast()

    async def close(self, timeout: float | None) -> None:
        """Flush for up to `timeout` seconds, fail the rest, and disconnect."""
        if self.state.is_closed:
            return
        self.state.is_leaving = True
        self.state.update_fast()
        try:
            if timeout is None or timeout > 0:
                async with asyncio.timeout(timeout):
                    if self.transactions is not None:
                        await self.transactions.leave()
                    await self.flush()
        except TimeoutError:
            pass  # what is left is logged
        finally:
            if count := sum(batch.count for batch in self.accumulator.incomplete):
                log.warning(
                    "The producer was closed before %d records were acknowledged; they count as failed.",
                    count,
                )
            self.outcomes.fail_all(Closed("The producer was closed before the record was acknowledged."))
            self.state.is_closed = True
            if self._timer is not None:
                self._timer.cancel()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.cluster.close()
