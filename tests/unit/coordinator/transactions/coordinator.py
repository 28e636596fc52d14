"""A transaction coordinator for tests: decisions are replayed at once and kept in a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.controller.image import ClusterImage
from ottla.coordinator import records
from ottla.coordinator.result import Record, Result, StartTimer
from ottla.coordinator.transactions.markers import SendMarkers
from ottla.coordinator.transactions.settings import TransactionSettings
from ottla.coordinator.transactions.shard import TransactionShard
from ottla.coordinator.transactions.states import TopicPartition, Transaction
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages import transaction_records
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.transaction_records import TransactionLogValue

FIRST_PRODUCER_ID = 1000
KINDS = records.kinds_of(transaction_records)
IN_A = frozenset({("a", 0), ("a", 1)})


class FakeClock:
    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.value_ms = now_ms

    def now_ms(self) -> int:
        return self.value_ms

    def monotonic(self) -> float:
        return self.value_ms / 1000


class Coordinator:
    """One shard, its log as bytes, and what it asked the shell to do."""

    def __init__(self, *, version: int = 2, settings: TransactionSettings | None = None) -> None:
        self.clock = FakeClock()
        self.image = ClusterImage()
        self.image.features["transaction.version"] = version
        self.settings = settings or TransactionSettings()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[SendMarkers] = []
        self.timers: dict[Any, StartTimer] = {}
        self.next_producer_id = FIRST_PRODUCER_ID
        self.has_producer_ids = True
        self.epoch = 0
        self.shard = self._new_shard()

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(
            index=0,
            coordinator_epoch=self.epoch,
            image=self.image,
            clock=self.clock,
            settings=self.settings,
            take_producer_id=self._take_producer_id,
        )

    def _take_producer_id(self) -> int | None:
        if not self.has_producer_ids:
            return None
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def reload(self) -> None:
        """Another node takes over: all that it has is the log."""
        self.epoch += 1
        self.effects.clear()
        self.shard = self._new_shard()
        for key, value in self.log:
            record = records.decode(KINDS, key, value)
            assert record is not None
            self.shard.replay(record)
        self.run(self.shard.on_loaded())

    def run_records(self, decided: list[Record]) -> None:
        for record in decided:
            self.log.append(records.encode(record))
            self.shard.replay(record)

    def run(self, result: Result[Any]) -> Any:
        self.run_records(result.records)
        self.effects += result.effects
        for timer in result.timers:
            assert isinstance(timer, StartTimer)
            self.timers[timer.key] = timer
        return result.response

    def try_(self, decision: Callable[[], Result[Any]]) -> tuple[ErrorCode, Any]:
        try:
            response = self.run(decision())
        except KafkaError as error:
            return error.code, None
        return ErrorCode(getattr(response, "error_code", 0)), response

    # ---- requests: (error, what the producer learns)

    def init(
        self,
        transactional_id: str = "t",
        *,
        expected: tuple[int, int] = (-1, -1),
        timeout_ms: int = 60_000,
        two_phase: bool = False,
        keep: bool = False,
    ) -> tuple[ErrorCode, tuple[int, int]]:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )
        error, response = self.try_(lambda: self.shard.init_producer_id(request))
        self.last_response = response
        return error, (-1, -1) if response is None else (response.producer_id, response.producer_epoch)

    def add(
        self,
        producer: tuple[int, int],
        partitions: frozenset[TopicPartition] = IN_A,
        transactional_id: str = "t",
        *,
        version: int = 2,
    ) -> ErrorCode:
        return self.try_(
            lambda: self.shard.add_partitions(transactional_id, *producer, partitions, client_version=version)
        )[0]

    def end(
        self, producer: tuple[int, int], *, commit: bool, transactional_id: str = "t", version: int = 2
    ) -> tuple[ErrorCode, tuple[int, int]]:
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=commit,
        )
        error, response = self.try_(lambda: self.shard.end_transaction(request, client_version=version))
        return error, (-1, -1) if response is None else (response.producer_id, response.producer_epoch)

    def verify(
        self,
        producer: tuple[int, int],
        partitions: frozenset[TopicPartition] = IN_A,
        transactional_id: str = "t",
    ) -> set[ErrorCode]:
        try:
            found = self.shard.verify_partitions(transactional_id, *producer, partitions)
        except KafkaError as error:
            return {error.code}
        return set(found.values())

    # ---- the shell

    def write_markers(self) -> None:
        """Write every marker that was asked for, and report it."""
        sent, self.effects = self.effects, []
        for markers in sent:
            self.run(self.shard.markers_written(markers, markers.partitions))

    def fire(self, name: str) -> None:
        """Let a timer run out."""
        self.run(self.timers[(name,)].decision())

    # ---- looking

    def of(self, transactional_id: str = "t") -> Transaction:
        return self.shard.transactions[transactional_id]

    def state(self, transactional_id: str = "t") -> str:
        return self.of(transactional_id).state.label

    def logged(self) -> list[Record]:
        decoded = [records.decode(KINDS, key, value) for key, value in self.log]
        return [record for record in decoded if record is not None]

    def logged_states(self) -> list[int | None]:
        return [
            record.value.transaction_status if isinstance(record.value, TransactionLogValue) else None
            for record in self.logged()
        ]
