"""Writes the markers of ended transactions, wherever their partitions are led, until every one is there.

Partitions of this node get theirs at once; for each other broker there is one request at a time, with the
markers of all transactions that wait for it. Rule: what was decided is finished. A partition without a
leader, a broker that is gone, a refusal that may pass: all are tried again, with whoever leads then. It ends
early in two ways: the partition has seen a newer epoch (somebody else finishes it, or has), or this node is
not the coordinator any more (the next one sends all markers again).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ottla.coordinator.transactions.settings import SendMarkers
from ottla.coordinator.transactions.states import TopicPartition, by_topic
from ottla.rare_paths import rarely
from ottla.wire.errors import CoordinatorLoadInProgress, ErrorCode, KafkaError, NotCoordinator
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

RETRY_MS = 50
RETRY_MS_MAX = 1_000
MARKERS_PER_REQUEST_MAX = 500
NOBODY = -1

WritableMarker = WriteTxnMarkersRequest.WritableTxnMarker
Outcomes = Mapping[TopicPartition, int]  # error codes

_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_NOT_NEEDED = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
_PASSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)

logger = logging.getLogger("ottla.coordinator.transactions")


class Places(Protocol):
    """Where partitions are led, and the ways there."""

    node_id: int

    def leader_of(self, topic: str, index: int) -> int | None:
        """The broker that leads a partition; NOBODY: none now; None: there is no such partition."""

    def write(self, marker: WritableMarker, done: Callable[[Outcomes], None]) -> None:
        """Append a marker to partitions that this node leads. `done` is called at once or later, once."""

    async def send(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        """Have another broker do it. OSError or KafkaError where there is no answer."""


class Reports(Protocol):
    """The way back to the coordinator's shard."""

    def is_current(self, index: int, coordinator_epoch: int) -> bool:
        """Whether this node still leads partition `index` of the transaction topic in that epoch."""

    def written(
        self,
        index: int,
        markers: SendMarkers,
        partitions: Iterable[TopicPartition],
        failed: Callable[[KafkaError], None],
    ) -> None:
        """Tell the shard that these partitions have their marker."""


class _Job:
    """One transaction whose markers are not all written and reported."""

    __slots__ = ("attempts", "index", "is_over", "markers", "unreported")

    def __init__(self, index: int, markers: SendMarkers) -> None:
        self.index = index
        self.markers = markers
        self.unreported = set(markers.partitions)
        self.attempts = 0
        self.is_over = False


class MarkerSender:
    """See the module. `run` takes the effects of the shards."""

    def __init__(self, places: Places, reports: Reports) -> None:
        self._places = places
        self._reports = reports
        self._jobs: dict[tuple[int, str], _Job] = {}
        self._queues: dict[int, dict[_Job, set[TopicPartition]]] = {}
        self._senders: dict[int, asyncio.Task[None]] = {}
        self._retries: set[asyncio.TimerHandle] = set()

    @property
    def open_count(self) -> int:
        """How many transactions are being ended."""
        return len(self._jobs)

    def run(self, index: int, markers: SendMarkers) -> None:
        """Begin with the markers of one transaction of partition `index` of the transaction topic."""
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
        places = self._places
        here: set[TopicPartition] = set()
        gone: set[TopicPartition] = set()
        later: set[TopicPartition] = set()
        for partition in sorted(partitions):
            leader = places.leader_of(*partition)
            if leader is None:
                gone.add(partition)
            elif leader == NOBODY:
                later.add(partition)
            elif leader == places.node_id:
                here.add(partition)
            else:
                self._queues.setdefault(leader, {}).setdefault(job, set()).add(partition)
                self._wake(leader)
        if later:
            self._again(job, later)
        if gone:
            logger.info(
                "%s: skipped markers for deleted partitions %s",
                job.markers.transactional_id,
                sorted(gone),
            )
            self._report(job, gone)
        if here:
            places.write(
                marker_of(job.markers, here), lambda outcomes: self._on_outcomes(job, here, outcomes)
            )

    def _wake(self, broker_id: int) -> None:
        if broker_id not in self._senders:
            self._senders[broker_id] = asyncio.ensure_future(self._drain(broker_id))

    async def _drain(self, broker_id: int) -> None:
        try:
            await asyncio.sleep(0)  # whoever ends in the same turn goes along
            await self._send_queue(broker_id)
        finally:
            del self._senders[broker_id]

    async def _send_queue(self, broker_id: int) -> None:
        """Send what waits for one broker, a request at a time."""
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
                markers=[marker_of(job.markers, partitions) for job, partitions in taken.items()]
            )
            try:
                response = await self._places.send(broker_id, request)
            except (OSError, TimeoutError, KafkaError) as error:
                logger.info(
                    "Broker %d did not acknowledge %d markers, will retry: %s", broker_id, len(taken), error
                )
                for job, partitions in taken.items():
                    self._again(job, partitions)
                continue
            outcomes = outcomes_of(response)
            for job, partitions in taken.items():
                self._on_outcomes(job, partitions, outcomes.get(job.markers.producer_id, {}))
        self._queues.pop(broker_id, None)

    def _is_wanted(self, job: _Job) -> bool:
        if not job.is_over and not self._reports.is_current(job.index, job.markers.coordinator_epoch):
            self._end(job)
        return not job.is_over

    def _on_outcomes(self, job: _Job, asked: set[TopicPartition], outcomes: Outcomes) -> None:
        if job.is_over:
            return
        written: set[TopicPartition] = set()
        again: set[TopicPartition] = set()
        for partition in sorted(asked):
            code = outcomes.get(partition, ErrorCode.REQUEST_TIMED_OUT)
            if rarely("markers are written again"):
                again.add(partition)
            elif code == ErrorCode.NONE or code in _NOT_NEEDED:
                written.add(partition)
            elif code in _FENCED:
                logger.warning(
                    "%s: %s rejected the marker of producer %d with epoch %d (%s); not retrying",
                    job.markers.transactional_id,
                    partition,
                    job.markers.producer_id,
                    job.markers.producer_epoch,
                    ErrorCode(code).name,
                )
                self._end(job)
                return
            else:
                if code not in _PASSING:
                    logger.error(
                        "%s: %s rejected the marker with error %d; will retry",
                        job.markers.transactional_id,
                        partition,
                        code,
                    )
                again.add(partition)
        if again:
            self._again(job, again)
        if written:
            self._report(job, written)

    # ---- trying again

    def _again(self, job: _Job, partitions: set[TopicPartition]) -> None:
        self._after_a_while(job, lambda: self._send(job, partitions))

    def _after_a_while(self, job: _Job, action: Callable[[], None]) -> None:
        if job.is_over:
            return
        delay_ms = min(RETRY_MS << min(job.attempts, 10), RETRY_MS_MAX)
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
                job.is_over = True  # whoever loads the shard sends the markers again
                return
            key = (job.index, job.markers.transactional_id)
            if self._jobs.setdefault(key, job) is not job:
                return  # it was loaded again meanwhile
            job.is_over = False
            job.unreported |= partitions
            self._after_a_while(job, lambda: self._report(job, partitions))

        self._reports.written(job.index, job.markers, partitions, failed)

    def _end(self, job: _Job) -> None:
        job.is_over = True
        key = (job.index, job.markers.transactional_id)
        if self._jobs.get(key) is job:
            del self._jobs[key]


def marker_of(markers: SendMarkers, partitions: Iterable[TopicPartition]) -> WritableMarker:
    return WritableMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.is_commit,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
            for topic, indexes in by_topic(set(partitions)).items()
        ],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )


def outcomes_of(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, int]]:
    """Producer id -> partition -> error code."""
    outcomes: dict[int, dict[TopicPartition, int]] = {}
    for marker in response.markers:
        of_producer = outcomes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                of_producer[topic.name, partition.partition_index] = partition.error_code
    return outcomes
