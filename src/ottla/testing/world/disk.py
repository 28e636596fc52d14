"""A simulated disk and its faults. It needs no world:

    disk = SimulatedDisk(random.Random(7))
    ...                                            # use it as any ottla.ports.Disk
    for state in crash_states(disk.storage):       # the possible states after a power loss now
        recover(SimulatedDisk(random.Random(8), storage=state))

`Storage` (see `storage.py`) is the content, which outlives programs; a `SimulatedDisk` is one program's
access to it and dies with it: after `die()` every call raises `Crashed`. Faults: `fail(...)` makes calls
raise OSError, `storage.quota_bytes` fills the disk, a failing fsync loses the pages as on Linux, `flip_bit`
damages a file, `delay_s` slows blocking work and `slow_call` any call, `crash_at` ends the program within its
n-th change from now.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, TypeVarTuple

from ottla.ports import Buffer
from ottla.testing.world.loop import Crashed
from ottla.testing.world.storage import (
    Change,
    Directory,
    Inode,
    Model,
    NameChange,
    Storage,
    crash_states,
    power_losses,
)

__all__ = [
    "Change",
    "Fault",
    "Model",
    "NameChange",
    "SimulatedDisk",
    "Storage",
    "crash_states",
    "power_losses",
]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_FREE_BYTES = 1 << 40
_DIRECTORY_BYTES = 4096
_OPEN_FILES_MAX = 64  # low, so that simulations reach the limit


@dataclass(slots=True)
class Fault:
    """Makes calls fail: `operation` is the name of a method ("pwrite", "fsync", "open", ...), or "*"."""

    operation: str
    path_part: str = ""
    error: int = errno.EIO
    probability: float = 1.0
    times: int | None = None
    """How often it happens; None: until it is removed."""


class SimulatedFile:
    """Implements `ottla.ports.File`."""

    __slots__ = ("__weakref__", "_disk", "_holds", "_inode", "_is_closed", "_is_parked", "path")

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode) -> None:
        self._holds = 0
        self._is_parked = False
        self.path = path
        self._disk = disk
        self._inode = inode
        self._is_closed = False

    def _check(self, operation: str) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self.path)
        if self._is_parked:
            self._inode = self._disk.find_file(self.path)
            self._is_parked = False
        self._disk.step(operation, self.path)

    def pread(self, count: int, position: int) -> bytes:
        self._check("pread")
        return bytes(memoryview(self._inode.content)[position : position + count])

    def pwrite(self, buffers: Sequence[Buffer], position: int) -> int:
        self._check("pwrite")
        data = b"".join(buffers)
        self._disk.store(self.path, self._inode, position, data)
        return len(data)

    def size(self) -> int:
        self._check("size")
        return len(self._inode.content)

    def truncate(self, size: int) -> None:
        self._check("truncate")
        self._disk.storage.truncate(self.path, self._inode, size)
        self._disk.touch(self._inode)

    def fsync(self) -> None:
        self._disk.sync(self.path, self._inode, self._check)

    def send_to(self, socket: int, position: int, count: int) -> int:
        raise OSError(errno.EINVAL, "a simulated file goes to no socket", self.path)

    def fileno(self) -> int:
        return -1

    def park(self) -> bool:
        self._is_parked = not self._holds
        return self._is_parked

    def hold(self) -> None:
        self._holds += 1

    def release(self) -> None:
        self._holds -= 1

    def close(self) -> None:
        self._is_closed = True


class SimulatedMappedFile:
    """Implements `ottla.ports.MappedFile`. Writes to the view reach the file at `flush` and `close`."""

    __slots__ = ("_before", "_bytes", "_disk", "_inode", "path", "view")

    def __init__(self, disk: SimulatedDisk, path: str, inode: Inode, size: int) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._bytes = bytearray(inode.content[:size])
        self._before = bytes(self._bytes)
        self.view = memoryview(self._bytes)
        inode.maps.append(self._bytes)

    def flush(self) -> None:
        self._disk.step("flush", self.path)
        self._write_changes()
        self._disk.sync(self.path, self._inode, None)

    def _write_changes(self) -> None:
        after = bytes(self._bytes)
        if after != self._before:
            current = bytes(self._inode.content[: len(after)])
            for start in range(0, len(after), 512):
                sector = after[start : start + 512]
                if sector != self._before[start : start + 512] and sector != current[start : start + 512]:
                    self._disk.storage.write(self.path, self._inode, start, sector)
            self._before = after

    def close(self, trim_to: int | None = None) -> None:
        maps = self._inode.maps
        if not any(one is self._bytes for one in maps):
            return
        self.view.release()
        self._disk.check_alive()
        self._write_changes()
        self._inode.maps = [one for one in maps if one is not self._bytes]
        if trim_to is not None:
            self._disk.storage.truncate(self.path, self._inode, trim_to)


class SimulatedDisk:
    """Implements `ottla.ports.Disk`."""

    def __init__(
        self,
        rng: random.Random,
        *,
        storage: Storage | None = None,
        model: Model = "posix",
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.storage = storage if storage is not None else Storage(model)
        self.faults: list[Fault] = []
        self.delay_s = (0.0001, 0.005)
        """The minimum and maximum duration of blocking work, in virtual seconds."""
        self.slow_call: Callable[[str, str], None] | None = None
        """Called with the operation and the path before each call."""
        self.crash_at: tuple[int, Callable[[], None]] | None = None
        """(n, call): the n-th change from now on calls `call`, which ends this program, and raises
        `Crashed`."""
        self.operations = 0
        self.is_dead = False
        self._chance = rng
        self._now_ms = now_ms
        self._locks: set[str] = set()

    # Faults

    def die(self) -> None:
        """Mark the program as dead."""
        self.is_dead = True

    def check_alive(self) -> None:
        if self.is_dead:
            raise Crashed

    def fail(
        self,
        operation: str,
        path_part: str = "",
        *,
        error: int = errno.EIO,
        probability: float = 1.0,
        times: int | None = None,
    ) -> Fault:
        """Make calls fail from now on; remove the fault from `faults` to end it."""
        fault = Fault(operation, path_part, error, probability, times)
        self.faults.append(fault)
        return fault

    def flip_bit(self, path: str, bit: int) -> None:
        """Damage a file, both on the disk and in the cache."""
        inode = self._inode(path)
        for content in (inode.content, inode.stable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << (bit % 8)

    def step(self, operation: str, path: str) -> None:
        """Called first by every operation."""
        if self.is_dead:
            raise Crashed
        self.operations += 1
        if self.slow_call is not None:
            self.slow_call(operation, path)
        if self.crash_at is not None and operation in _CHANGES:
            left, call = self.crash_at
            if left <= 1:
                self.crash_at = None
                call()
                raise Crashed
            self.crash_at = (left - 1, call)
        if self.faults:
            self._fault(operation, path)

    def _fault(self, operation: str, path: str) -> None:
        for fault in self.faults:
            if (
                fault.operation in ("*", operation)
                and fault.path_part in path
                and (fault.probability >= 1.0 or self._chance.random() < fault.probability)
            ):
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self.faults.remove(fault)
                raise OSError(fault.error, os.strerror(fault.error), path)

    def store(self, path: str, inode: Inode, position: int, data: bytes) -> None:
        """Write as much as the quota allows."""
        storage = self.storage
        growth = position + len(data) - len(inode.content)
        if storage.quota_bytes is not None and growth > 0:
            room = storage.quota_bytes - storage.used_bytes()
            if growth > room:
                fits = max(len(data) - (growth - max(room, 0)), 0)
                storage.write(path, inode, position, data[:fits])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        storage.write(path, inode, position, data)
        self.touch(inode)

    def touch(self, inode: Inode) -> None:
        inode.modified_ms = self._now_ms()

    def sync(self, path: str, inode: Inode, check: Callable[[str], None] | None) -> None:
        try:
            if check is not None:
                check("fsync")
        except OSError:
            self.storage.forget_unsynced(inode)
            raise
        self.storage.sync_file(inode)

    # Names

    def _find(self, path: str) -> Inode | Directory | None:
        node: Inode | Directory | None = self.storage.root
        for part in path.split("/"):
            if part:
                if node is None:
                    return None
                if isinstance(node, Inode):
                    raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
                node = node.entries.get(part)
        return node

    def _inode(self, path: str) -> Inode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        return node

    def _place(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rstrip("/").rpartition("/")
        return self._directory(parent), name

    def _create(self, path: str) -> Inode:
        directory, name = self._place(path)
        inode = Inode(self.storage.next_number(), directory.file_system)
        self.touch(inode)
        self.storage.rename_entries(f"create {path}", [(directory, name, inode)])
        return inode

    # The port

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> SimulatedFile:
        self.step("open", path)
        node = self._find(path)
        if node is None and create:
            self.step("create", path)
            node = self._create(path)
        elif exclusive:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        return SimulatedFile(
            self, path, self._inode(path) if node is None or isinstance(node, Directory) else node
        )

    def find_file(self, path: str) -> Inode:
        """The content of a parked file when it is opened again."""
        self.step("open", path)
        return self._inode(path)

    def map(self, path: str, size: int) -> SimulatedMappedFile:
        self.step("map", path)
        node = self._find(path)
        inode = self._create(path) if node is None else self._inode(path)
        if len(inode.content) < size:
            self.storage.truncate(path, inode, size)
        return SimulatedMappedFile(self, path, inode, size)

    def read(self, path: str) -> bytes:
        self.step("read", path)
        return bytes(self._inode(path).content)

    def replace(self, path: str, content: Buffer, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        if file.size():
            file.truncate(0)
        file.pwrite([content], 0)
        if sync:
            file.fsync()
        file.close()
        self.rename(temporary, path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def list(self, path: str) -> list[str]:
        self.step("list", path)
        return sorted(self._directory(path).entries)

    def exists(self, path: str) -> bool:
        self.step("exists", path)
        try:
            return self._find(path) is not None
        except NotADirectoryError:
            return False

    def is_directory(self, path: str) -> bool:
        self.step("is_directory", path)
        try:
            return isinstance(self._find(path), Directory)
        except NotADirectoryError:
            return False

    def size(self, path: str) -> int:
        self.step("size", path)
        node = self._find(path)
        return _DIRECTORY_BYTES if isinstance(node, Directory) else len(self._inode(path).content)

    def modified_ms(self, path: str) -> int:
        self.step("modified_ms", path)
        node = self._find(path)
        return 0 if isinstance(node, Directory) else self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.step("set_modified_ms", path)
        self._inode(path).modified_ms = modified_ms

    def make_directory(self, path: str) -> None:
        self.step("make_directory", path)
        node, so_far = self.storage.root, ""
        for part in path.split("/"):
            if not part:
                continue
            so_far += f"/{part}"
            found = node.entries.get(part)
            if found is None:
                made = Directory(self.storage.next_number(), node.file_system)
                self.storage.rename_entries(f"make directory {so_far}", [(node, part, made)])
                found = made
            if isinstance(found, Inode):
                raise FileExistsError(errno.EEXIST, "File exists", so_far)
            node = found

    def mount(self, path: str) -> None:
        """Create an empty directory that is a separate file system."""
        self.make_directory(path)
        self.storage.mount(self._directory(path))

    def rename(self, old: str, new: str) -> None:
        self.step("rename", old)
        node = self._find(old)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
        source, old_name = self._place(old)
        destination, new_name = self._place(new)
        target = destination.entries.get(new_name)
        if target is node:
            return
        if source.file_system != destination.file_system:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), new)
        if isinstance(node, Directory):
            if f"{new}/".startswith(f"{old}/"):
                raise OSError(errno.EINVAL, "Invalid argument", new)
            if isinstance(target, Inode):
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", new)
            if target is not None and target.entries:
                raise OSError(errno.ENOTEMPTY, "Directory not empty", new)
        elif isinstance(target, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", new)
        self.storage.rename_entries(
            f"rename {old} to {new}", [(source, old_name, None), (destination, new_name, node)]
        )

    def remove(self, path: str) -> None:
        self.step("remove", path)
        node = self._find(path)
        if node is None:
            return
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", path)
        directory, name = self._place(path)
        self.storage.rename_entries(f"remove {path}", [(directory, name, None)])

    def remove_tree(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
        if node is not None:
            for name in sorted(node.entries):
                if isinstance(node.entries[name], Directory):
                    self.remove_tree(f"{path}/{name}")
                else:
                    self.remove(f"{path}/{name}")
            self.step("remove", path)
            directory, own = self._place(path)
            self.storage.rename_entries(f"remove directory {path}", [(directory, own, None)])

    def sync_directory(self, path: str) -> None:
        self.step("sync_directory", path)
        self.storage.sync_directory(self._directory(path))

    def space(self, path: str) -> tuple[int, int]:
        self.step("space", path)
        quota = self.storage.quota_bytes
        if quota is None:
            return _FREE_BYTES, _FREE_BYTES
        return quota, max(quota - self.storage.used_bytes(), 0)

    def lock(self, path: str) -> Callable[[], None] | None:
        self.step("lock", path)
        if path in self._locks:
            return None
        self.open(path, create=True).close()
        self._locks.add(path)
        return lambda: self._locks.discard(path)

    def open_files_max(self) -> int:
        return _OPEN_FILES_MAX

    def offload(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        """Run the work at once after a delay; its result arrives after another delay."""
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_T] = loop.create_future()
        least, most = self.delay_s

        def run() -> None:
            if outcome.cancelled():
                return  # a thread pool would not have started it, either
            try:
                result = work(*arguments)
            except Crashed:
                raise
            except BaseException as error:  # noqa: BLE001 - passed to the waiting caller
                loop.call_later(self._wait(least, most), _complete, outcome, None, error)
            else:
                loop.call_later(self._wait(least, most), _complete, outcome, result, None)

        loop.call_later(self._wait(least, most), run)
        return outcome

    def offload_urgent(self, work: Callable[[*_Ts], _T], *arguments: *_Ts) -> Awaitable[_T]:
        return self.offload(work, *arguments)

    def _wait(self, least: float, most: float) -> float:
        return least + (most - least) * self._chance.random() ** 3

    def close(self) -> None:
        return


def _complete(outcome: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if outcome.done():
        return
    if error is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


_CHANGES = frozenset(
    {"pwrite", "truncate", "fsync", "create", "rename", "remove", "make_directory", "sync_directory", "flush"}
)
