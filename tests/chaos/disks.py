"""Disks that fail: a small file system that can be filled, and strace, which has a system call fail.

Both need what not every machine gives: the right to mount (or namespaces of one's own), and strace with the
right to trace. What is missing skips a test with its reason, and fails it in CI.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.interop import peers

_FSYNC = re.compile(r"(?:fsync|fdatasync)\(\d+<(?P<path>[^>]*)>\)\s+= (?P<result>.*)")


# --- a file system of its own ------------------------------------------------------------------------


class SmallDisk:
    """A tmpfs of so many bytes. `fill` leaves no room, `make_room` gives it back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / ".ballast"

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Until the system says that there is no room left."""
        size = self._free_bytes() - leave_bytes
        with open(self._ballast, "ab", buffering=0) as ballast:
            while size > 0:
                try:
                    size -= ballast.write(bytes(min(size, 1 << 20)))
                except OSError:
                    return  # full: others write here too

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def _free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


def why_no_small_disk() -> str | None:
    """Why no file system can be mounted here, or nothing."""
    if os.geteuid() != 0:
        return "only root may mount a tmpfs: run these tests as root"
    if shutil.which("mount") is None or shutil.which("umount") is None:
        return "mount is missing: install the package mount"
    return None


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """A tmpfs at `path` until the end. Whoever has files open there must have ended by then."""
    reason = why_no_small_disk()
    if reason is not None:
        peers.peer_missing(reason)
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "ottla-chaos", str(path)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        peers.peer_missing(f"a tmpfs cannot be mounted here: {made.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)


# --- system calls that fail --------------------------------------------------------------------------


def strace() -> str:
    path = shutil.which("strace")
    if path is None:
        peers.peer_missing("strace is missing: install the package strace")
    return path


def failing(calls: Sequence[str], error: str, log: Path, paths: Iterable[Path] = ()) -> list[str]:
    """Words before a command: in its process these calls fail with `error`, where `paths` are given on
    these files alone. The process that is started is the command's own: strace watches from beside it."""
    named = ",".join(calls)
    words = [strace(), "-D", "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={named}", "-e", "signal=none"]
    words += ["-e", f"inject={named}:error={error}"]
    for path in paths:
        words += ["-P", str(path)]
    return words


@contextmanager
def attached(process_id: int, calls: Sequence[str], action: str, log: Path) -> Iterator[None]:
    """To these calls of a running process something is done until the end, such as `error=EIO`."""
    named = ",".join(calls)
    words = [strace(), "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={named}", "-e", "signal=none"]
    words += ["-e", f"inject={named}:{action}", "-p", str(process_id)]
    tracer = peers.start_process(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        tracer.terminate()  # it lets go of what it watches
        tracer.wait(60)
        peers.end_process(tracer)


def fsyncs(log: Path) -> list[tuple[str, bool]]:
    """(path, whether it worked) of each fsync in what strace wrote, in its order."""
    if not log.exists():
        return []
    found = _FSYNC.finditer(log.read_text(errors="replace"))
    return [(one["path"], one["result"].startswith("0")) for one in found]


# --- damage ------------------------------------------------------------------------------------------


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    """One bit of a file is another one, as a disk may give it back.

    Of a checkpoint, which is text without a checksum, a bit flips that makes no other digit of a digit: what
    says something else in its right form cannot be told from the truth.
    """
    if path.name.endswith("checkpoint"):
        bit = 6
    with open(path, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))
