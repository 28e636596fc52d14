"""Calls of a transaction that time out or are cancelled: what may follow, and that nothing is left out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.proxy import END_TXN, HOLD, INIT_PRODUCER_ID, PASS, Proxy

import ottla
import ottla.aio
from ottla.client.errors import (
    AbortableError,
    AuthenticationFailed,
    Closed,
    FatalError,
    TimedOut,
    TransactionStateError,
)
from ottla.testing import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

TXN_OFFSET_COMMIT = 28
SHORT_MS, WAIT_MS = 50.0, 120_000.0
PLACE = ottla.TopicPartition("t", 0)
OFFSETS = {PLACE: ottla.OffsetAndMetadata(41)}


@pytest.fixture(scope="module")
def node() -> Iterator[tuple[Broker, Proxy]]:
    with Proxy() as outer:
        settings = {
            "num.partitions": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://{outer.address}",
        }
        with Broker(settings) as broker:
            outer.target_port = broker.port
            yield broker, outer


class Held:
    """While it lasts the proxy holds answers (or requests) of one API."""

    def __init__(self, proxy: Proxy, key: int, stage: str = "answer") -> None:
        self.proxy = proxy
        self.came = threading.Event()
        self._wanted = (key, stage)

    def __enter__(self) -> Held:
        assert self.proxy._held is not None
        self.proxy._loop.call_soon_threadsafe(self.proxy._held.clear)
        self.proxy.rule = self._rule
        return self

    def _rule(self, proxy: Proxy, key: int, stage: str) -> str:
        if (key, stage) != self._wanted:
            return PASS
        self.came.set()
        return HOLD

    def __exit__(self, *_: object) -> None:
        self.proxy.rule = lambda proxy, key, stage: PASS
        self.proxy.release()


def committed(broker: Broker, group: str) -> int | None:
    with ottla.Admin(broker.bootstrap_servers) as admin:
        offsets = admin.list_consumer_group_offsets([group], require_stable=True)[group]
    assert not isinstance(offsets, Exception)
    found = offsets.get(PLACE)
    return None if found is None else found.offset


def test_a_commit_that_timed_out_is_called_again_for_its_result_and_nothing_else_is_taken(
    node: tuple[Broker, Proxy],
) -> None:
    _, proxy = node

    async def main() -> None:
        async with ottla.aio.Producer(proxy.address, transactional_id="again") as producer:
            others = (producer.abort_transaction, producer.begin_transaction)
            await producer.begin_transaction()
            await (await producer.send("t", b"x"))
            with Held(proxy, END_TXN):
                with pytest.raises(TimedOut, match="Call it again"):
                    await producer._core.transactions.commit(SHORT_MS)
                for call in others:
                    with pytest.raises(TransactionStateError, match="commit_transaction"):
                        await call()
            await producer._core.transactions._pending.wait_until_done(
                WAIT_MS
            )  # the commit goes on without a caller
            for call in others:
                with pytest.raises(TransactionStateError, match="Call commit_transaction again"):
                    await call()
            await producer.commit_transaction()
            with pytest.raises(TransactionStateError):
                await producer.commit_transaction()
            async with producer.transaction() as transaction:
                await transaction.send("t", b"y")

    asyncio.run(main())


def test_a_first_begin_that_timed_out_is_called_again(node: tuple[Broker, Proxy]) -> None:
    _, proxy = node

    async def main() -> None:
        async with ottla.aio.Producer(proxy.address, transactional_id="begin") as producer:
            with Held(proxy, INIT_PRODUCER_ID), pytest.raises(TimedOut):
                await producer._core.transactions.begin(SHORT_MS)
            await producer._core.transactions._pending.wait_until_done(WAIT_MS)
            await producer.begin_transaction()
            await producer.send("t", b"x")
            await producer.commit_transaction()

    asyncio.run(main())


@pytest.fixture(params=[1, 2])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The protocol of transactions that the producer uses."""
    if request.param == 1:
        monkeypatch.setattr("ottla.client.producer.transactions.FEATURE", "a feature that no cluster has")
    return int(request.param)


def test_a_transaction_is_not_committed_without_offsets_whose_sending_timed_out(
    node: tuple[Broker, Proxy], protocol: int
) -> None:
    broker, proxy = node
    name = f"offsets-{protocol}"

    async def main() -> None:
        async with ottla.aio.Producer(proxy.address, transactional_id=name) as producer:
            await producer.begin_transaction()
            with Held(proxy, TXN_OFFSET_COMMIT, "request"):
                for _ in range(2):
                    with pytest.raises(TimedOut, match="a commit waits for them"):
                        await producer._core.transactions.send_offsets(
                            OFFSETS, ottla.GroupMetadata(name), SHORT_MS
                        )
                with pytest.raises(TimedOut):
                    await producer._core.transactions.commit(SHORT_MS)
            await producer.commit_transaction()

    asyncio.run(main())
    assert committed(broker, name) == 41


def test_offsets_that_are_on_the_wire_when_the_transaction_is_aborted_stay_out_of_the_next(
    node: tuple[Broker, Proxy], protocol: int
) -> None:
    broker, proxy = node
    name = f"aborted-{protocol}"

    async def main() -> None:
        async with ottla.aio.Producer(proxy.address, transactional_id=name) as producer:
            await producer.begin_transaction()
            with Held(proxy, TXN_OFFSET_COMMIT, "request") as held:
                with pytest.raises(TimedOut):
                    await producer._core.transactions.send_offsets(
                        OFFSETS, ottla.GroupMetadata(name), SHORT_MS
                    )
                await asyncio.to_thread(held.came.wait)
                with pytest.raises(TimedOut):  # these wait for the ones before
                    await producer._core.transactions.send_offsets(
                        OFFSETS, ottla.GroupMetadata("behind"), SHORT_MS
                    )
                with pytest.raises(TimedOut, match="abort_transaction"):
                    await producer._core.transactions.abort(SHORT_MS)
            await producer.abort_transaction()
            async with producer.transaction() as transaction:
                await transaction.send("t", b"x")
                other = ottla.GroupMetadata(f"{name}-other")
                await transaction.send_offsets({PLACE: ottla.OffsetAndMetadata(1)}, other)

    asyncio.run(main())
    assert committed(broker, name) is None


def test_offsets_that_are_to_be_sent_again_when_the_transaction_is_aborted_stay_out_of_the_next(
    node: tuple[Broker, Proxy], protocol: int
) -> None:
    _, proxy = node
    name = f"asked-again-{protocol}"

    async def main() -> None:
        async with ottla.aio.Producer(proxy.address, transactional_id=name) as producer:
            cluster = producer._core.engine.cluster
            ask, asked, is_refused = cluster.ask, [], asyncio.Event()

            async def refuse_offsets(node_id: int, request: Any, **options: Any) -> Any:
                answer = await ask(node_id, request, **options)
                if isinstance(request, TxnOffsetCommitRequest):
                    asked.append(request.group_id)
                    answer.topics[0].partitions[0].error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    is_refused.set()
                return answer

            await producer.begin_transaction()
            cluster.ask = refuse_offsets  # type: ignore[method-assign]
            calls = [asyncio.create_task(producer.send_offsets(OFFSETS, f"{name}-{one}")) for one in range(2)]
            await is_refused.wait()
            await producer.abort_transaction()
            cluster.ask = ask  # type: ignore[method-assign]
            before = len(asked)
            await producer.begin_transaction()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(one) for one in results] == [AbortableError] * 2
            assert set(asked) == {f"{name}-0"}
            assert len(asked) == before
            await producer.commit_transaction()

    asyncio.run(main())


def fail_on(producer: ottla.aio.Producer, kind: type[Message], error: Exception) -> None:
    """Have requests of one kind fail as if no connection could be made for them."""
    cluster = producer._core.engine.cluster
    ask = cluster.ask

    async def failing(node_id: int, request: Any, **options: Any) -> Any:
        if isinstance(request, kind):
            raise error
        return await ask(node_id, request, **options)

    cluster.ask = failing  # type: ignore[method-assign]


def test_a_commit_that_fails_for_good_on_the_way_to_the_coordinator_leaves_a_producer_that_says_so(
    node: tuple[Broker, Proxy],
) -> None:
    _, proxy = node

    async def main() -> None:
        async with ottla.aio.Producer(proxy.address, transactional_id="login-fails") as producer:
            await producer.begin_transaction()
            await (await producer.send("t", b"x"))
            fail_on(producer, EndTxnRequest, AuthenticationFailed("the password was changed"))
            with pytest.raises(AuthenticationFailed):
                await producer.commit_transaction()
            for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
                with pytest.raises(FatalError, match="the password was changed"):
                    await call()

    asyncio.run(main())


def test_records_fail_when_their_partition_cannot_be_added_to_the_transaction(
    node: tuple[Broker, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, proxy = node
    monkeypatch.setattr("ottla.client.producer.transactions.FEATURE", "a feature that no cluster has")

    async def main() -> None:
        async with ottla.aio.Producer(proxy.address, transactional_id="adding-fails") as producer:
            await producer.begin_transaction()
            fail_on(producer, AddPartitionsToTxnRequest, AuthenticationFailed("the password was changed"))
            with pytest.raises(FatalError, match="the password was changed"):
                await (await producer.send("t", b"x"))

    asyncio.run(main())


def test_a_cancelled_commit_goes_on_and_closing_waits_for_it(node: tuple[Broker, Proxy]) -> None:
    broker, proxy = node

    async def main() -> None:
        producer = ottla.aio.Producer(proxy.address, transactional_id="cancelled")
        await producer.begin_transaction()
        await (await producer.send("t", b"x"))
        await producer.send_offsets(OFFSETS, "cancelled")
        with Held(proxy, END_TXN, "request") as held:
            commit = asyncio.ensure_future(producer.commit_transaction())
            await asyncio.to_thread(held.came.wait)
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0)
        await closing

    asyncio.run(main())
    assert committed(broker, "cancelled") == 41


def test_who_waits_for_a_commit_hears_that_the_producer_was_closed(node: tuple[Broker, Proxy]) -> None:
    _, proxy = node

    async def main() -> None:
        producer = ottla.aio.Producer(proxy.address, transactional_id="closed-meanwhile")
        await producer.begin_transaction()
        await (await producer.send("t", b"x"))
        with Held(proxy, END_TXN, "request") as held:
            commit = asyncio.ensure_future(producer.commit_transaction())
            await asyncio.to_thread(held.came.wait)
            await producer.close(0)
            with pytest.raises(Closed):
                await commit

    asyncio.run(main())
