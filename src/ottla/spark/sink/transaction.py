"""The driver's side of the sink: one transaction per batch, and a marker that records the last batch.

The marker is an offset that the sink's own group commits within the batch's transaction: batch id + 1, with
the query's id as metadata. So a batch is complete if and only if its marker exists, no matter which process
died when.

    prepare   initialize the transactional id: the brokers abort a dead attempt's transaction and fence its
              tasks; then read the marker, once no transaction can change it any more
    (tasks write, with the producer id and epoch of the handle)
    commit    the marker, then the transaction; Spark records the batch as done after that

Rules: no task writes before the marker was read; after any doubt the driver initializes the transactional id
again, which bumps the epoch and so fences the tasks of the previous attempt.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from ottla.client.admin import Admin
from ottla.client.core.transactions import Handle
from ottla.client.errors import AbortableError, ClientError, FatalError, TimedOut
from ottla.client.producer.producer import Producer
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.spark.sink.errors import (
    Fenced,
    MarkerMissing,
    OtherQuery,
    SinkError,
    TransactionTooShort,
)
from ottla.spark.sink.options import SinkOptions
from ottla.wire.errors import (
    InvalidProducerEpoch,
    InvalidTransactionTimeout,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
)

log = logging.getLogger(__name__)

_FENCED = (ProducerFenced, InvalidProducerEpoch, InvalidTxnState)
_WARN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Marker:
    """The last complete batch, and the query that wrote it."""

    query_id: str
    batch_id: int


class SharedTransaction:
    """Owns a transactional id and runs one transaction per batch."""

    def __init__(self, options: SinkOptions, monotonic: Callable[[], float] = time.monotonic) -> None:
        assert options.transactional_id is not None
        self.options = options
        self._id = options.transactional_id
        self._monotonic = monotonic
        self._producer: Producer | None = None
        self._marker: Marker | None = None
        self._began = 0.0
        self._is_open = False
        self._bumps_epoch = False
        """Whether the end of a transaction bumps the epoch (transaction version 2), which fences its
        tasks."""

    @property
    def producer(self) -> Producer:
        assert self._producer is not None, "prepare comes first"
        return self._producer

    def share(self) -> Handle:
        """The handle for the tasks that write."""
        handle = self.producer.transaction_handle()
        self._bumps_epoch = handle.protocol >= 2
        return handle

    # Steps

    def prepare(self, query_id: str, batch_id: int) -> bool:
        """Begin the transaction of a batch; return False, without a transaction, if the batch is already
        written."""
        is_known = self._producer is not None
        self.begin()
        if not is_known:
            if self.options.topic is not None:
                self.partitions_of(self.options.topic)  # the marker is an offset of this topic
            self._marker = self._read_marker()
        if self._is_done(query_id, batch_id):
            self.close()
            return False
        return True

    def begin(self) -> None:
        """Begin a transaction; initialize the transactional id first if needed."""
        if self._producer is None:
            properties = {**self.options.client, "transactional.id": self._id}
            self._producer = Producer(properties)
        try:
            self._producer.begin_transaction()
        except InvalidTransactionTimeout as error:
            self.close()
            raise SinkError(
                f"The brokers reject a transaction timeout of {self.options.transaction_timeout_ms} ms. "
                "Lower kafka.transaction.timeout.ms, or raise transaction.max.timeout.ms on the brokers."
            ) from error
        except (KafkaError, ClientError) as error:
            self.close()
            raise self._explained(error) from error
        self._is_open = True
        self._began = self._monotonic()

    def partitions_of(self, topic: str) -> int:
        """The partition count of a topic. If brokers create topics automatically, this creates it."""
        try:
            return self.producer.partitions_for(topic)
        except (ClientError, KafkaError) as error:
            self.abandon()
            raise SinkError(f"Cannot write to topic {topic}: {error}") from error

    def commit(self, query_id: str | None = None, batch_id: int | None = None) -> None:
        """Commit the marker, if there is a batch id, and the transaction."""
        options = self.options
        producer = self.producer
        try:
            if batch_id is not None:
                where = TopicPartition(options.marker_topic, 0)
                note = OffsetAndMetadata(batch_id + 1, metadata=query_id or "")
                producer.send_offsets({where: note}, options.marker_group)
            self.end()
        except (KafkaError, ClientError) as error:
            failure = self._explained(error)
            self.abandon()
            raise failure from error
        self._is_open = False
        if batch_id is not None:
            self._marker = Marker(query_id or "", batch_id)
        self._warn_of_length()
        if not self._bumps_epoch:
            self.close()

    def end(self) -> None:
        """Commit the transaction: once the broker acknowledges it, readers see the batch."""
        try:
            self.producer.commit_transaction()
        except TimedOut:
            self.producer.commit_transaction()  # the commit continues, and this waits once more

    def abandon(self) -> Exception | None:
        """Abort the open transaction and close the producer; return the broker's error, if any."""
        producer, self._producer = self._producer, None
        was_open, self._is_open = self._is_open, False
        if producer is None:
            return None
        failure: Exception | None = None
        try:
            if was_open:
                producer.abort_transaction()
        except (KafkaError, ClientError) as error:
            failure = error
        finally:
            producer.close(timeout=0)
        return failure

    def close(self) -> None:
        """Close the producer; no transaction is open."""
        producer, self._producer = self._producer, None
        self._is_open = False
        if producer is not None:
            producer.close(timeout=0)

    # The marker

    def _read_marker(self) -> Marker | None:
        options = self.options
        where = TopicPartition(options.marker_topic, 0)
        try:
            with Admin(options.admin_client) as admin:
                answer = admin.list_consumer_group_offsets(
                    {options.marker_group: [where]}, require_stable=True
                )
                found = answer.result(options.marker_group).get(where)
        except (KafkaError, ClientError) as error:
            self.abandon()
            raise SinkError(
                f"The marker in the group {options.marker_group} cannot be read: {error}"
            ) from error
        if found is None:
            return None
        return Marker(found.metadata, found.offset - 1)

    def _is_done(self, query_id: str, batch_id: int) -> bool:
        """Whether the marker includes this batch; raises if the marker belongs to another query."""
        marker, options = self._marker, self.options
        if marker is not None and marker.query_id != query_id:
            if options.take_over:
                log.warning("Took over transactional id %s from query %s", self._id, marker.query_id)
                return False
            self.close()
            raise OtherQuery(
                f"The transactional id {self._id} belongs to another query ({marker.query_id}, at batch "
                f"{marker.batch_id}). Two queries must not share one. Give this query ({query_id}) its "
                "own transactionalId. If the other query will never run again, or is this query with a "
                "new checkpoint, start with takeOver=true."
            )
        if marker is None:
            if batch_id and not options.accepts_missing_marker and not options.take_over:
                self.close()
                raise MarkerMissing(
                    f"The query is at batch {batch_id}, but the group {options.marker_group} has no marker "
                    f"of an earlier batch. Is transactionalId={self._id} new, or was the query down for "
                    "longer than the brokers keep offsets (offsets.retention.minutes)? If the previous "
                    "batch was written, start the query with missingMarker=accept."
                )
            return False
        if batch_id < marker.batch_id:
            self.close()
            raise OtherQuery(
                f"The checkpoint is older than the topic: the query is at batch {batch_id}, but batch "
                f"{marker.batch_id} was already written under {self._id}. Was an old checkpoint restored? "
                "With a new transactionalId, the query continues from this checkpoint and writes the later "
                "batches again."
            )
        return batch_id == marker.batch_id

    # Errors

    @property
    def seconds(self) -> float:
        """The age of the transaction."""
        return self._monotonic() - self._began

    @property
    def is_overdue(self) -> bool:
        return self._is_open and self.seconds * 1000 >= self.options.transaction_timeout_ms

    def explain(self, error: BaseException) -> SinkError | None:
        """Abort after the tasks failed; return the cause if the broker's answer reveals one."""
        too_late = self._too_short() if self.is_overdue else None
        answer = self.abandon()
        if too_late is not None:
            return too_late
        return self._fenced() if answer is not None and _is_fenced(answer) else None

    def _explained(self, error: Exception) -> SinkError:
        if self.is_overdue:
            return self._too_short()
        if _is_fenced(error):
            return self._fenced()
        if isinstance(error, AbortableError):
            return SinkError(f"Commit failed, the batch was aborted: {error}")
        return SinkError(f"The transaction {self._id} failed: {error}")

    def _too_short(self) -> TransactionTooShort:
        limit = self.options.transaction_timeout_ms
        return TransactionTooShort(
            f"The batch took {self.seconds:.1f} s, longer than its transaction timeout of "
            f"{limit / 1000:g} s, so the brokers aborted it. Raise kafka.transaction.timeout.ms (up to "
            "the brokers' transaction.max.timeout.ms), or make batches smaller with maxOffsetsPerTrigger."
        )

    def _fenced(self) -> Fenced:
        return Fenced(
            f"Another query with the transactional id {self._id} has fenced this one. Stop the other "
            "query, or give each its own transactionalId."
        )

    def _warn_of_length(self) -> None:
        share = self.seconds * 1000 / self.options.transaction_timeout_ms
        if share > _WARN_SHARE:
            log.warning(
                "The batch took %.1f s, %d%% of kafka.transaction.timeout.ms: raise it, or make batches "
                "smaller.",
                self.seconds,
                share * 100,
            )


def _is_fenced(error: BaseException | None) -> bool:
    """Whether this error says that another producer has the transactional id."""
    while error is not None:
        if isinstance(error, _FENCED):
            return True
        if not isinstance(error, (FatalError, AbortableError)):
            return False
        error = error.__cause__
    return False
