"""The ports on a real machine: the only module that uses time, randomness, files and sockets."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import mmap
import os
import resource
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ssl import SSLContext
from typing import Any, TypeVar, TypeVarTuple

from ottla.ports import Buffer, NameNotFound

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
OWNER_ONLY, OWNER_ONLY_DIRECTORY = 0o600, 0o700  # files hold records and credentials: for no other user
_VECTORS_MAX = 512  # below IOV_MAX (1024 on Linux)
_locked: set[str] = set()


class HostClock:
    """The time of this machine."""

    now_ns = staticmethod(time.time_ns)
    now_ms = staticmethod(lambda: time.time_ns() // 1_000_000)
    monotonic = staticmethod(time.monotonic)


class HostRandom:
    """Random numbers from the kernel."""

    bytes = staticmethod(secrets.token_bytes)
    below = staticmethod(secrets.randbelow)

    def fraction(self) -> float:
        return secrets.randbits(53) / (1 << 53)


_PARKED = -2
_holding = threading.Lock()


class HostFile:
    """A file. A parked file has an invalid descriptor, so that its next use fails and only then reopens it:
    files in use pay nothing for parking."""

    __slots__ = ("__weakref__", "_descriptor", "_holds", "_to_close", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._holds = 0
        self._to_close = -1

    def __del__(self) -> None:
        # Without the lock, which this thread may hold: nobody else can reach the file any more.
        for descriptor in (self._descriptor, self._to_close):
            if descriptor >= 0:
                os.close(descriptor)

    def _reopen(self) -> None:
        """After an OSError: reopen a parked file. For any other file the error is raised again."""
        if self._descriptor != _PARKED:
            raise  # the error that the caller handles
        self._open()

    def _open(self) -> None:
        """Reopen a parked file, unless another thread has opened or closed it meanwhile."""
        descriptor = os.open(self.path, os.O_RDWR)
        with _holding:
            if self._descriptor == _PARKED:
                self._descriptor = descriptor
                return
        os.close(descriptor)

    def park(self) -> bool:
        with _holding:
            if self._holds:
                return False
            descriptor = self._descriptor
            if descriptor >= 0:
                self._descriptor = _PARKED
        if descriptor >= 0:
            os.close(descriptor)
        return True

    def hold(self) -> None:
        with _holding:
            self._holds += 1

    def release(self) -> None:
        with _holding:
            self._holds -= 1
            if self._holds or self._to_close < 0:
                return
            descriptor, self._to_close = self._to_close, -1
        os.close(descriptor)

    def pread(self, count: int, position: int) -> bytes:
        try:
            data = os.pread(self._descriptor, count, position)
        except OSError:
            self._reopen()
            data = os.pread(self._descriptor, count, position)
        if len(data) == count or not data:
            return data
        pieces = [data]
        missing = count - len(data)
        while missing:
            piece = os.pread(self._descriptor, missing, position + count - missing)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    def pwrite(self, buffers: Sequence[Buffer], position: int) -> int:
        if self._descriptor == _PARKED:
            self._open()
        if len(buffers) == 1:
            total = len(buffers[0])
            written = os.pwrite(self._descriptor, buffers[0], position)
            if written == total:
                return total
        else:
            total, written = sum(map(len, buffers)), 0
        if 1 < len(buffers) <= _VECTORS_MAX:
            written = os.pwritev(self._descriptor, buffers, position)
        while written < total:  # a short write, or more buffers than one call allows
            rest = memoryview(b"".join(buffers))[written:]
            written += os.pwrite(self._descriptor, rest, position + written)
        return total

    def size(self) -> int:
        try:
            return os.fstat(self._descriptor).st_size
        except OSError:
            self._reopen()
            return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        if self._descriptor == _PARKED:
            self._open()
        os.ftruncate(self._descriptor, size)

    def fsync(self) -> None:
        self.hold()
        try:
            if self._descriptor == _PARKED:
                self._open()
            os.fsync(self._descriptor)
        finally:
            self.release()

    def send_to(self, socket: int, position: int, count: int) -> int:
        if self._descriptor == _PARKED:
            self._open()
        return os.sendfile(socket, self._descriptor, position, count)

    def fileno(self) -> int:
        return max(self._descriptor, -1)

    def close(self) -> None:
        """A held descriptor stays open until its release: its number must not become another file's while a
        thread uses it."""
        with _holding:
            descriptor, self._descriptor = self._descriptor, -1
            if self._holds and descriptor >= 0:
                self._to_close = descriptor
                return
        if descriptor >= 0:
            os.close(descriptor)


class HostMappedFile:
    __slots__ = ("_mapping", "path", "view")

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
        try:
            if os.fstat(descriptor).st_size < size:
                os.ftruncate(descriptor, size)
            self._mapping = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self.view = memoryview(self._mapping)

    def flush(self) -> None:
        self._mapping.flush()

    def close(self, trim_to: int | None = None) -> None:
        if self._mapping.closed:
            return
        self.view.release()
        self._mapping.close()
        if trim_to is not None:
            os.truncate(self.path, trim_to)


def map_for_reading(path: str | os.PathLike[str]) -> Buffer:
    """The bytes of a file.

    The mapping is never closed explicitly: that fails while a slice of it exists, and the traceback of an
    exception keeps slices alive. It is unmapped after the last slice.
    """
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _open_private(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, OWNER_ONLY)
    os.fchmod(descriptor, OWNER_ONLY)  # also if the file existed
    return descriptor


class HostDisk:
    """File systems of this machine, with a small thread pool for blocking work and another for urgent work: a
    vote must not wait for a flush of the metadata log, nor the flush for a vote."""

    def __init__(self, threads: int = 8) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="ottla-disk")
        self._urgent = ThreadPoolExecutor(2, thread_name_prefix="ottla-disk-urgent")

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> HostFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | (os.O_EXCL if exclusive else 0)
        return HostFile(path, os.open(path, flags, OWNER_ONLY))

    def map(self, path: str, size: int) -> HostMappedFile:
        return HostMappedFile(path, size)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, content: Buffer, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        with open(temporary, "wb", opener=_open_private) as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, mode=OWNER_ONLY_DIRECTORY, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space(self, path: str) -> tuple[int, int]:
        facts = os.statvfs(path)
        return facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize

    def lock(self, path: str) -> Callable[[], None] | None:
        # The system's lock, which a Kafka broker takes, too, does not separate two nodes of one process, and
        # closing any descriptor of the file would release it: hence the set.
        real = os.path.realpath(path)
        if real in _locked:
            return None
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        _locked.add(real)

        def release() -> None:
            _locked.discard(real)
            os.close(descriptor)

        return release

    def open_files_max(self) -> int:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return soft if soft != resource.RLIM_INFINITY else 1 << 30

    def offload(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    def offload_urgent(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        return asyncio.get_running_loop().run_in_executor(self._urgent, work, *arguments)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        self._urgent.shutdown(wait=True)


def trim_memory() -> None:
    """Return freed memory that the allocator keeps to the system, if the C library (glibc) can."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def raise_open_files_limit() -> None:
    """Raise the limit of open files to the hard limit, as a JVM does."""
    import resource

    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        if now != most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def freeze_startup_objects() -> None:
    """Exclude the objects of a freshly started process from garbage collection, since they live forever."""
    gc.collect()
    gc.freeze()


def _addresses(host: str) -> list[str]:
    """The addresses to connect to: normally the name itself, which asyncio resolves.

    asyncio resolves names in threads that `concurrent.futures` no longer starts once the main thread has
    ended, although other threads continue: in that case resolve the name here.
    """
    if threading.main_thread().is_alive():
        return [host]
    return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]


async def _connect(
    factory: Callable[[], asyncio.BaseProtocol], addresses: list[str], port: int, **more: Any
) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
    """Connect to the first of the addresses that accepts."""
    loop = asyncio.get_running_loop()
    for address in addresses[:-1]:
        with contextlib.suppress(OSError):
            return await loop.create_connection(factory, address, port, **more)
    return await loop.create_connection(factory, addresses[-1], port, **more)


class HostNetwork:
    """Sockets of this machine, on the running event loop."""

    async def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, *, backlog: int = 50
    ) -> asyncio.AbstractServer:
        loop = asyncio.get_running_loop()
        return await loop.create_server(factory, host or None, port, backlog=backlog, start_serving=False)

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
        if ssl is not None and server_hostname is None:
            server_hostname = host
        try:
            transport, protocol = await _connect(
                factory, _addresses(host), port, ssl=ssl, server_hostname=server_hostname
            )
        except socket.gaierror as error:
            raise NameNotFound(error.errno, f"{host}: {error.strerror}") from error
        except UnicodeError as error:  # an empty label, or one over 63 characters
            raise NameNotFound(socket.EAI_NONAME, f"{host}: {error}") from error
        plain = transport.get_extra_info("socket")
        for option, size in ((socket.SO_SNDBUF, send_buffer_bytes), (socket.SO_RCVBUF, receive_buffer_bytes)):
            if size >= 0 and plain is not None:
                plain.setsockopt(socket.SOL_SOCKET, option, size)
        return transport, protocol
