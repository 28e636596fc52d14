"""A producer's transactions on the network: sends requests to the coordinators, with retries.

`core/transactions.py` decides which step may follow which; this module carries the steps out. A step
continues when its caller stops waiting (`pending_step.py`), and so do offsets: a commit waits for them, so it
never omits them. An abort waits for requests in flight, since one that arrives later would belong to the next
transaction.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.config import ProducerSettings
from ottla.client.core.idempotence import Idempotence
from ottla.client.core.transactions import (
    END_TXN_VERSION_MAX_V1,
    FEATURE,
    TXN_OFFSET_COMMIT_VERSION_MAX_V1,
    Handle,
    Meaning,
    State,
    Transactions,
    meaning_of,
)
from ottla.client.errors import (
    AbortableError,
    ClientError,
    Disconnected,
    FatalError,
    TimedOut,
    TransactionStateError,
)
from ottla.client.net.cluster import GROUP, TRANSACTION
from ottla.client.net.connection import Link
from ottla.client.producer.pending_step import ABORT, PendingStep
from ottla.client.values import GroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.wire.errors import (
    ErrorCode,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    ProducerFenced,
    UnsupportedVersion,
    for_code,
)
from ottla.wire.message import Message
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from ottla.client.producer.engine import Engine

log = logging.getLogger(__name__)

LANE = "coordinator"
BEGIN, COMMIT = "begin_transaction", "commit_transaction"
_ADD_PARTITIONS_VERSION_MAX = 3  # those above are for brokers
_INIT_VERSION_2PC = 6
_CONCURRENT_WAIT_SECONDS = 0.02


class TransactionRunner:
    """The transactions of one producer, one after the other."""

    def __init__(self, engine: Engine, settings: ProducerSettings, idempotence: Idempotence) -> None:
        assert settings.transactional_id is not None
        self.transactional_id = settings.transactional_id
        self.transactions = Transactions(self.transactional_id)
        self._engine = engine
        self._settings = settings
        self._idempotence = idempotence
        self._adding: asyncio.Task[None] | None = None
        self._offsets: tuple[object, asyncio.Task[None]] | None = None
        """The last sent offsets, and the task that sends them, after earlier ones."""
        self._offset_tasks: list[asyncio.Task[None]] = []
        """All tasks of this transaction that send offsets: each waits for the previous one."""
        self._on_wire: set[asyncio.Task[Any] | None] = set()
        """Tasks whose request is in flight."""
        self._pending = PendingStep(self._spawn_step, lambda: engine.cluster.last_error)

    # What the sender asks

    @property
    def protocol(self) -> int:
        return self.transactions.protocol

    @property
    def is_taking(self) -> bool:
        """Whether records are accepted now."""
        return self.transactions.state is State.IN_TRANSACTION

    @property
    def drops_unsent(self) -> bool:
        """Whether unsent records will never be sent."""
        return self.transactions.state in (State.ABORTABLE_ERROR, State.ABORTING, State.FATAL_ERROR)

    @property
    def reason(self) -> Exception:
        """The error of dropped records."""
        error = self.transactions.error
        if self.transactions.state is State.FATAL_ERROR:
            return FatalError(f"The producer has failed: {error}")
        return AbortableError(f"The transaction is aborted{f': {error}' if error else '.'}")

    def may_send(self, topic: str, partition: int) -> bool:
        """Whether a batch may be sent to this partition now; if not, the missing steps are in progress."""
        if self.transactions.state not in (State.IN_TRANSACTION, State.COMMITTING):
            return False
        if self.transactions.wants((topic, partition)):
            return True
        if self._adding is None:
            self._adding = self._engine.spawn(self._add_partitions())
        return False

    def batch_failed(self, error: Exception) -> None:
        if isinstance(error, AbortableError) and self.drops_unsent:
            return  # the batch failed because of the failure that is known already
        if isinstance(error, InvalidProducerEpoch) and self.is_joined:
            error = ProducerFenced("The owner of the transaction ended it.")
        self.transactions.batch_failed(error)

    # What users ask

    @property
    def is_joined(self) -> bool:
        return self.transactions.is_joined

    async def begin(self, timeout_ms: float) -> None:
        """Begin a transaction; before the first, get the producer id, which ends older transactions."""
        self._refuse_joined()
        transactions = self.transactions
        transactions.check_fatal()
        is_new = transactions.state in (State.UNINITIALIZED, State.INITIALIZING)
        if is_new or self._pending.is_pending(BEGIN):
            await self._pending.run(BEGIN, self._initialise, timeout_ms)
        self._pending.refuse(BEGIN)
        transactions.move(State.IN_TRANSACTION)
        self._offsets = None
        self._offset_tasks.clear()
        transactions.protocol = 2 if self._engine.cluster.features.get(FEATURE, 0) >= 2 else 1
        self._engine.state.update_fast()

    async def commit(self, timeout_ms: float) -> None:
        """Commit everything that was sent, or raise: `AbortableError` if it must be aborted instead."""
        self._refuse_joined()
        await self._pending.run(COMMIT, self._start_commit, timeout_ms)

    def _start_commit(self) -> Coroutine[Any, Any, None]:
        if self.transactions.state is State.ABORTABLE_ERROR:
            raise self.reason from self.transactions.error
        self.transactions.move(State.COMMITTING)
        self._engine.state.update_fast()
        return self._commit()

    async def abort(self, timeout_ms: float) -> None:
        """Abort everything sent since `begin`."""
        self._refuse_joined()
        await self._pending.run(ABORT, self._start_abort, timeout_ms)

    def _start_abort(self) -> Coroutine[Any, Any, None]:
        self.transactions.move(State.ABORTING)
        self._engine.state.update_fast()
        return self._abort()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, timeout_ms: float
    ) -> None:
        """Commit a consumer's offsets as part of the transaction, even if the wait for that times out."""
        self._pending.refuse("send_offsets")
        self.transactions.check_may_send()
        if not offsets:
            return
        same = (dict(offsets), group)
        if self._offsets is None or self._offsets[0] != same or self._offsets[1].done():
            before = None if self._offsets is None else self._offsets[1]
            task = self._engine.spawn(self._send_offsets_after(before, offsets, group))
            self._offsets = (same, task)
            self._offset_tasks = [one for one in self._offset_tasks if not one.done()] + [task]
        task = self._offsets[1]
        done, _ = await asyncio.wait([task], timeout=timeout_ms / 1000)
        if not done:
            raise TimedOut(
                f"The offsets were not added to the transaction within max.block.ms ({timeout_ms:g} ms). "
                "Call send_offsets again to continue waiting; a commit waits for them too."
            )
        if task.cancelled():
            self._engine.state.check_open()
            raise self.reason from self.transactions.error
        task.result()

    def handle(self) -> Handle:
        """The transaction in progress, for producers in other processes."""
        self.transactions.check_may_send()
        self.transactions.is_started = True  # others may write without this one knowing of it
        servers = ",".join(f"{host}:{port}" for host, port in self._settings.bootstrap_servers)
        identity = self._idempotence
        return Handle(self.transactional_id, identity.producer_id, identity.epoch, self.protocol, servers)

    def join(self, handle: Handle) -> None:
        """Write within another producer's transaction."""
        self._idempotence.set_id(handle.producer_id, handle.producer_epoch)
        self.transactions.state = State.IN_TRANSACTION
        self.transactions.protocol = handle.protocol
        self.transactions.is_joined = True
        self._engine.state.update_fast()

    async def leave(self) -> None:
        """The producer is closing: abort a transaction in progress, as far as time allows."""
        await self._pending.wait_until_done(self._settings.max_block_ms)
        if self.is_joined or self.transactions.state not in (State.IN_TRANSACTION, State.ABORTABLE_ERROR):
            return
        try:
            await self.abort(self._settings.max_block_ms)
        except (ClientError, KafkaError) as error:
            log.warning("The transaction stays open until its timeout: %s", error)

    def _refuse_joined(self) -> None:
        if self.is_joined:
            raise TransactionStateError(
                "This producer joined the transaction of another producer; only that one can end it or "
                "begin another."
            )

    def _spawn_step(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._engine.spawn(work)
        task.add_done_callback(self._step_done)
        return task

    def _step_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # asyncio would report it if no caller waits any more
        self._engine.state.update_fast()
        self._engine.wake()

    # Steps

    async def _initialise(self) -> None:
        if self.transactions.state is State.UNINITIALIZED:
            self.transactions.move(State.INITIALIZING)
        await self._take_epoch()
        self.transactions.move(State.READY)

    async def _take_epoch(self) -> None:
        identity = self._idempotence
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._settings.transaction_timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            enable2_pc=self._settings.transaction_two_phase_commit_enable,
        )
        version = _INIT_VERSION_2PC if request.enable2_pc else None
        attempt = 0
        answer = await self._ask(request, version=version)
        while answer.producer_id < 0 or answer.producer_epoch < 0:
            log.warning("A coordinator returned the invalid producer id %d; retrying.", answer.producer_id)
            await asyncio.sleep(self._engine.cluster.backoff.delay_ms(attempt) / 1000)
            attempt += 1
            answer = await self._ask(request, version=version)
        identity.set_id(answer.producer_id, answer.producer_epoch)

    async def _commit(self) -> None:
        await self._engine.flush()
        if self._offset_tasks:
            await asyncio.wait(self._offset_tasks)
        transactions = self.transactions
        if transactions.state is not State.COMMITTING:
            transactions.check_fatal()
            raise self.reason from transactions.error
        if transactions.is_started:
            await self._end(committed=True)
        transactions.move(State.READY)

    async def _abort(self) -> None:
        transactions = self.transactions
        self._engine.wake()
        await self._engine.flush()  # what is on the wire must be answered before the transaction ends
        await self._stop_asking()
        transactions.check_fatal()
        lost_id = isinstance(transactions.error, InvalidProducerIdMapping)
        if transactions.is_started and not lost_id:
            await self._end(committed=False)
        # What was dropped may have been written all the same: only a new epoch makes its numbers free again.
        if transactions.needs_epoch or lost_id or self._idempotence.has_unresolved:
            await self._take_epoch()
        transactions.move(State.READY)

    async def _end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._idempotence.producer_id,
            producer_epoch=self._idempotence.epoch,
            committed=committed,
        )
        version_max = None if self.protocol >= 2 else END_TXN_VERSION_MAX_V1
        answer = await self._ask(request, version_max=version_max)
        if answer.producer_id >= 0:
            self._idempotence.set_id(answer.producer_id, answer.producer_epoch)

    async def _add_partitions(self) -> None:
        """Add partitions to the transaction before records are sent to them (protocol 1)."""
        transactions = self.transactions
        topic_class = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        try:
            while transactions.new_partitions:
                wanted = sorted(transactions.new_partitions)
                topics: dict[str, Any] = {}
                for topic, partition in wanted:
                    topics.setdefault(topic, topic_class(name=topic)).partitions.append(partition)
                request = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self._idempotence.producer_id,
                    v3_and_below_producer_epoch=self._idempotence.epoch,
                    v3_and_below_topics=list(topics.values()),
                )
                await self._ask(
                    request,
                    is_within=True,
                    version_max=_ADD_PARTITIONS_VERSION_MAX,
                    codes=lambda answer: [
                        one.partition_error_code
                        for topic in answer.results_by_topic_v3_and_below
                        for one in topic.results_by_partition
                    ],
                )
                transactions.is_started = True
                transactions.partitions.update(wanted)
                transactions.new_partitions.difference_update(wanted)
        except (KafkaError, ClientError):
            return  # the state has it, and with it all that is to be sent
        finally:
            self._adding = None
            self._engine.wake()

    async def _send_offsets_after(
        self,
        before: asyncio.Task[None] | None,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: GroupMetadata,
    ) -> None:
        if before is not None:
            await asyncio.wait([before])
        try:
            await self._send_offsets(offsets, group)
        except (ClientError, KafkaError) as error:
            self.transactions.fail(error, fatal=False)  # without them it must not be committed
            raise

    async def _stop_asking(self) -> None:
        """Stop the requests within the transaction, after those in flight are answered."""
        tasks = [one for one in (self._adding, *self._offset_tasks) if one and not one.done()]
        for task in tasks:
            if task not in self._on_wire:
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        identity = self._idempotence
        if self.protocol < 2:
            await self._ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=identity.producer_id,
                    producer_epoch=identity.epoch,
                    group_id=group.group_id,
                ),
                is_within=True,
            )
        self.transactions.is_started = True
        topic_class = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        partition_class = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topics: dict[str, Any] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            topics.setdefault(topic, topic_class(name=topic)).partitions.append(
                partition_class(
                    partition_index=partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )
        await self._ask(
            request,
            is_within=True,
            coordinator=(GROUP, group.group_id),
            version_max=None if self.protocol >= 2 else TXN_OFFSET_COMMIT_VERSION_MAX_V1,
            codes=lambda answer: [one.error_code for topic in answer.topics for one in topic.partitions],
        )

    # Asking

    async def _ask(
        self,
        request: Message,
        *,
        is_within: bool = False,
        coordinator: tuple[int, str] | None = None,
        version: int | None = None,
        version_max: int | None = None,
        codes: Callable[[Any], list[int]] = lambda answer: [answer.error_code],
    ) -> Any:
        """Ask a coordinator, with retries.

        A final error is in the state of the transaction before it is raised. `is_within`: not if that
        transaction must be aborted.
        """
        kind, key = coordinator or (TRANSACTION, self.transactional_id)
        cluster = self._engine.cluster
        attempt = 0
        worst: Meaning | None
        code: int
        while True:
            try:
                node_id = await cluster.coordinator(kind, key)
                if version is not None:
                    _check_version(await cluster.connect(node_id, LANE), request, version)
                if is_within:
                    if self.drops_unsent:
                        raise self.reason
                    self._on_wire.add(asyncio.current_task())
                answer = await cluster.ask(
                    node_id, request, lane=LANE, version=version, version_max=version_max
                )
            except Disconnected as error:
                if is_within and self.protocol < 2:
                    # It may arrive yet. Within the same epoch it would be part of the next transaction.
                    self.transactions.needs_epoch = True
                cluster.last_error = error
                cluster.forget_coordinator(kind, key)
                worst, code = Meaning.RETRY, ErrorCode.NETWORK_EXCEPTION
            except KafkaError as error:
                self._note(error, meaning_of(error.code))
                raise
            except ClientError as error:
                if not isinstance(error, AbortableError | FatalError):
                    self._note(error, Meaning.FATAL)  # TLS or a login that fails: another try does not help
                raise
            else:
                worst, code = _worst(codes(answer))
                if worst is None:
                    return answer
            finally:
                self._on_wire.discard(asyncio.current_task())
            if is_within and self.drops_unsent:
                raise self.reason
            if worst is Meaning.FIND_COORDINATOR:
                cluster.forget_coordinator(kind, key)
            if worst in (Meaning.ABORTABLE, Meaning.FATAL):
                failure = self._as_error(code)
                self._note(failure, worst)
                raise failure
            wait_seconds = cluster.backoff.delay_ms(attempt) / 1000
            if code == ErrorCode.CONCURRENT_TRANSACTIONS and attempt < 5:
                wait_seconds = min(wait_seconds, _CONCURRENT_WAIT_SECONDS)
            await asyncio.sleep(wait_seconds)
            attempt += 1

    def _as_error(self, code: int) -> KafkaError:
        if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            return ProducerFenced(
                f"Another producer with the transactional.id {self.transactional_id} has fenced this one."
            )
        return for_code(code)()

    def _note(self, error: Exception, meaning: Meaning | None) -> None:
        if meaning is Meaning.ABORTABLE and isinstance(error, KafkaError) and self.protocol < 2:
            unknown = (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            self.transactions.needs_epoch = self.transactions.needs_epoch or error.code in unknown
        self.transactions.fail(error, fatal=meaning is not Meaning.ABORTABLE)
        self._engine.state.update_fast()
        self._engine.wake()


def _check_version(link: Link, request: Message, version: int) -> None:
    assert request.API_KEY is not None
    if version not in (link.versions(request.API_KEY) or ()):
        raise UnsupportedVersion(
            f"{link.name} does not support version {version} of {request.NAME.removesuffix('Request')}, "
            "which transaction.two.phase.commit.enable needs."
        )


def _worst(codes: list[int]) -> tuple[Meaning | None, int]:
    """The worst of the codes of one response, (None, 0) if there is no error."""
    order = (Meaning.FATAL, Meaning.ABORTABLE, Meaning.FIND_COORDINATOR, Meaning.RETRY)
    found = [(meaning_of(code), code) for code in codes if code]
    # Not attempted is said of those that are fine themselves.
    failed = [one for one in found if one[1] != ErrorCode.OPERATION_NOT_ATTEMPTED] or found
    return min(failed, key=lambda one: order.index(one[0])) if failed else (None, 0)
