"""A broker for tests, as a context manager: in this process, or in a child process that can be killed.

By default it listens on a free port of 127.0.0.1 and keeps its data in a temporary directory. It keeps its
port across `stop`, `kill` and `start`, so that clients can reconnect.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ottla.server.node import Node

STOP_SECONDS_MAX = 60


class BrokerFailed(RuntimeError):
    """The broker did not start, or died. The message ends with the last lines of its log."""


class Broker:
    """One node that is both controller and broker.

    `config` takes settings as in server.properties, for instance {"num.partitions": "3"}. With
    `in_process=False` the node is a child process, which starts a little more slowly and can be killed.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        in_process: bool = True,
        data_directory: str | Path | None = None,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._config = dict(config or {})
        self._environment = environment
        self._in_process = in_process
        self._is_temporary = data_directory is None
        self.data_directory = Path(data_directory or tempfile.mkdtemp(prefix="ottla-"))
        self.port = port
        self._run: _ThreadRun | _ChildRun | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._run is not None

    @property
    def process_id(self) -> int:
        """The id of the broker's child process."""
        if not isinstance(self._run, _ChildRun):
            raise BrokerFailed(
                "This broker is not a child process. Create it with in_process=False and start it."
            )
        return self._run.process.pid

    @property
    def log_text(self) -> str:
        """The log of a child process so far."""
        path = self.data_directory / "node.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> Self:
        """Start the broker; return when it serves clients."""
        if self._run is not None:
            return self
        if self._in_process:
            self._run = _ThreadRun(str(self.data_directory / "data"), self.port, self._config)
        else:
            self._run = _ChildRun(self.data_directory, self.port, self._config, self._environment)
        self.port = self._run.port
        return self

    def stop(self) -> None:
        """Stop it cleanly, as SIGTERM does."""
        run, self._run = self._run, None
        if run is not None:
            run.stop()

    def kill(self) -> None:
        """Kill the child process, as SIGKILL does."""
        run = self._run
        if not isinstance(run, _ChildRun):
            raise BrokerFailed("Only a child process can be killed. Create the broker with in_process=False.")
        self._run = None
        run.kill()

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stop it, and delete the data if it is temporary."""
        try:
            self.stop()
        finally:
            if self._is_temporary:
                shutil.rmtree(self.data_directory, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BrokerFailed as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # the error in the block is the more important one


class _ThreadRun:
    """A node on its own event loop, in a thread of this process."""

    def __init__(self, data_directory: str, port: int, config: Mapping[str, str]) -> None:
        self._arguments = (data_directory, port, dict(config))
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.port = port
        self._thread = threading.Thread(target=self._main, name="ottla-broker", daemon=True)
        self._thread.start()
        self._ready.wait()
        self._check("start")

    def _check(self, what: str) -> None:
        if self._failure is not None:
            raise BrokerFailed(f"The broker did not {what}: {self._failure}") from self._failure

    def _main(self) -> None:
        from ottla.server.node import run_loop

        try:
            run_loop(self._serve())
        except BaseException as error:  # noqa: BLE001 - passed to the thread that started this one
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        node = make_node(*self._arguments)
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        await node.start()
        self.port = node.port
        self._ready.set()
        await self._stop.wait()
        await node.stop()

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._check("stop cleanly")


class _ChildRun:
    """A node in a child process, which prints its port on standard output once it serves."""

    def __init__(
        self, directory: Path, port: int, config: Mapping[str, str], environment: Mapping[str, str] | None
    ) -> None:
        self._log_path = directory / "node.log"
        arguments = {"data_directory": str(directory / "data"), "port": port, "config": dict(config)}
        with self._log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ottla.testing.child", json.dumps(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(environment) if environment is not None else None,
            )
        output: IO[bytes] = self.process.stdout  # type: ignore[assignment]
        line = output.readline()
        if not line:
            self.process.wait()
            raise BrokerFailed(
                f"The broker did not start (exit code {self.process.returncode}): {self._log_tail()}"
            )
        self.port = int(json.loads(line)["port"])

    def _log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"The broker did not stop in time: {self._log_tail()}") from None
        self._close_output()
        if self.process.returncode != 0:
            raise BrokerFailed(f"The broker exited with code {self.process.returncode}: {self._log_tail()}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close_output()

    def _close_output(self) -> None:
        if self.process.stdout is not None:
            self.process.stdout.close()


def make_node(
    data_directory: str, port: int, config: Mapping[str, str], *, owns_process: bool = False
) -> Node:
    """A node for tests: the development settings, on 127.0.0.1."""
    from ottla.config import development_config
    from ottla.host import HostClock, HostDisk, HostNetwork, HostRandom, freeze_startup_objects
    from ottla.server.garbage_collector import GarbageCollector
    from ottla.server.node import Node

    clock = HostClock()
    settings = development_config(
        data_directory=data_directory, port=port, host="127.0.0.1", overrides=dict(config)
    )
    return Node(
        settings,
        clock=clock,
        random=HostRandom(),
        disk=HostDisk(),
        network=HostNetwork(),
        freeze_startup_objects=freeze_startup_objects,
        garbage=GarbageCollector(clock) if owns_process else None,
    )
