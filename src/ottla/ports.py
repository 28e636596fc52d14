"""The seams between Ottla and the world: Clock, Random, Disk, Network.

Everything from outside comes through one of these, so that the same code runs on a real machine
(`ottla.host` fills the ports there) and in a simulation where a seed decides what time, disks and
networks do. Code that reads the time, a random number, a file or a socket takes a port as argument;
it never reaches for `time`, `random`, `os` or `socket` itself.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from ssl import SSLContext
from typing import Any, Protocol, TypeAlias, TypeVar

Buffer: TypeAlias = bytes | bytearray | memoryview

_T = TypeVar("_T")

OUT_OF_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""Errors of a `Disk` that say nothing of what lies there: the process or the system has too much open."""
DISK_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
PASSING = OUT_OF_RESOURCES | DISK_FULL
"""Errors that say nothing about the disk's health: what met one may be tried again later."""


class NameNotFound(OSError):
    """No address is known for the name of a host."""


class Clock(Protocol):
    """Two readings of time. Timestamps come from `now_ms`, durations and deadlines from `monotonic`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970: may jump and go back."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; its zero means nothing."""


class Random(Protocol):
    """The only source of randomness."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""

    def below(self, bound: int) -> int:
        """A whole number from 0 up to, but not including, `bound`."""

    def fraction(self) -> float:
        """A number from 0.0 up to, but not including, 1.0."""


class File(Protocol):
    """One open file, read and written by position. Errors are OSError, as the system raises them."""

    path: str

    def pread(self, count: int, position: int) -> bytes:
        """Up to `count` bytes from `position`: fewer only at the end of the file."""

    def pwrite(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all of `buffers`, one after the other, from `position` on; the count of bytes written.

        Either everything is written or an OSError is raised (what reached the file is then unknown).
        """

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None:
        """Block until what was written is on stable storage. Call it through `Disk.offload`."""

    def send_to(self, socket: int, position: int, count: int) -> int:
        """Have the system send up to `count` bytes to a socket; the count that it took.

        BlockingIOError where it takes none now. Only for sockets of this machine: see `Connection`.
        """

    def fileno(self) -> int:
        """The file's descriptor, or -1 where there is none (a simulated file)."""

    def park(self) -> bool:
        """Give the descriptor back; the next use opens `path` again. False: it is held.

        Whoever parks a file keeps its `path` up to date, or closes it. A file can be weakly referenced.
        """

    def hold(self) -> None:
        """Keep the descriptor until as many calls of `release`: another thread is about to use it."""

    def release(self) -> None: ...

    def close(self) -> None:
        """Every later use fails. The descriptor goes with the last `release` where it is held."""


class MappedFile(Protocol):
    """A file mapped into memory: `view` reads and writes it in place."""

    path: str
    view: memoryview

    def flush(self) -> None:
        """Block until the mapped bytes are on stable storage. Call it through `Disk.offload`."""

    def close(self, trim_to: int | None = None) -> None:
        """Unmap; with `trim_to` the file keeps that many bytes. Release slices of `view` before."""


class Disk(Protocol):
    """File systems. Paths are absolute strings."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> File:
        """Open to read and write. `create` makes a missing file; `exclusive` refuses an existing one."""

    def map(self, path: str, size: int) -> MappedFile:
        """Map the first `size` bytes, growing the file with zeros to that size if it is smaller."""

    def read(self, path: str) -> bytes:
        """The whole of a small file."""

    def replace(self, path: str, content: Buffer, *, sync: bool = True, private: bool = False) -> None:
        """Write a small file atomically: temporary name, fsync, rename, fsync of the directory.

        `private`: only its owner may read it.
        """

    def list(self, path: str) -> list[str]:
        """The sorted names in a directory."""

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Make a file as old as what it replaces."""

    def make_directory(self, path: str, *, private: bool = False) -> None:
        """Make it and its missing parents; no error if it is there. `private`: its owner's alone, if new."""

    def rename(self, old: str, new: str) -> None:
        """Atomic rename, replacing `new`."""

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is missing."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds; no error if it is missing."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in this directory durable. Blocks."""

    def space(self, path: str) -> tuple[int, int]:
        """(total bytes, usable bytes) of the file system that holds `path`."""

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file, made if missing, for this process alone. The release; None if it is taken."""

    def open_files_max(self) -> int:
        """How many files this process may have open, sockets too."""

    def offload(self, work: Callable[..., _T], *arguments: Any) -> Awaitable[_T]:
        """Run blocking work (fsync, recovery, cleaning) off the event loop."""

    def offload_urgent(self, work: Callable[..., _T], *arguments: Any) -> Awaitable[_T]:
        """The same for the few short writes that the cluster waits for: they queue behind no other work."""


class Network(Protocol):
    """Stream connections, in asyncio's terms of protocols and transports."""

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, backlog: int = 50
    ) -> asyncio.AbstractServer:
        """Bind; `start_serving` of the result begins to accept. Port 0: a free one. No host: all of them."""

    async def connect(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl: SSLContext | None = None,
        server_hostname: str | None = None,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection or raise OSError; NameNotFound where the host's name has no address.

        With `ssl` the TLS handshake is part of it, for `server_hostname` (by default `host`). A buffer size
        below zero leaves the choice to the system.
        """
