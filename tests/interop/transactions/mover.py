"""One instance of a read-process-write application, as its users write it with confluent-kafka.

Arguments: bootstrap, group, transactional id, topic to read, topic to write, a file. It reads records, writes
each to the partition that it came from in the other topic, and commits both with its offsets in one
transaction. It ends when its standard input is closed, or when the client says that it must. It touches the
file to show that it is alive, and on SIGUSR1 it says where it is.
"""

from __future__ import annotations

import faulthandler
import select
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

BATCH = 200
ENDED_BY_FENCING = 3


def main(bootstrap: str, group: str, transactional_id: str, source: str, sink: str, alive: str) -> int:
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 10_000,
            "linger.ms": 2,
            "reconnect.backoff.max.ms": 200,
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 500,
            "partition.assignment.strategy": "cooperative-sticky",
            "reconnect.backoff.max.ms": 200,
        }
    )
    try:
        producer.init_transactions(60)
        consumer.subscribe([source])
        while not _is_told_to_end():
            Path(alive).touch()
            _move(consumer, producer, sink)
    except KafkaException as error:
        print(f"ended: {error}", file=sys.stderr, flush=True)
        return ENDED_BY_FENCING if error.args[0].fatal() else 1
    consumer.close()
    return 0


def _move(consumer: Consumer, producer: Producer, sink: str) -> None:
    messages = [message for message in consumer.consume(BATCH, timeout=0.2) if message.error() is None]
    if not messages:
        return
    producer.begin_transaction()
    try:
        for message in messages:
            producer.produce(sink, value=message.value(), key=message.key(), partition=message.partition())
            producer.poll(0)
        ends: dict[tuple[str, int], int] = {}
        for message in messages:
            ends[message.topic(), message.partition()] = message.offset() + 1
        offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]
        _send_offsets(consumer, producer, offsets)
        _commit(producer)
    except KafkaException as error:
        reason = error.args[0]
        if reason.fatal():
            raise
        print(f"aborted: {reason}", file=sys.stderr, flush=True)
        _abort(producer)
        _rewind(consumer)


def _send_offsets(consumer: Consumer, producer: Producer, offsets: Sequence[TopicPartition]) -> None:
    producer.send_offsets_to_transaction(list(offsets), consumer.consumer_group_metadata(), 30)


def _commit(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _abort(producer: Producer) -> None:
    while True:
        try:
            producer.abort_transaction(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _rewind(consumer: Consumer) -> None:
    """Read again what the aborted transaction had read."""
    while True:
        try:
            committed = consumer.committed(consumer.assignment(), timeout=10)
        except KafkaException:
            continue
        for place in committed:
            if place.offset < 0:
                place.offset = -2  # the beginning
            try:
                consumer.seek(place)
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:  # it was taken away meanwhile
                    raise
        return


def _is_told_to_end() -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
