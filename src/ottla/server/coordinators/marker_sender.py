"""Sends the markers of ended transactions to the leaders of their partitions until every one is written.

Partitions of this node get theirs at once; each other broker gets one request at a time, with the markers of
all transactions that wait for it. Rule: what was decided is finished. A partition without a leader, a broker
that does not respond, a transient error: all are retried, with the current leader. It ends early in two
cases: the partition has seen a newer epoch, or this node is not the coordinator any more (the next one sends
all markers again). What an outcome means is decided in `coordinator.transactions.markers`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from ottla.coordinator.runtime import Coordinator
from ottla.coordinator.transactions.markers import (
    Outcomes,
    SendMarkers,
    WritableMarker,
    judge,
    outcomes_of,
    retry_delay_ms,
)
from ottla.coordinator.transactions.shard import TransactionShard
from ottla.coordinator.transactions.states import TopicPartition
from ottla.server.broker import TRANSACTIONS_TOPIC
from ottla.server.coordinators.marker_writer import MarkerParts, write_marker
from ottla.server.net.step_runner import finished
from ottla.server.parts import HasImage, HasNodeId
from ottla.server.peers.broker_channels import BrokerChannels, BrokerUnknown
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import CoordinatorLoadInProgress, KafkaError, NotCoordinator, RequestTimedOut
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

MARKERS_PER_REQUEST_MAX = 500
NO_LEADER = -1

logger = logging.getLogger("ottla.coordinator.transactions")


class TargetParts(MarkerParts, HasNodeId, HasImage, Protocol):
    """The parts of a node that `MarkerTargets` uses."""


class MarkerTargets:
    """The leaders of partitions, as this node knows them, and how a marker gets there."""

    def __init__(self, parts: TargetParts, links: BrokerChannels | None) -> None:
        self.node_id = parts.node_id
        self._parts = parts
        self._links = links

    def leader_of(self, topic: str, index: int) -> int | None:
        """The broker that leads a partition; NO_LEADER; or None where there is no such partition."""
        registration = self._parts.image.partition(topic, index)
        if registration is None:
            return None
        leader: int = registration.leader
        return leader if leader >= 0 else NO_LEADER

    def is_coordinator(self, index: int, coordinator_epoch: int) -> bool:
        """Whether this node still leads partition `index` of the transaction topic in that epoch."""
        partition = self._parts.partitions.get(TRANSACTIONS_TOPIC, index)
        return partition is not None and partition.is_leader and partition.leader_epoch == coordinator_epoch

    def write(self, marker: WritableMarker) -> Outcomes | PendingResponse:
        """Append a marker to partitions that this node leads."""
        return finished(write_marker(self._parts, marker))

    async def send(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Have another broker append markers. OSError or KafkaError: it did not respond."""
        if self._links is None:
            raise BrokerUnknown("This node has no connections to other brokers.")
        response: WriteTxnMarkersResponse = await self._links.ask(broker_id, request)
        return response


class _Job:
    """A transaction whose markers are not all written and reported."""

    __slots__ = ("attempts", "index", "is_over", "markers", "unreported")

    def __init__(self, index: int, markers: SendMarkers) -> None:
        self.index = index
        self.markers = markers
        self.unreported = set(markers.partitions)
        self.attempts = 0
        self.is_over = False


class MarkerSender:
    """`run` executes the effects of the shards. See the module."""

    def __init__(self, targets: MarkerTargets, coordinator: Coordinator[TransactionShard]) -> None:
        self._targets = targets
        self._coordinator = coordinator
        self._jobs: dict[tuple[int, str], _Job] = {}
        self._queues: dict[int, dict[_Job, set[TopicPartition]]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._retries: set[asyncio.TimerHandle] = set()

    @property
    def open_count(self) -> int:
        """The number of transactions whose markers are not all written."""
        return len(self._jobs)

    def run(self, index: int, markers: SendMarkers) -> None:
        """Send the markers of one transaction of partition `index` of the transaction topic."""
        key = (index, markers.transactional_id)
        earlier = self._jobs.get(key)
        if earlier is not None:
            earlier.is_over = True
        job = self._jobs[key] = _Job(index, markers)
        if markers.partitions:
            self._send(job, markers.partitions)
        else:
            self._report(job, frozenset())

    def close(self) -> None:
        for job in self._jobs.values():
            job.is_over = True
        self._jobs.clear()
        self._queues.clear()
        for handle in self._retries:
            handle.cancel()
        self._retries.clear()
        for task in list(self._senders.values()):
            task.cancel()

    # ---- sending

    def _send(self, job: _Job, partitions: Iterable[TopicPartition]) -> None:
        targets = self._targets
        here: set[TopicPartition] = set()
        deleted: set[TopicPartition] = set()
        without_leader: set[TopicPartition] = set()
        for partition in sorted(partitions):
            leader = targets.leader_of(*partition)
            if leader is None:
                deleted.add(partition)
            elif leader == NO_LEADER:
                without_leader.add(partition)
            elif leader == targets.node_id:
                here.add(partition)
            else:
                self._queues.setdefault(leader, {}).setdefault(job, set()).add(partition)
                self._wake(leader)
        if without_leader:
            self._retry(job, without_leader)
        if deleted:
            logger.info(
                "%s: skipped markers for deleted partitions %s",
                job.markers.transactional_id,
                sorted(deleted),
            )
            self._report(job, deleted)
        if here:
            self._write(job, here)

    def _write(self, job: _Job, partitions: set[TopicPartition]) -> None:
        try:
            outcomes = self._targets.write(job.markers.marker(partitions))
        except Exception:  # the last line of defence: the transaction must end
            logger.exception("%s: unexpected error in a marker, will retry", job.markers.transactional_id)
            self._retry(job, partitions)
            return
        if isinstance(outcomes, PendingResponse):
            pending = outcomes
            pending.on_completed = lambda: self._on_outcomes(job, partitions, pending.response)
        else:
            self._on_outcomes(job, partitions, outcomes)

    def _wake(self, broker_id: int) -> None:
        if broker_id not in self._senders:
            self._senders[broker_id] = asyncio.ensure_future(self._drain(broker_id))

    async def _drain(self, broker_id: int) -> None:
        try:
            await asyncio.sleep(0)  # transactions that end in the same turn share the request
            await self._send_queue(broker_id)
        finally:
            del self._senders[broker_id]

    async def _send_queue(self, broker_id: int) -> None:
        """Send the waiting markers of one broker, one request at a time."""
        while self._queues.get(broker_id):
            queue = self._queues[broker_id]
            taken = {
                job: queue.pop(job) for job in list(queue)[:MARKERS_PER_REQUEST_MAX] if self._is_wanted(job)
            }
            for job in [job for job in queue if job.is_over]:
                del queue[job]
            if not taken:
                continue
            request = WriteTxnMarkersRequest(
                markers=[job.markers.marker(partitions) for job, partitions in taken.items()]
            )
            try:
                response = await self._targets.send(broker_id, request)
            except Exception as error:  # whatever it is, the transactions must end
                is_expected = isinstance(error, (OSError, KafkaError))
                logger.log(
                    logging.INFO if is_expected else logging.ERROR,
                    "Broker %d did not acknowledge %d markers, will retry: %s",
                    broker_id,
                    len(taken),
                    error,
                    exc_info=None if is_expected else error,
                )
                for job, partitions in taken.items():
                    self._retry(job, partitions)
                continue
            outcomes = outcomes_of(response)
            for job, partitions in taken.items():
                self._on_outcomes(job, partitions, outcomes.get(job.markers.producer_id, {}))
        self._queues.pop(broker_id, None)

    def _is_wanted(self, job: _Job) -> bool:
        if not job.is_over and not self._targets.is_coordinator(job.index, job.markers.coordinator_epoch):
            self._end(job)
        return not job.is_over

    def _on_outcomes(self, job: _Job, partitions: set[TopicPartition], outcomes: Outcomes) -> None:
        if job.is_over:
            return
        verdict = judge(partitions, outcomes)
        for partition, code in verdict.unexpected:
            logger.error(
                "%s: %s rejected the marker with error %d; will retry",
                job.markers.transactional_id,
                partition,
                code,
            )
        if verdict.fenced is not None:
            partition, error = verdict.fenced
            logger.warning(
                "%s: %s rejected the marker of producer %d with epoch %d (%s); not retrying",
                job.markers.transactional_id,
                partition,
                job.markers.producer_id,
                job.markers.producer_epoch,
                error.name,
            )
            self._end(job)
            return
        if verdict.retried:
            self._retry(job, verdict.retried)
        if verdict.written:
            self._report(job, verdict.written)

    # ---- retries

    def _retry(self, job: _Job, partitions: set[TopicPartition]) -> None:
        self._later(job, lambda: self._send(job, partitions))

    def _later(self, job: _Job, action: Callable[[], None]) -> None:
        if job.is_over:
            return
        delay_ms = retry_delay_ms(job.attempts)
        job.attempts += 1

        def fire() -> None:
            self._retries.discard(handle)
            if self._is_wanted(job):
                action()

        handle = asyncio.get_running_loop().call_later(delay_ms / 1000, fire)
        self._retries.add(handle)

    # ---- reporting

    def _report(self, job: _Job, partitions: set[TopicPartition] | frozenset[TopicPartition]) -> None:
        if job.is_over:
            return
        job.unreported -= partitions
        if not job.unreported:
            self._end(job)  # unless the report fails

        def failed(error: KafkaError) -> None:
            if isinstance(error, (NotCoordinator, CoordinatorLoadInProgress)):
                self._end(job)  # the node that loads the shard sends the markers again
                return
            if isinstance(error, RequestTimedOut):
                # The shard has noted it, and its records stay. Reported again, it could count for the
                # producer's next transaction, which in protocol 1 has the same epoch.
                return
            key = (job.index, job.markers.transactional_id)
            if self._jobs.setdefault(key, job) is not job:
                return  # the shard was loaded again meanwhile
            job.is_over = False
            job.unreported |= partitions
            self._later(job, lambda: self._report(job, partitions))

        self._coordinator.ask(
            job.index,
            lambda shard, _pending: shard.markers_written(job.markers, partitions),
            PendingResponse(failed),
        )

    def _end(self, job: _Job) -> None:
        job.is_over = True
        key = (job.index, job.markers.transactional_id)
        if self._jobs.get(key) is job:
            del self._jobs[key]
