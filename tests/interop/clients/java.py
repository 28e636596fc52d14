"""Kafka's Java client as a `Client`, through one JVM that answers JSON lines (`ClientAgent.java`)."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.interop import peers
from tests.interop.clients.messages import Message, Stored, chunks

_SOURCES = Path(__file__).parent / "java"
_TIMEOUT_S = 60.0


class JavaFailure(Exception):
    """An exception of the Java client: `code` is Kafka's error code (-1 when it has none)."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"{answer['error']}: {answer['message']}")
        self.code = int(answer["code"])
        self.error = str(answer["error"])


class Agent:
    """The JVM. `ask` sends a request and waits for its answer."""

    def __init__(self) -> None:
        classes = peers.javac_compile(sorted(_SOURCES.glob("*.java")))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = peers.start_process(
            peers.java_command("ClientAgent", classes=classes, log_level="warn"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def ask(self, request: dict[str, Any], heard: Callable[[dict[str, Any]], None] | None = None) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        while True:
            line = self._process.stdout.readline()
            if not line:
                self._log.seek(0)
                raise AssertionError("the Java agent ended:\n" + self._log.read().decode(errors="replace"))
            answer = json.loads(line)
            if "acknowledged" in answer:
                if heard is not None:
                    heard(answer)
                continue
            if "error" in answer:
                raise JavaFailure(answer)
            return answer

    def close(self) -> None:
        peers.end_process(self._process)
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            if pipe is not None:
                pipe.close()


_agent: Agent | None = None


def agent() -> Agent:
    """The one JVM of this test run, started when it is first needed."""
    global _agent
    if _agent is None:
        _agent = Agent()
    return _agent


def close_agent() -> None:
    global _agent
    if _agent is not None:
        _agent.close()
        _agent = None


class JavaClient:
    name = "java"

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
        def heard(answer: dict[str, Any]) -> None:
            if on_acknowledged is not None:
                on_acknowledged(answer["acknowledged"], answer["offset"])

        agent().ask(
            {
                "op": "open_producer",
                "bootstrap": bootstrap,
                "stream": on_acknowledged is not None,
                "config": {
                    "compression.type": codec,
                    "acks": acks,
                    "enable.idempotence": str(idempotent).lower(),
                    "max.request.size": "16000000",
                    "delivery.timeout.ms": str(int(_TIMEOUT_S * 1000)),
                    "reconnect.backoff.max.ms": "500",
                    "linger.ms": "5",
                },
            }
        )
        for chunk in chunks(messages):
            rows = [
                {
                    "key": _text(message.key),
                    "value": _text(message.value),
                    "headers": [[name, _text(value)] for name, value in message.headers],
                    "timestamp": message.timestamp_ms,
                }
                for message in chunk
            ]
            agent().ask({"op": "send", "topic": topic, "partition": partition, "messages": rows}, heard)
        answer = agent().ask({"op": "close_producer"}, heard)
        return [int(offset) for offset in answer["offsets"]]

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        answer = agent().ask(
            {
                "op": "consume",
                "bootstrap": bootstrap,
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "count": count,
                "timeout_ms": int(_TIMEOUT_S * 1000),
                "config": {"auto.offset.reset": "none", "max.partition.fetch.bytes": "16000000"},
            }
        )
        stored = [
            Stored(at, time, kind, _bytes(key), _bytes(value), tuple((n, _bytes(v)) for n, v in headers))
            for at, time, kind, key, value, headers in answer["records"]
        ]
        assert len(stored) >= count, f"{len(stored)} of {count} records came"
        return stored


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
