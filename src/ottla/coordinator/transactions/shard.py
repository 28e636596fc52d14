"""The transactional ids of one partition: requests to the transaction coordinator, and its decisions.

Rule: the outcome of a prepared transaction is final. From then on only `markers_written` changes its state,
and requests fail with CONCURRENT_TRANSACTIONS. `end_txn` decides how a transaction ends, `init_producer_id`
who may use a transactional id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.coordinator.result import Record, Result, StartTimer
from ottla.coordinator.transactions import end_txn, init_producer_id
from ottla.coordinator.transactions.markers import SendMarkers
from ottla.coordinator.transactions.settings import TransactionSettings
from ottla.coordinator.transactions.states import (
    DecidedRecord,
    State,
    TopicPartition,
    Transaction,
    by_topic,
    tombstone,
)
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    ErrorCode,
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsResponse
from ottla.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.ports import Clock

TRANSACTION_VERSION = "transaction.version"
SWEEP_BYTES_MAX = 256 * 1024
"""About how much one step of a sweep writes: it must fit into a batch, and hold the loop briefly."""

_TIMEOUTS = ("timeouts",)
_EXPIRY = ("expiry",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The filter of ListTransactions. The default selects everything."""

    states: frozenset[State] | None = None
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1  # open for longer than this


class TransactionShard:
    """The transactional ids of one partition of `__transaction_state`.

    `coordinator_epoch` is the leader epoch under which it was loaded. `take_producer_id` returns an unused
    producer id, or None while the node waits for a block of them: then the client must retry.
    """

    def __init__(
        self,
        *,
        index: int,
        coordinator_epoch: int,
        image: ClusterImage,
        clock: Clock,
        settings: TransactionSettings,
        take_producer_id: Callable[[], int | None],
    ) -> None:
        self.index = index
        self.coordinator_epoch = coordinator_epoch
        self.image = image
        self.clock = clock
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}
        self._take_producer_id = take_producer_id
        self._ongoing: dict[str, None] = {}  # in the order in which they began
        self._unmarked: dict[str, set[TopicPartition]] = {}  # of those that are prepared

    @property
    def transaction_version(self) -> int:
        """The level of the feature in the whole cluster."""
        return self.image.features.get(TRANSACTION_VERSION, 0)

    def new_producer_id(self) -> int:
        producer_id = self._take_producer_id()
        if producer_id is None:
            raise CoordinatorLoadInProgress(
                "This node is waiting for producer ids from the controller; retry."
            )
        return producer_id

    # ---- the log

    def replay(self, record: Record, *, producer_id: int = -1, producer_epoch: int = -1) -> None:
        key = record.key
        assert isinstance(key, TransactionLogKey)
        transactional_id = key.transactional_id
        value = record.value
        if value is None:
            self.transactions.pop(transactional_id, None)
            self._ongoing.pop(transactional_id, None)
            self._unmarked.pop(transactional_id, None)
            return
        if type(record) is DecidedRecord:
            transaction = record.transaction
        else:
            assert isinstance(value, TransactionLogValue)
            transaction = Transaction.from_record(key, value)
        self.transactions[transactional_id] = transaction
        state = transaction.state
        if state is State.ONGOING:
            self._ongoing[transactional_id] = None
        else:
            self._ongoing.pop(transactional_id, None)
        if state.is_prepared:
            self._unmarked[transactional_id] = set(transaction.partitions)
        else:
            self._unmarked.pop(transactional_id, None)

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        """This topic has no transactional records."""

    def on_loaded(self) -> Result[None]:
        """Send the markers of prepared transactions again: some may be missing."""
        result: Result[None] = Result(
            effects=[self._markers_of(self.transactions[each]) for each in self._unmarked]
        )
        result.timers.append(
            StartTimer(_TIMEOUTS, self.settings.timeout_check_interval_ms, self.abort_timed_out)
        )
        result.timers.append(StartTimer(_EXPIRY, self.settings.expiration_check_interval_ms, self.expire_ids))
        return result

    def on_unloaded(self) -> list[PendingResponse]:
        return []

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> Result[None]:
        """Partitions of deleted topics need no marker; `MarkerSender` skips them."""
        return Result()

    # ---- producers

    def init_producer_id(self, request: InitProducerIdRequest) -> Result[InitProducerIdResponse]:
        return init_producer_id.init_producer_id(self, request)

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: frozenset[TopicPartition],
        *,
        client_version: int,
    ) -> Result[None]:
        """Add partitions to the transaction, which begins if none is open."""
        transaction = self._of_producer(transactional_id, producer_id, producer_epoch)
        if transaction.is_kept:
            raise InvalidTxnState("A prepared transaction can only be committed or aborted.")
        if transaction.state is State.ONGOING and transaction.partitions >= partitions:
            return Result()
        return Result(
            records=[
                self.record(
                    transaction.with_partitions(
                        partitions, client_version=client_version, now_ms=self.clock.now_ms()
                    )
                )
            ]
        )

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """Which partitions are part of the open transaction: a broker asks before it appends."""
        transaction = self._of_producer(transactional_id, producer_id, producer_epoch, prepared_first=False)
        if transaction.is_kept:
            raise InvalidTxnState("A prepared transaction can only be committed or aborted.")
        return {
            each: ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for each in partitions
        }

    def _of_producer(
        self, transactional_id: str, producer_id: int, producer_epoch: int, *, prepared_first: bool = True
    ) -> Transaction:
        """The transaction, if it belongs to this producer and is not completing."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise InvalidProducerIdMapping(f"Unknown transactional id {transactional_id}.")
        is_prepared = transaction.state.is_prepared
        if is_prepared and prepared_first:
            # Checked first: the producer may already use its next id.
            raise completing(transaction)
        known_id, known_epoch = transaction.client
        if producer_id != known_id:
            raise InvalidProducerIdMapping(
                f"Transactional id {transactional_id} belongs to producer {known_id}, not {producer_id}."
            )
        if producer_epoch != known_epoch:
            raise ProducerFenced(
                f"Epoch {producer_epoch} of producer {producer_id} is not the current one ({known_epoch})."
            )
        if is_prepared:
            raise completing(transaction)
        return transaction

    def end_transaction(self, request: EndTxnRequest, *, client_version: int) -> Result[EndTxnResponse]:
        return end_txn.end_transaction(self, request, client_version)

    # ---- markers

    def prepared(self, transaction: Transaction) -> Result[None]:
        """A decided transaction: its record, and its markers once that is committed."""
        if not transaction.partitions:
            return Result(
                records=[self.record(transaction), self.record(transaction.completed(self.clock.now_ms()))]
            )
        return Result(records=[self.record(transaction)], effects=[self._markers_of(transaction)])

    def _markers_of(self, transaction: Transaction) -> SendMarkers:
        return SendMarkers(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            is_commit=transaction.state is State.PREPARE_COMMIT,
            partitions=transaction.partitions,
            transaction_version=transaction.client_version,
        )

    def markers_written(self, sent: SendMarkers, partitions: Iterable[TopicPartition]) -> Result[None]:
        """Some partitions have their marker; with the last one the transaction is complete.

        A deleted partition counts as written. A report about another transaction is ignored.
        """
        transaction = self.transactions.get(sent.transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or transaction.producer_id != sent.producer_id
            or transaction.producer_epoch != sent.producer_epoch
            or self.coordinator_epoch != sent.coordinator_epoch
        ):
            return Result()
        unmarked = self._unmarked[sent.transactional_id]
        unmarked.difference_update(partitions)
        if unmarked:
            return Result()
        return Result(records=[self.record(transaction.completed(self.clock.now_ms()))])

    # ---- timeouts

    def abort_timed_out(self) -> Result[None]:
        """Abort transactions that are open for too long, and fence their producers."""
        result: Result[None] = Result()
        now_ms = self.clock.now_ms()
        written = 0
        delay_ms = self.settings.timeout_check_interval_ms
        for transactional_id in self._ongoing:
            transaction = self.transactions[transactional_id]
            if not transaction.has_timeout or transaction.start_ms + transaction.timeout_ms >= now_ms:
                continue
            if written > SWEEP_BYTES_MAX:
                delay_ms = 0
                break
            try:
                result.add(self.prepared(end_txn.fence(self, transaction)))
            except CoordinatorLoadInProgress:
                continue  # no producer id is left: the next check retries
            written += _record_bytes(transaction)
        result.timers.append(StartTimer(_TIMEOUTS, delay_ms, self.abort_timed_out))
        return result

    def expire_ids(self) -> Result[None]:
        """Delete transactional ids that were not used for `transactional.id.expiration.ms`."""
        result: Result[None] = Result()
        expired_ms = self.clock.now_ms() - self.settings.id_expiration_ms
        written = 0
        delay_ms = self.settings.expiration_check_interval_ms
        for transaction in self.transactions.values():
            if transaction.state.is_idle and transaction.updated_ms <= expired_ms:
                if written > SWEEP_BYTES_MAX:
                    delay_ms = 0
                    break
                result.records.append(tombstone(transaction.transactional_id))
                written += _record_bytes(transaction)
        result.timers.append(StartTimer(_EXPIRY, delay_ms, self.expire_ids))
        return result

    # ---- descriptions

    def describe(self, transactional_id: str) -> DescribeTransactionsResponse.TransactionState:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return DescribeTransactionsResponse.TransactionState(
                transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            )
        partitions = self._unmarked.get(transactional_id, transaction.partitions)
        return DescribeTransactionsResponse.TransactionState(
            transactional_id=transactional_id,
            transaction_state=transaction.state.label,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[
                DescribeTransactionsResponse.TopicData(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )

    def list(
        self, transactional_ids: Iterable[str], wanted: Filter
    ) -> list[ListTransactionsResponse.TransactionState]:
        """The transactions that match the filter."""
        now_ms = self.clock.now_ms()
        return [
            ListTransactionsResponse.TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transactional_id in transactional_ids
            if (transaction := self.transactions.get(transactional_id)) is not None
            and _matches(transaction, wanted, now_ms)
        ]

    def record(self, transaction: Transaction) -> Record:
        return transaction.to_record(self.transaction_version)


def completing(transaction: Transaction) -> ConcurrentTransactions:
    return ConcurrentTransactions(
        f"The transaction of {transaction.transactional_id} is completing ({transaction.state.label}); retry."
    )


def _matches(transaction: Transaction, wanted: Filter, now_ms: int) -> bool:
    return (
        (wanted.states is None or transaction.state in wanted.states)
        and (not wanted.producer_ids or transaction.producer_id in wanted.producer_ids)
        and (wanted.duration_ms < 0 or now_ms - transaction.start_ms > wanted.duration_ms)
    )


def _record_bytes(transaction: Transaction) -> int:
    """The approximate size of its records in bytes."""
    return 200 + 3 * len(transaction.transactional_id) + 32 * len(transaction.partitions)
