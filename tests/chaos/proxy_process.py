"""Runs the proxies of `tests.interop.cluster.links` in a separate process.

The main process is busy with its clients: proxies in one of its threads would be late, and nodes would time
out. So every call goes to a child process as a line of JSON, and waits for the result. The child exits when
its standard input closes.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Any, Self

from tests.interop import peers
from tests.interop.cluster.links import Links


class ProxyProcess(Links):
    """`Links` in another process."""

    def __init__(self) -> None:
        self._process = peers.start_process(
            [sys.executable, "-m", "tests.chaos.proxy_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=peers.ROOT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        peers.end_process(self._process)
        self._process.stdout.close()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def _call(self, name: str, *arguments: object, **named: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"name": name, "arguments": arguments, "named": named}) + "\n"
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the proxies have ended"
        return json.loads(answer)

    def listen(self, node_id: int, port: int, *, source: int | None = None) -> int:
        return int(self._call("listen", node_id, port, source=source))

    def know(self, node_id: int, process_id: int) -> None:
        self._call("know", node_id, process_id)

    def cut(self, sources: Iterable[int], targets: Iterable[int]) -> None:
        self._call("cut", list(sources), list(targets))

    def heal(self, *, resets: bool = False) -> None:
        self._call("heal", resets=resets)

    def slow(self, some: Iterable[int], others: Iterable[int], seconds: float) -> None:
        self._call("slow", list(some), list(others), seconds)

    def tear(self, some: Iterable[int], others: Iterable[int]) -> None:
        self._call("tear", list(some), list(others))

    def reset(self, some: Iterable[int], others: Iterable[int]) -> None:
        self._call("reset", list(some), list(others))


def main() -> None:
    with Links() as links:
        for line in sys.stdin:
            asked = json.loads(line)
            found = getattr(links, asked["name"])(*asked["arguments"], **asked["named"])
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
