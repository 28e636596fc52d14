"""kcat as a `Client`: what its command line supports, read back through a format with lengths."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from tests.interop import peers
from tests.interop.clients.messages import Message, Stored, chunks

_TIMEOUT_S = 60.0
_KEY_END = "\x1f"
_MESSAGE_END = "\x1e"


class KcatClient:
    name = "kcat"

    @staticmethod
    def refuses(message: Message) -> bool:
        """kcat sets no timestamps, writes null as the empty string, and takes headers as text."""
        key, value = message.key or b"", message.value or b""
        delimiters = any(mark.encode() in key + value for mark in (_KEY_END, _MESSAGE_END))
        headers_fit = all(
            name.isascii() and name and content and content.isalnum() for name, content in message.headers
        )
        return (
            message.timestamp_ms is not None
            or message.key is None
            or message.value is None
            or b"\0" in key + value
            or not key
            or not value
            or delimiters
            or not headers_fit
        )

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
        options = {
            "acks": acks,
            "enable.idempotence": str(idempotent).lower(),
            "message.max.bytes": "16000000",
            "compression.codec": codec,
            "reconnect.backoff.max.ms": "500",
            "linger.ms": "5",
        }
        settings = [part for name, value in options.items() for part in ("-X", f"{name}={value}")]
        # Headers belong to a run of kcat, so each stretch with the same headers is one run.
        count = 0

        def counted(stretch: Iterable[Message]) -> Iterator[Message]:
            nonlocal count
            for message in stretch:
                count += 1
                yield message

        for headers, stretch in groupby(messages, key=lambda message: message.headers):
            marks = [part for name, value in headers for part in ("-H", f"{name}={(value or b'').decode()}")]
            self._run_producer(bootstrap, topic, partition, settings + marks, counted(stretch))
        if on_acknowledged is not None:
            for index in range(count):
                on_acknowledged(index, -1)
        return [-1] * count

    def _run_producer(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        options: list[str],
        messages: Iterable[Message],
    ) -> None:
        command = [peers.kcat(), "-P", "-E", "-b", bootstrap, "-t", topic, "-p", str(partition), *options]
        command += ["-K", _KEY_END, "-D", _MESSAGE_END]
        with tempfile.TemporaryFile() as said:
            process = peers.start_process(command, stdin=subprocess.PIPE, stderr=said)
            try:
                assert process.stdin is not None
                for chunk in chunks(messages):
                    for message in chunk:
                        key, value = message.key or b"", message.value or b""
                        process.stdin.write(key + _KEY_END.encode() + value + _MESSAGE_END.encode())
                    process.stdin.flush()
                process.stdin.close()
                code = process.wait(_TIMEOUT_S)
            finally:
                peers.end_process(process)
            said.seek(0)
            assert code == 0, said.read().decode(errors="replace")

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        command = [peers.kcat(), "-C", "-b", bootstrap, "-t", topic, "-p", str(partition), "-q"]
        command += ["-o", str(offset), "-c", str(count), "-X", "check.crcs=true"]
        command += ["-X", "fetch.message.max.bytes=16000000", "-X", "fetch.max.bytes=64000000"]
        command += ["-f", "%o %T %K %S %h\\n%k%s"]
        output = self._run(command)
        stored: list[Stored] = []
        position = 0
        while position < len(output):
            line_end = output.index(b"\n", position)
            head = output[position:line_end].split(b" ", 4)
            key_size, value_size = int(head[2]), int(head[3])
            position = line_end + 1
            key = output[position : position + key_size] if key_size >= 0 else None
            position += max(key_size, 0)
            value = output[position : position + value_size] if value_size >= 0 else None
            position += max(value_size, 0)
            stored.append(Stored(int(head[0]), int(head[1]), -1, key, value, _headers(head[4])))
        assert len(stored) >= count, f"{len(stored)} of {count} records came"
        return stored

    @staticmethod
    def _run(command: list[str]) -> bytes:
        result = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
        assert result.returncode == 0, result.stderr.decode(errors="replace")
        return result.stdout


def _headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    if not text:
        return ()
    pairs = (part.split(b"=", 1) for part in text.split(b","))
    return tuple((name.decode(), None if value == b"NULL" else value) for name, value in pairs)
