"""A web handler that produces: a POST writes its body to a topic, and is answered once the record is safe.

An ASGI application without a framework; any ASGI server runs it: `uvicorn web_handler:app`. It has one
producer for its whole life, which puts what concurrent requests send into common batches.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from ottla import aio
from ottla.client.errors import ClientError
from ottla.wire.errors import KafkaError

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Application:
    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._producer: aio.Producer | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            status, answer = await self._produce(scope["path"], await _body(receive))
            headers = [(b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    async def _live(self, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "lifespan.startup"
        async with aio.Producer(self._bootstrap_servers, linger_ms=5) as self._producer:
            await send({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
        # At the end of the block, all pending records have been delivered.
        await send({"type": "lifespan.shutdown.complete"})

    async def _produce(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        assert self._producer is not None, "the server has not begun the application's life"
        try:
            delivery = await self._producer.send(self._topic, body, key=path.encode())
            report = await delivery
        except (ClientError, KafkaError) as error:
            return 503, {"error": str(error)}
        return 201, {"partition": report.partition, "offset": report.offset}


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


app = Application(os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"), os.environ.get("TOPIC", "orders"))
