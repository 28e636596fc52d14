"""One node as a child process, tied to this one: if this process ends in whatever way, so does the node.

Both ends of a socket pair are the tie. The child's standard input is one: it writes a byte there when it
serves, and stops when the other end is closed, which the system does when this process is gone.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from ottla.cluster.layout import ClusterError, NodeFiles
from ottla.config.environment import setting_name

STOP_SECONDS_MAX = 60.0
_LAST_WORDS_CHARACTERS = 3000


class NodeProcess:
    """A node that was started. It is over when `exit_code` is a number; make another one then."""

    def __init__(self, files: NodeFiles) -> None:
        self.files = files
        self.is_ready = False
        self._tie, theirs = socket.socketpair()
        self._tie.setblocking(False)
        with theirs, files.log.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cluster.child", str(files.properties)],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                process_group=0,  # a Ctrl-C is for the supervisor, which stops nodes in its own way
            )

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def look(self) -> bool:
        """Whether it serves by now."""
        if not self.is_ready:
            try:
                self.is_ready = self._tie.recv(1) == b"r"
            except BlockingIOError:
                return False
        return self.is_ready

    def fileno(self) -> int:
        """For select: readable when it serves or has ended."""
        return self._tie.fileno()

    def last_words(self) -> str:
        """What this process has logged, the end of it."""
        with self.files.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")[-_LAST_WORDS_CHARACTERS:]

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def wait(self, timeout_seconds: float = STOP_SECONDS_MAX) -> int:
        """The exit code, once it has ended. One that does not end in time is killed, and that is an error."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise ClusterError(
                f"Node {self.files.node_id} did not stop in {timeout_seconds:.0f} seconds and was killed: "
                f"see {self.files.log}."
            ) from None
        finally:
            self.kill()

    def kill(self) -> None:
        """As kill -9. Nothing happens to one that has ended."""
        self._process.kill()
        self._process.wait()
        self._tie.close()


def _environment() -> dict[str, str]:
    """This process's environment without settings: the file of a node says what it is."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if setting_name(name) is None and name != "CLUSTER_ID"
    }
    source = str(Path(__file__).resolve().parents[2])
    paths = [path for path in kept.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths if source in paths else [source, *paths])}
