"""Each call of a producer, while a broker is down, stopped, slow, or while a partition has no leader.

A call ends within its own time limit, or as soon as it is cancelled or the producer is closed, and its answer
is true: what it said of a record is compared with the log at the end, and a step of a transaction that timed
out or was cancelled has its result when it is called again. Time is virtual.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.admin.topics import NewTopic
from ottla.client.errors import AbortableError, ClientError, Closed, FatalError, TimedOut
from ottla.client.producer.async_producer import AsyncProducer
from ottla.client.values import GroupMetadata, OffsetAndMetadata, Status, TopicPartition
from ottla.records.builder import BatchBuilder
from ottla.testing.world import SimulatedClient, World
from ottla.wire.errors import KafkaError

MAX_BLOCK_S, DELIVERY_S, CALL_S, CLOSE_S = 3.0, 4.0, 2.0, 1.0
SLACK_S = 0.3
SETTINGS = {
    "max_block_ms": int(MAX_BLOCK_S * 1000),
    "delivery_timeout_ms": int(DELIVERY_S * 1000),
    "request_timeout_ms": 1500,
    "linger_ms": 0,
    "reconnect_backoff_max_ms": 200,
}
PLACE = TopicPartition("t", 0)
Act = Callable[["Cell"], Awaitable[Any]]


@dataclass(frozen=True)
class Call:
    """A call, what comes before it, and how long it may take."""

    name: str
    act: Act
    limit_s: float
    before: Act | None = None
    is_transactional: bool = False
    is_step: bool = False
    """Whether the same call gets the result after a time-out."""


@dataclass
class Cell:
    """One call under one fault."""

    name: str
    client: SimulatedClient
    producer: Any
    deliveries: dict[bytes, Any] = field(default_factory=dict)
    must_be_committed: bool = False
    must_be_aborted: bool = False
    written: list[bytes] = field(default_factory=list)
    """Values whose table or batch was acknowledged."""
    joined: Any = None

    async def send(self, what: str = "") -> Any:
        value = f"{self.name}{what}".encode()
        self.deliveries[value] = delivery = await self.producer.send("t", value, partition=0)
        return delivery


async def _send_and_wait(cell: Cell) -> None:
    await (await cell.send())


async def _send_table(cell: Cell) -> None:
    value = f"{cell.name} table".encode()
    await (await cell.producer.send_arrow("t", pa.table({"value": [value]})))
    cell.written.append(value)


def _batch_of(value: bytes) -> bytes:
    builder = BatchBuilder(batch_size=1000)
    builder.append(1, None, value, None)
    return bytes(builder.build())


async def _send_batch(cell: Cell) -> None:
    value = f"{cell.name} batch".encode()
    await (await cell.producer.send_batches("t", [(0, _batch_of(value))]))
    cell.written.append(value)


async def _flush_within(cell: Cell) -> None:
    await cell.send()
    await cell.producer.flush(CALL_S)


async def _flush(cell: Cell) -> None:
    await cell.send()
    await cell.producer.flush()


async def _close_within(cell: Cell) -> None:
    await cell.send()
    await cell.producer.close(CALL_S)


async def _close(cell: Cell) -> None:
    await cell.send()
    await cell.producer.close()


async def _begin(cell: Cell) -> None:
    await cell.producer.begin_transaction()


async def _within(cell: Cell) -> None:
    await cell.producer.begin_transaction()
    await (await cell.send())


async def _commit(cell: Cell) -> None:
    await cell.producer.commit_transaction()
    cell.must_be_committed = True


async def _abort(cell: Cell) -> None:
    await cell.producer.abort_transaction()
    cell.must_be_aborted = True


async def _send_offsets(cell: Cell) -> None:
    await cell.producer.send_offsets({PLACE: OffsetAndMetadata(7)}, GroupMetadata("group"))


async def _transaction(cell: Cell) -> None:
    async with cell.producer.transaction():
        await cell.send()
    cell.must_be_committed = True


async def _handle(cell: Cell) -> None:
    assert cell.producer.transaction_handle().transactional_id == cell.name


async def _join(cell: Cell) -> None:
    """Join the transaction, take a turn in a partition, and leave without a record."""
    client = cell.client
    ports = {"clock": client.clock, "network": client.network, "random": client.random}
    cell.joined = AsyncProducer.join(cell.producer.transaction_handle(), **SETTINGS, **ports)
    await cell.joined.resume("t", 0, 1)


async def _join_and_send(cell: Cell) -> None:
    await _join(cell)
    value = f"{cell.name} of the joined".encode()
    cell.deliveries[value] = delivery = await cell.joined.send("t", value, partition=0)
    await delivery


CALLS = (
    Call("send", lambda cell: cell.send(), 0.0),
    Call("send to a topic that it does not know", lambda cell: cell.producer.send("u", b"x"), MAX_BLOCK_S),
    Call("delivery", _send_and_wait, DELIVERY_S),
    Call("send_arrow", _send_table, DELIVERY_S),
    Call(
        "send_arrow to a topic that it does not know",
        lambda cell: cell.producer.send_arrow("u", pa.table({"value": [b"x"]})),
        MAX_BLOCK_S,
    ),
    Call("send_batches", _send_batch, DELIVERY_S),
    Call(
        "send_batches to a topic that it does not know",
        lambda cell: cell.producer.send_batches("u", [(0, _batch_of(b"x"))]),
        MAX_BLOCK_S,
    ),
    Call("flush within", _flush_within, CALL_S),
    Call("flush", _flush, DELIVERY_S),
    Call("partitions_for", lambda cell: cell.producer.partitions_for("u"), MAX_BLOCK_S),
    Call("close within", _close_within, CALL_S),
    Call("close", _close, DELIVERY_S),
    Call("begin", _begin, MAX_BLOCK_S, is_transactional=True, is_step=True),
    Call("commit", _commit, MAX_BLOCK_S, _within, is_transactional=True, is_step=True),
    Call("abort", _abort, MAX_BLOCK_S, _within, is_transactional=True, is_step=True),
    Call("send_offsets", _send_offsets, MAX_BLOCK_S, _within, is_transactional=True, is_step=True),
    Call("transaction", _transaction, 2 * MAX_BLOCK_S + DELIVERY_S, is_transactional=True),
    Call("transaction_handle", _handle, 0.0, _within, is_transactional=True),
    Call("join and resume", _join, 0.0, _within, is_transactional=True),
    Call(
        "send of a joined producer", _join_and_send, MAX_BLOCK_S + DELIVERY_S, _within, is_transactional=True
    ),
    Call(
        "close within a transaction",
        lambda cell: cell.producer.close(CALL_S),
        CALL_S,
        _within,
        is_transactional=True,
    ),
    Call(
        "close of a transaction",
        lambda cell: cell.producer.close(),
        MAX_BLOCK_S + DELIVERY_S,
        _within,
        is_transactional=True,
    ),
)
WAYS = ("time-out", "cancel", "close")


class Fault:
    """What is wrong with the cluster while a call is made."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name

    def begin(self) -> None:
        if self.name in ("down", "leader gone"):
            self.world.crash(1)
        elif self.name == "stopped":
            self.world.pause(1)
        else:
            self._slow(0.4)

    async def end(self) -> None:
        if self.name in ("down", "leader gone"):
            await self.world.start(1)
        elif self.name == "stopped":
            self.world.resume(1)
        else:
            self._slow(0.001)

    def _slow(self, delay_s: float) -> None:
        for source, target in (("client", 1), (1, "client")):
            self.world.slow(source, target, delay_s=delay_s)


class Table:
    """All calls in one world, each with a producer of its own, during the same outage."""

    def __init__(self, world: World, fault: Fault) -> None:
        self.world, self.fault = world, fault
        self.client = world.client("client")
        self.cells: list[Cell] = []
        self.faults: list[str] = []

    async def run(self) -> None:
        await self.world.start()
        await self.client.spawn(self._create())
        table = [(call, way, self._cell(call, way)) for call in CALLS for way in WAYS]
        for call, _, cell in table:
            await self.client.spawn(self._prepare(call, cell))
        self.fault.begin()
        await asyncio.gather(*(self.client.spawn(self._call(*row)) for row in table))
        await self.fault.end()
        for row in table:
            await self.client.spawn(self._finish(*row))
        await self.client.spawn(self._compare())

    async def _create(self) -> None:
        async with self.client.admin() as admin:
            await admin.create_topics([NewTopic("t", assignments={0: [1]})])

    def _cell(self, call: Call, way: str) -> Cell:
        name = f"{call.name} / {way}"
        more = {"transactional_id": name} if call.is_transactional else {}
        cell = Cell(name, self.client, self.client.producer(**SETTINGS, **more))
        self.cells.append(cell)
        return cell

    async def _prepare(self, call: Call, cell: Cell) -> None:
        if not call.is_transactional:
            await (await cell.send(" before"))
        elif call.before is not None:
            await _patiently(lambda: call.before(cell))  # type: ignore[misc]

    async def _call(self, call: Call, way: str, cell: Cell) -> None:
        began = self.world.now
        limit_s = call.limit_s
        work = asyncio.ensure_future(call.act(cell))
        if way != "time-out":
            await asyncio.sleep(0.2)
            limit_s = min(limit_s, 0.2)
        if way == "cancel":
            work.cancel()
        elif way == "close":
            limit_s = 0.2 + CLOSE_S
            with contextlib.suppress(AbortableError):  # a joined producer has lost a record
                await (cell.joined or cell.producer).close(CLOSE_S)
        try:
            await work
        except asyncio.CancelledError:
            if way != "cancel":
                self._fault(cell, "was cancelled, though nobody cancelled it")
        except (ClientError, KafkaError) as error:
            if not isinstance(error, TimedOut | AbortableError | FatalError | Closed) and way != "close":
                self._fault(cell, f"raised {error!r}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no answer
            self._fault(cell, f"raised {error!r}")
        took_s = self.world.now - began
        if took_s > limit_s + SLACK_S:
            self._fault(cell, f"took {took_s:.2f} s, and may take {limit_s:.2f} s")

    async def _finish(self, call: Call, way: str, cell: Cell) -> None:
        """The fault is over: a step that timed out has its result, and every record a report."""
        is_closed = way == "close" or call.name.startswith("close")
        if call.is_step and not is_closed and not (cell.must_be_committed or cell.must_be_aborted):
            try:
                await _patiently(lambda: call.act(cell))
            except (ClientError, KafkaError) as error:
                self._fault(cell, f"called again raised {error!r}")
        for delivery in cell.deliveries.values():
            while not delivery.done():
                await asyncio.sleep(0.05)
        if call.name == "send_offsets" and not is_closed:
            await _patiently(lambda: _commit(cell))
        if cell.joined is not None:
            with contextlib.suppress(AbortableError):  # its record was not acknowledged
                await cell.joined.close(0)
        await cell.producer.close(0)

    async def _compare(self) -> None:
        await asyncio.sleep(70)  # transactions that were left alone are aborted by then
        everything = await self._read("read_uncommitted")
        committed = await self._read("read_committed")
        for cell in self.cells:
            for value, delivery in cell.deliveries.items():
                report = delivery._report()
                if report.status is Status.PERSISTED and everything.get(report.offset) != value:
                    self._fault(cell, f"{value!r} is reported as {report}, where the log has another")
                if report.status is Status.NOT_PERSISTED and value in everything.values():
                    self._fault(cell, f"{value!r} is reported as {report}, and is in the log")
                if cell.must_be_committed and value not in committed.values():
                    self._fault(cell, f"{value!r} was committed and is not to be seen")
                if cell.must_be_aborted and value in committed.values():
                    self._fault(cell, f"{value!r} was aborted and is to be seen")
            for value in cell.written:
                if value not in everything.values():
                    self._fault(cell, f"{value!r} was acknowledged and is not in the log")
        values = list(everything.values())
        if len(values) != len(set(values)):
            self.faults.append("records are in the log twice")

    async def _read(self, isolation_level: str) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        async with self.client.consumer(
            isolation_level=isolation_level, auto_offset_reset="earliest"
        ) as consumer:
            await consumer.assign([PLACE])
            end = (await consumer.end_offsets([PLACE]))[PLACE]
            while await consumer.position(PLACE) < end:
                found |= {record.offset: record.value for record in await consumer.poll(1.0)}
        return found

    def _fault(self, cell: Cell, what: str) -> None:
        self.faults.append(f"{self.fault.name}: {cell.name} {what}")


async def _patiently(act: Callable[[], Awaitable[Any]]) -> None:
    """Call until it does not time out."""
    while True:
        try:
            await act()
            return
        except TimedOut:
            continue


@pytest.mark.parametrize(("fault", "nodes"), [("down", 1), ("stopped", 1), ("slow", 1), ("leader gone", 3)])
def test_every_call_ends_within_its_time_with_a_true_answer(fault: str, nodes: int) -> None:
    with World(7) as world:
        world.add_nodes(nodes)
        table = Table(world, Fault(world, fault))
        world.run(table.run(), limit_s=7200)
        assert table.faults == []
        assert world.unhandled == []
