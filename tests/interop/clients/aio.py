"""aiokafka as a `Client`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.interop.clients.messages import Message, Stored, chunks

_TIMEOUT_S = 60.0


class AioClient:
    name = "aiokafka"

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
        async def send_all() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == "all" else int(acks),
                enable_idempotence=idempotent,
                max_request_size=16_000_000,
                request_timeout_ms=int(_TIMEOUT_S * 1000),
                linger_ms=5,
            )
            await producer.start()
            try:
                return await asyncio.wait_for(send_each(producer), _TIMEOUT_S)
            finally:
                await producer.stop()

        async def send_each(producer: AIOKafkaProducer) -> list[int]:
            async def wait(index: int, sent: asyncio.Future[object]) -> int:
                answer = await sent
                offset = -1 if answer is None else int(answer.offset)  # type: ignore[attr-defined]
                if on_acknowledged is not None:
                    on_acknowledged(index, offset)
                return offset

            waits: list[asyncio.Future[int]] = []
            source = chunks(messages)
            while chunk := await asyncio.to_thread(next, source, None):  # the messages may be long in coming
                for message in chunk:
                    sent = await producer.send(
                        topic,
                        message.value,
                        message.key,
                        partition,
                        timestamp_ms=message.timestamp_ms,
                        headers=list(message.headers),
                    )
                    waits.append(asyncio.ensure_future(wait(len(waits), sent)))
            return list(await asyncio.gather(*waits))

        return asyncio.run(send_all())

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        async def read_all() -> list[Stored]:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=bootstrap,
                group_id=None,
                auto_offset_reset="none",
                max_partition_fetch_bytes=16_000_000,
                check_crcs=True,
            )
            await consumer.start()
            try:
                where = TopicPartition(topic, partition)
                consumer.assign([where])
                consumer.seek(where, offset)
                stored: list[Stored] = []
                async with asyncio.timeout(_TIMEOUT_S):
                    while len(stored) < count:
                        batch = await consumer.getmany(timeout_ms=1000, max_records=count - len(stored))
                        for record in batch.get(where, ()):
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
                return stored
            finally:
                await consumer.stop()

        return asyncio.run(read_all())
