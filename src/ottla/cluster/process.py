"""One node as a child process that cannot outlive this one, however this process ends.

A socket pair connects them. The child's standard input is one end: the child writes a byte to it once it
serves, and stops when the other end is closed, which the system does when this process exits.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

from ottla.cluster.group import ClusterError, NodeStart
from ottla.config.environment import setting_name

STOP_SECONDS_MAX = 60.0
_LAST_WORDS_CHARACTERS = 3000


class NodeProcess:
    """A started node. Once `exit_code` is set, the process has ended; create another one to restart."""

    def __init__(self, start: NodeStart) -> None:
        self.start = start
        self.is_ready = False
        self._tie, theirs = socket.socketpair()
        self._tie.setblocking(False)
        with theirs, nullcontext() if start.log is None else start.log.open("ab") as log:
            self._log_start = 0 if log is None else log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cluster.child", *start.words],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=None if log is None else subprocess.STDOUT,
                env=_environment(with_settings=start.has_environment),
                process_group=0,  # a Ctrl-C is for the supervisor, which stops nodes in its own way
            )

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def look(self) -> bool:
        """Check for readiness; whether the node serves."""
        if not self.is_ready:
            try:
                self.is_ready = self._tie.recv(1) == b"r"
            except BlockingIOError:
                return False
        return self.is_ready

    def fileno(self) -> int:
        """For select: readable when the node serves or has exited."""
        return self._tie.fileno()

    def last_words(self) -> str:
        """The end of the log of this process, if it has a file of its own."""
        if self.start.log is None:
            return ""
        with self.start.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")[-_LAST_WORDS_CHARACTERS:]

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def wait(self, timeout_seconds: float = STOP_SECONDS_MAX) -> int:
        """Wait for the process to exit and return the exit code; on timeout, kill it and raise an error."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ClusterError(
                f"Node {self.start.node_id} did not stop in {timeout_seconds:.0f} seconds and was killed. "
                f"See {self.start.log_place}."
            ) from None
        finally:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL, unless the process has ended."""
        self._process.kill()
        self._process.wait()
        self._tie.close()


def _environment(*, with_settings: bool) -> dict[str, str]:
    """This process's environment, without settings if only a file configures the node."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if with_settings or (setting_name(name) is None and name != "CLUSTER_ID")
    }
    source = str(Path(__file__).resolve().parents[2])
    paths = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths if source in paths else [source, *paths])}
