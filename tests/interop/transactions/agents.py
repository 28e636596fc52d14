"""Unmodified transactional clients, each in a process that takes commands."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.interop import peers

HERE = Path(__file__).parent
ANSWER_SECONDS_MAX = 120


class Agent:
    """One client's process. `ask` sends a command and waits for the result."""

    def __init__(
        self,
        name: str,
        command: Callable[[], list[str]],
        *,
        has_offsets: bool = True,
        hangs_after: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.has_offsets = has_offsets
        self.hangs_after = hangs_after  # requests whose loss the client does not survive, with any broker
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        if self._process is None:
            self._process = peers.start_process(
                self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=peers.ROOT
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        is_ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS_MAX)
        line = self._process.stdout.readline() if is_ready else b""
        if not line:
            self.close()
            raise AssertionError(f"{self.name} did not answer {op} {arguments}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Pause the process, as on a machine that stalls."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        if self._process is not None:
            peers.end_process(self._process)
            self._process = None


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"tests.interop.transactions.{module}"]


def _java() -> list[str]:
    classes = peers.javac_compile([HERE / "java" / "TransactionAgent.java"])
    return peers.java_command("TransactionAgent", classes=classes)


AGENTS = [
    Agent("java", _java),
    # librdkafka 2.16 waits for ever in send_offsets_to_transaction if the answer to a Produce was lost before
    # and the group's coordinator is known already; beside Apache Kafka too.
    Agent("confluent", _python("confluent_agent"), hangs_after=frozenset({"Produce"})),
    Agent("aiokafka", _python("aio_agent")),
    Agent("franz-go", lambda: [str(peers.go_build(HERE / "go"))], has_offsets=False),
]
