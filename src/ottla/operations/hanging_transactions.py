"""Finds hanging transactions: open in a partition, and no coordinator will end them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.client.errors import ClientError
from ottla.operations import java_order
from ottla.operations.failure import Failure
from ottla.wire.errors import KafkaError, TransactionalIdNotFound

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.transactions import ProducerState, TransactionDescription
    from ottla.client.values import TopicPartition

T = TypeVar("T")

_BATCH = 500


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition."""

    partition: TopicPartition
    producer: ProducerState


def hanging_transactions(
    admin: Admin, partitions: list[TopicPartition], least_ms: int, broker: int | None = None
) -> list[OpenTransaction]:
    """The transactions that have been open for longer than a limit and that no coordinator will end."""
    found = _candidates(admin, partitions, broker, least_ms)
    return _hanging(admin, found) if found else []


def _candidates(
    admin: Admin, partitions: list[TopicPartition], broker: int | None, least_ms: int
) -> list[OpenTransaction]:
    found = []
    for batch in batches_of(partitions):
        try:
            producers = admin.describe_producers(batch, broker_id=broker).all()
        except (ClientError, KafkaError) as error:
            where = "Optional.empty" if broker is None else f"Optional[{broker}]"
            what = f"Failed to describe producers for {len(batch)} partitions on broker {where}"
            raise failure_of(what, error) from error
        at_ms = now_ms()
        found += [
            OpenTransaction(partition, one)
            for partition in java_order.map_order(producers, java_order.partition_hash)
            for one in producers[partition]
            if one.transaction_start_offset is not None and at_ms - one.last_timestamp > least_ms
        ]
    return found


def _hanging(admin: Admin, found: list[OpenTransaction]) -> list[OpenTransaction]:
    """The transactions whose coordinator does not know the producer or the partition, and so will not end
    them."""
    producer_ids = list(dict.fromkeys(one.producer.producer_id for one in found))
    try:
        listed = admin.list_transactions(producer_ids=producer_ids)
    except (ClientError, KafkaError) as error:
        raise failure_of(f"Failed to list transactions for {len(producer_ids)} producers", error) from error
    names = {one.producer_id: one.transactional_id for one in listed}
    described: dict[str, TransactionDescription | None] = {}
    results = admin.describe_transactions(sorted(set(names.values())))
    for name in names.values():
        try:
            described[name] = results.result(name)
        except TransactionalIdNotFound:
            described[name] = None
        except (ClientError, KafkaError) as error:
            raise failure_of(f"Failed to describe {len(names)} transactions", error) from error
    by_producer = sorted(found, key=lambda one: producer_ids.index(one.producer.producer_id))
    return [one for one in by_producer if not _is_under_way(one, names, described)]


def _is_under_way(
    one: OpenTransaction, names: dict[int, str], described: dict[str, TransactionDescription | None]
) -> bool:
    name = names.get(one.producer.producer_id)
    transaction = None if name is None else described[name]
    return transaction is not None and one.partition in transaction.partitions


def batches_of(items: list[T]) -> list[list[T]]:
    return [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]


def failure_of(what: str, error: Exception) -> Failure:
    cause = java_order.message_of(error).removesuffix(".")
    return Failure(f"{what}: {cause}. Enable debug logging for additional detail.")


def now_ms() -> int:
    return time.time_ns() // 1_000_000
