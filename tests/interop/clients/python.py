"""kafka-python as a `Client`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.interop.clients.messages import Message, Stored

_TIMEOUT_S = 60.0


class PythonClient:
    name = "kafka-python"

    @staticmethod
    def refuses(message: Message) -> bool:
        nothing = message.key is None and message.value is None
        return nothing or any(value is None for _, value in message.headers)

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
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == "all" else int(acks),
            enable_idempotence=idempotent,
            max_request_size=16_000_000,
            reconnect_backoff_max_ms=500,
            linger_ms=5,
        )

        def told(index: int) -> Callable[[Any], None]:
            def tell(answer: Any) -> None:
                if on_acknowledged is not None:
                    on_acknowledged(index, answer.offset)

            return tell

        try:
            futures = []
            for index, message in enumerate(messages):
                future = producer.send(
                    topic,
                    message.value,
                    message.key,
                    list(message.headers),
                    partition,
                    message.timestamp_ms,
                )
                future.add_callback(told(index))
                futures.append(future)
            producer.flush(_TIMEOUT_S)
            return [future.get(_TIMEOUT_S).offset for future in futures]
        finally:
            producer.close(5)

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            auto_offset_reset="none",
            max_partition_fetch_bytes=16_000_000,
            check_crcs=True,
        )
        try:
            where = TopicPartition(topic, partition)
            consumer.assign([where])
            consumer.seek(where, offset)
            stored: list[Stored] = []
            deadline = time.monotonic() + _TIMEOUT_S
            while len(stored) < count and time.monotonic() < deadline:
                for record in consumer.poll(500, max_records=count - len(stored)).get(where, ()):
                    stored.append(
                        Stored(
                            record.offset,
                            record.timestamp,
                            record.timestamp_type,
                            record.key,
                            record.value,
                            tuple(record.headers),
                        )
                    )
            assert len(stored) >= count, f"{len(stored)} of {count} records came"
            return stored
        finally:
            consumer.close()
