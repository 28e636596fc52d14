"""The ports between Ottla and the outside world: Clock, Random, Disk, Network.

Everything from outside comes through one of these, so that the same code runs on a real machine (`ottla.host`
implements the ports) and in a simulation where a seed decides what time, disks and networks do. Code that
needs the time, a random number, a file or a socket takes a port as an argument; it never uses `time`,
`random`, `os` or `socket` itself.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from ssl import SSLContext
from typing import Protocol, TypeAlias, TypeVar, TypeVarTuple

Buffer: TypeAlias = bytes | bytearray | memoryview

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

OUT_OF_RESOURCES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))
"""Errors of a `Disk` that say nothing about its files: the process or the system has too many open."""
DISK_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
PASSING = OUT_OF_RESOURCES | DISK_FULL
"""Errors that say nothing about the disk's health: the operation may be retried later."""


class NameNotFound(OSError):
    """The host name has no known address."""


class Clock(Protocol):
    """Wall-clock and monotonic time: `now_ms` for timestamps, `monotonic` for durations and deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since 1970; may jump and go back."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; its zero is arbitrary."""


class Random(Protocol):
    """The only source of randomness."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes."""

    def below(self, bound: int) -> int:
        """A random integer with 0 <= n < `bound`."""

    def fraction(self) -> float:
        """A random number with 0.0 <= x < 1.0."""


class File(Protocol):
    """An open file, read and written by position. Errors are OSError, as the system raises them."""

    path: str

    def pread(self, count: int, position: int) -> bytes:
        """Read up to `count` bytes from `position`: fewer only at the end of the file."""

    def pwrite(self, buffers: Sequence[Buffer], position: int) -> int:
        """Write all `buffers`, one after the other, from `position` on; return the number of bytes.

        It writes everything or raises OSError (then the file's content is unknown).
        """

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None:
        """Block until the written data is on stable storage. Call it through `Disk.offload`."""

    def send_to(self, socket: int, position: int, count: int) -> int:
        """Let the system send up to `count` bytes to a socket; return the number sent.

        Raises BlockingIOError if the socket is full. Only for sockets of this machine: see `Connection`.
        """

    def fileno(self) -> int:
        """The file's descriptor, or -1 if it has none (a simulated file)."""

    def park(self) -> bool:
        """Release the descriptor; the next use opens `path` again. False if the descriptor is held.

        The caller must keep `path` up to date while the file is parked, or close it. Weak references to a
        file are possible.
        """

    def hold(self) -> None:
        """Keep the descriptor until as many calls of `release`: another thread is about to use it."""

    def release(self) -> None: ...

    def close(self) -> None:
        """Close: every later use fails. A held descriptor is closed at the last `release`."""


class MappedFile(Protocol):
    """A file mapped into memory: `view` reads and writes it in place."""

    path: str
    view: memoryview

    def flush(self) -> None:
        """Block until the mapped bytes are on stable storage. Call it through `Disk.offload`."""

    def close(self, trim_to: int | None = None) -> None:
        """Unmap; with `trim_to` truncate the file to that size. Release slices of `view` first."""


class Disk(Protocol):
    """File systems. Paths are absolute strings."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> File:
        """Open for reading and writing. `create` creates a missing file; `exclusive` fails for an existing
        one."""

    def map(self, path: str, size: int) -> MappedFile:
        """Map the first `size` bytes; a smaller file is first extended with zeros."""

    def read(self, path: str) -> bytes:
        """Read a small file completely."""

    def replace(self, path: str, content: Buffer, *, sync: bool = True) -> None:
        """Replace a small file atomically: temporary name, fsync, rename, fsync of the directory."""

    def list(self, path: str) -> list[str]:
        """The sorted names in a directory."""

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Give a file the age of the file that it replaces."""

    def make_directory(self, path: str) -> None:
        """Create it and its missing parents; no error if it exists."""

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing `new`."""

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is missing."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and its contents; no error if it is missing."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in this directory durable. Blocks."""

    def space(self, path: str) -> tuple[int, int]:
        """(total bytes, usable bytes) of the file system that holds `path`."""

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file, created if missing, for this process. Returns the release function; None if it is
        locked."""

    def open_files_max(self) -> int:
        """The limit on open files of this process, sockets included."""

    def offload(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        """Run blocking work (fsync, recovery, cleaning) off the event loop."""

    def offload_urgent(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        """The same for the few short writes that the cluster waits for: they do not queue behind other
        work."""


class Network(Protocol):
    """Stream connections, as asyncio's protocols and transports."""

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, backlog: int = 50
    ) -> asyncio.AbstractServer:
        """Bind; call `start_serving` of the result to accept. Port 0 picks a free one; no host binds all of
        them."""

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
        """Open a connection or raise OSError; NameNotFound if the host name has no address.

        With `ssl` it includes the TLS handshake, for `server_hostname` (by default `host`). A negative buffer
        size leaves the choice to the system.
        """
