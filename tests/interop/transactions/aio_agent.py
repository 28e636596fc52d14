"""Transactions with aiokafka."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from tests.interop.transactions.lines import ATTEMPTS, CLIENT_ID, TRANSACTIONS, serve


def _producer(command: dict[str, Any], **settings: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=command["bootstrap"],
        client_id=CLIENT_ID,
        transactional_id=command["id"],
        retry_backoff_ms=20,
        request_timeout_ms=10_000,
        **settings,
    )


async def _started(command: dict[str, Any]) -> AIOKafkaProducer:
    """aiokafka gives up a start whose connection breaks: its users try again."""
    for _ in range(ATTEMPTS):
        producer = _producer(command)
        try:
            await producer.start()
            return producer
        except KafkaError:
            await producer.stop()
    raise TimeoutError("it did not start")


async def _flow(command: dict[str, Any]) -> dict[str, Any]:
    producer = await _started(command)
    attempts = 0
    try:
        for records, offset, is_commit in TRANSACTIONS:
            for _ in range(ATTEMPTS):
                attempts += 1
                is_ending = False
                try:
                    await producer.begin_transaction()
                    for partition, value in records:
                        await producer.send_and_wait(command["topic"], value.encode(), partition=partition)
                    if command["offsets"]:
                        offsets = {TopicPartition(command["source"], 0): offset}
                        await producer.send_offsets_to_transaction(offsets, command["group"])
                    is_ending = True
                    await (producer.commit_transaction() if is_commit else producer.abort_transaction())
                    break
                except KafkaError:
                    if is_ending:
                        raise  # nobody knows how it ended
                try:
                    await producer.abort_transaction()
                except (AssertionError, KafkaError):  # it is of no more use: the next one aborts what is open
                    await producer.stop()
                    producer = await _started(command)
    finally:
        await producer.stop()
    return {"attempts": attempts}


async def _fence(command: dict[str, Any]) -> dict[str, Any]:
    old, new = _producer(command), _producer(command)
    await old.start()
    try:
        await old.begin_transaction()
        await old.send_and_wait(command["topic"], b"of the old one", partition=0)
        await new.start()
        try:
            await old.commit_transaction()
        except KafkaError as error:
            return {"refused": type(error).__name__, "is_fatal": True}
        return {"refused": None}
    finally:
        await new.stop()
        await old.stop()


async def _overstay(command: dict[str, Any]) -> dict[str, Any]:
    producer = _producer(command, transaction_timeout_ms=1000)
    await producer.start()
    try:
        await producer.begin_transaction()
        await producer.send_and_wait(command["topic"], b"too late", partition=0)
        await asyncio.sleep(command["seconds"])
        try:
            await producer.commit_transaction()
        except KafkaError as error:
            return {"refused": type(error).__name__}
        return {"refused": None}
    finally:
        await producer.stop()


if __name__ == "__main__":
    serve(
        {
            "flow": lambda command: asyncio.run(_flow(command)),
            "fence": lambda command: asyncio.run(_fence(command)),
            "overstay": lambda command: asyncio.run(_overstay(command)),
        }
    )
