"""Failing disks: a small file system that can be filled, and strace, which makes system calls fail.

Both need rights that some machines lack: mounting (or user namespaces), and strace with the right to trace.
Without them a test is skipped with the reason; in CI it fails.
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


# --- a small file system -------------------------------------------------------------------------------


class SmallDisk:
    """A tmpfs of limited size. `fill` uses up its space, `make_room` frees it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / ".ballast"

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Write until the disk is full, except for `leave_bytes`."""
        size = self._free_bytes() - leave_bytes
        with open(self._ballast, "ab", buffering=0) as ballast:
            while size > 0:
                try:
                    size -= ballast.write(bytes(min(size, 1 << 20)))
                except OSError:
                    return  # full: others write here, too

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def _free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize


def why_no_small_disk() -> str | None:
    """The reason why no file system can be mounted here, or nothing."""
    if os.geteuid() != 0:
        return "only root may mount a tmpfs: run these tests as root"
    if shutil.which("mount") is None or shutil.which("umount") is None:
        return "mount is missing: install the package mount"
    return None


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mount a tmpfs at `path` for the block. Processes with files open there must exit before its end."""
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
    """The command prefix that makes these calls fail with `error`, for the files in `paths` if given. The
    started process is the command itself: strace attaches to it from the side."""
    named = ",".join(calls)
    words = [strace(), "-D", "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={named}", "-e", "signal=none"]
    words += ["-e", f"inject={named}:error={error}"]
    for path in paths:
        words += ["-P", str(path)]
    return words


@contextmanager
def attached(process_id: int, calls: Sequence[str], action: str, log: Path) -> Iterator[None]:
    """Tamper with these calls of a running process until the end of the block, for example `error=EIO`."""
    named = ",".join(calls)
    words = [strace(), "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={named}", "-e", "signal=none"]
    words += ["-e", f"inject={named}:{action}", "-p", str(process_id)]
    tracer = peers.start_process(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        tracer.terminate()  # it detaches from the process
        tracer.wait(60)
        peers.end_process(tracer)


def fsyncs(log: Path) -> list[tuple[str, bool]]:
    """(path, success) of each fsync in strace's output, in order."""
    if not log.exists():
        return []
    found = _FSYNC.finditer(log.read_text(errors="replace"))
    return [(one["path"], one["result"].startswith("0")) for one in found]


# --- damage ------------------------------------------------------------------------------------------


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    """Flip one bit of a file, as a faulty disk might.

    In a checkpoint, which is text without a checksum, the bit does not turn a digit into another digit, since
    nobody could detect that.
    """
    if path.name.endswith("checkpoint"):
        bit = 6
    with open(path, "r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))
