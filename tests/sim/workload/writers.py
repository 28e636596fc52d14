"""Clients that write: an idempotent producer, and a transactional one. Each call is one client instance."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ottla.client.errors import AbortableError, ClientError
from ottla.testing.world import SimulatedClient
from ottla.wire.errors import KafkaError
from tests.sim.checker import Outcome
from tests.sim.checker.history import Partition, SourcePlace
from tests.sim.workload.recording import Recorder

REFUSED = (KafkaError, ClientError)
"""Errors that a client may get during faults."""

REQUEST_TIMEOUT_MS = 8_000
DELIVERY_TIMEOUT_MS = 40_000
TRANSACTION_TIMEOUT_MS = 15_000

CONNECTING: dict[str, Any] = {
    "request_timeout_ms": REQUEST_TIMEOUT_MS,
    # While nodes are down, clients mostly retry: half as often as by default.
    "reconnect_backoff_ms": 100,
    "reconnect_backoff_max_ms": 2_000,
}


class Schedule(Protocol):
    """Tells clients when to finish, and when to work."""

    is_ending: bool

    async def rest(self) -> None:
        """Wait until the next burst of work; return at once within one."""


async def send(
    recorder: Recorder,
    producer: Any,
    process: str,
    partition: Partition,
    *,
    transaction: str | None = None,
    source: SourcePlace | None = None,
    acks: int = -1,
) -> asyncio.Task[bool]:
    """Send one record. The task returns whether it was acknowledged; it never raises."""
    number, value = recorder.send(process, partition, transaction=transaction, source=source, acks=acks)
    try:
        delivery = await producer.send(partition[0], value.encode(), partition=partition[1])
    except REFUSED:
        recorder.sent(number, Outcome.FAILED)  # the producer rejected it: no request contains it
        raise
    return asyncio.ensure_future(_record_outcome(recorder, process, number, delivery))


async def _record_outcome(recorder: Recorder, process: str, number: int, delivery: Any) -> bool:
    try:
        report = await delivery
    except REFUSED as error:
        recorder.record_error(process, error)  # an earlier attempt may have succeeded: unknown
        return False
    recorder.sent(number, Outcome.OK, report.offset if report.offset >= 0 else None)
    return True


async def write(
    story: Schedule,
    recorder: Recorder,
    client: SimulatedClient,
    partitions: list[Partition],
    *,
    rate: float,
    acks: int = -1,
) -> None:
    """Send unique values to random partitions, until the story ends."""
    settings = {**CONNECTING, "linger_ms": 5, "delivery_timeout_ms": DELIVERY_TIMEOUT_MS}
    settings |= {"acks": acks, "enable_idempotence": acks == -1}
    waits = []
    async with client.producer(**settings) as producer:
        while not story.is_ending:
            partition = partitions[client.random.below(len(partitions))]
            for _ in range(1 + client.random.below(3)):
                waits.append(await send(recorder, producer, client.host, partition, acks=acks))
            await asyncio.sleep(4 * client.random.fraction() / rate)
            await story.rest()
        await producer.flush()
        await asyncio.gather(*waits)


async def write_in_transactions(
    story: Schedule, recorder: Recorder, client: SimulatedClient, partitions: list[Partition], name: str
) -> None:
    """Transactions over several partitions, one in four of which aborts, until the story ends."""
    async with client.producer(**transactional(name)) as producer:
        while not story.is_ending:
            number, transaction = recorder.begin(client.host)
            await producer.begin_transaction()
            waits = []
            for _ in range(1 + client.random.below(5)):
                partition = partitions[client.random.below(len(partitions))]
                waits.append(await send(recorder, producer, client.host, partition, transaction=transaction))
                await asyncio.sleep(0.05 * client.random.fraction())
            await end_transaction(recorder, producer, number, commit=client.random.below(4) > 0)
            await asyncio.gather(*waits)
            await asyncio.sleep(client.random.fraction())
            await story.rest()


def transactional(name: str) -> dict[str, Any]:
    return {
        "transactional_id": name,
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        **CONNECTING,
        "delivery_timeout_ms": TRANSACTION_TIMEOUT_MS - 1000,
        "linger_ms": 5,
        "max_block_ms": 30_000,
    }


async def end_transaction(recorder: Recorder, producer: Any, number: int, *, commit: bool) -> bool:
    """Commit or abort; a commit that fails is aborted. Returns whether it was committed."""
    if commit:
        recorder.committing(number)
        try:
            await producer.commit_transaction()
        except AbortableError as error:
            recorder.record_error(recorder.history.transactions[number].process, error)
        else:
            recorder.ended(number, Outcome.OK)
            return True
    await producer.abort_transaction()
    recorder.ended(number, Outcome.FAILED)
    return False
