"""confluent-kafka (librdkafka) as a `Client`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.interop.clients.messages import Message, Stored

_TIMEOUT_S = 60.0


class ConfluentClient:
    name = "confluent"

    @staticmethod
    def refuses(message: Message) -> bool:
        return False

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Iterable[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        on_acknowledged: Callable[[int, int], None] | None = None,
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": 16_000_000,
                "reconnect.backoff.max.ms": 500,
                "linger.ms": 5,
            }
        )
        offsets: list[int] = []
        failures: list[str] = []

        def delivered(index: int) -> Callable[[Any, Any], None]:
            def report(error: Any, message: Any) -> None:
                if error is not None:
                    failures.append(f"message {index}: {error}")
                    return
                offsets[index] = message.offset() if acks != "0" else -1
                if on_acknowledged is not None:
                    on_acknowledged(index, offsets[index])

            return report

        for index, message in enumerate(messages):
            offsets.append(-1)
            producer.produce(
                topic,
                message.value,
                message.key,
                partition,
                on_delivery=delivered(index),
                timestamp=message.timestamp_ms or 0,  # 0 asks librdkafka for its own clock
                headers=list(message.headers),
            )
            producer.poll(0)
        left = producer.flush(_TIMEOUT_S)
        assert not failures, failures[:5]
        assert not left, f"{left} messages were not delivered"
        return offsets

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.max.bytes": 64_000_000,
                "fetch.message.max.bytes": 16_000_000,
                "check.crcs": True,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            stored: list[Stored] = []
            deadline = time.monotonic() + _TIMEOUT_S
            while len(stored) < count and time.monotonic() < deadline:
                records: list[Any] = consumer.consume(min(count - len(stored), 10_000), 1.0)
                for record in records:
                    error = record.error()
                    if error is not None:
                        assert error.code() == KafkaError._PARTITION_EOF or error.retriable(), error
                        continue
                    kind, timestamp_ms = record.timestamp()
                    headers = tuple(record.headers() or ())
                    # librdkafka numbers the kinds from 1 and keeps 0 for "not available".
                    stored.append(
                        Stored(record.offset(), timestamp_ms, kind - 1, record.key(), record.value(), headers)
                    )
            assert len(stored) >= count, f"{len(stored)} of {count} records came"
            return stored
        finally:
            consumer.close()
