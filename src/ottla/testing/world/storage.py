"""The content of a simulated disk: the part that programs see, and the part that survives a power loss.

Programs see every change at once; a journal keeps it until a sync makes it stable. After a power loss the
stable content and any legal part of the journal remain:
- each sector (512 bytes) of a write survives or is lost by itself; a lost sector before a surviving one keeps
  its old content, or is zeros beyond the old end;
- `truncate` survives or is lost; writes to a file keep their order where they touch the same sector;
- changes of names (create, rename, remove, make a directory) each survive completely or not at all, and only
  if the earlier changes of the same names did.

Two models of the file system differ in the scope of a sync. "posix": a file's sync saves its bytes but not
its name; a directory's sync saves the names in it, but not its own. "journaled" (ext4, xfs): names reach the
disk in the order of the changes, and every sync includes all earlier ones. A host may have several file
systems (`mount`): there is no order between them, and no renames from one to another.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

SECTOR_BYTES = 512

Model = Literal["posix", "journaled"]


class Inode:
    """A file without its name. `content` is the part that programs see."""

    __slots__ = ("changes", "content", "file_system", "maps", "modified_ms", "number", "stable")

    def __init__(self, number: int, file_system: int = 0) -> None:
        self.number = number
        self.file_system = file_system
        self.content = bytearray()
        self.stable = bytearray()
        self.changes: list[Change] = []
        self.modified_ms = 0
        self.maps: list[bytearray] = []


class Directory:
    __slots__ = ("entries", "file_system", "number", "stable")

    def __init__(self, number: int, file_system: int = 0) -> None:
        self.number = number
        self.file_system = file_system
        self.entries: dict[str, Inode | Directory] = {}
        self.stable: dict[str, Inode | Directory] = {}


class Change:
    """A write (`data` at `position`) or, without data, a truncation to `position`."""

    __slots__ = ("data", "inode", "number", "path", "position")

    def __init__(self, number: int, path: str, inode: Inode, position: int, data: bytes | None) -> None:
        self.number = number
        self.path = path
        self.inode = inode
        self.position = position
        self.data = data

    @property
    def sectors(self) -> range:
        """The sectors of the file that it touches; a truncation is a single unit."""
        if self.data is None:
            return range(1)
        last = self.position + max(len(self.data), 1) - 1
        return range(self.position // SECTOR_BYTES, last // SECTOR_BYTES + 1)

    def __repr__(self) -> str:
        if self.data is None:
            return f"{self.number}: truncate {self.path} to {self.position}"
        return f"{self.number}: write {self.path} at {self.position}, {len(self.data)} bytes"


class NameChange:
    """A change of names: entries that are set or removed (None) together."""

    __slots__ = ("edits", "number", "text")

    def __init__(
        self, number: int, text: str, edits: list[tuple[Directory, str, Inode | Directory | None]]
    ) -> None:
        self.number = number
        self.text = text
        self.edits = edits

    @property
    def file_system(self) -> int:
        return self.edits[0][0].file_system

    def __repr__(self) -> str:
        return f"{self.number}: {self.text}"


class Storage:
    """The content of one host's disks. Programs access it through `SimulatedDisk`."""

    def __init__(self, model: Model = "posix") -> None:
        self.model = model
        self.root = Directory(0)
        self.quota_bytes: int | None = None
        self._name_changes: list[NameChange] = []
        self._number = 0
        self._unsynced: dict[int, Inode] = {}

    def mount(self, directory: Directory) -> None:
        """Turn an empty directory into the root of a separate file system."""
        assert not directory.entries, "only an empty directory can be a mount point"
        directory.file_system = self.next_number()

    # Changes

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def write(self, path: str, inode: Inode, position: int, data: bytes) -> None:
        if not data:
            return
        _apply(inode.content, position, data)
        for mapped in inode.maps:
            count = min(len(mapped) - position, len(data))
            if count > 0:
                mapped[position : position + count] = data[:count]
        self._note(Change(self.next_number(), path, inode, position, data))

    def truncate(self, path: str, inode: Inode, size: int) -> None:
        _apply(inode.content, size, None)
        self._note(Change(self.next_number(), path, inode, size, None))

    def _note(self, change: Change) -> None:
        change.inode.changes.append(change)
        self._unsynced[change.inode.number] = change.inode

    def rename_entries(self, text: str, edits: list[tuple[Directory, str, Inode | Directory | None]]) -> None:
        for directory, name, target in edits:
            if target is None:
                directory.entries.pop(name, None)
            else:
                directory.entries[name] = target
        self._name_changes.append(NameChange(self.next_number(), text, edits))

    # Making it stable

    def sync_file(self, inode: Inode) -> None:
        for change in inode.changes:
            _apply(inode.stable, change.position, change.data)
        inode.changes = []
        self._unsynced.pop(inode.number, None)
        if self.model == "journaled":
            self._sync_names(self._names_of(inode.file_system))

    def _names_of(self, file_system: int) -> list[NameChange]:
        return [naming for naming in self._name_changes if naming.file_system == file_system]

    def sync_directory(self, directory: Directory) -> None:
        if self.model == "journaled":
            self._sync_names(self._names_of(directory.file_system))
            return
        wanted: list[NameChange] = []
        names: set[tuple[int, str]] = set()
        for naming in reversed(self._name_changes):
            touched = {(one.number, name) for one, name, _ in naming.edits}
            if any(one is directory for one, _, _ in naming.edits) or touched & names:
                wanted.append(naming)
                names |= touched
        self._sync_names(wanted[::-1])

    def _sync_names(self, namings: list[NameChange]) -> None:
        for naming in namings:
            _rename(naming)
        done = {naming.number for naming in namings}
        self._name_changes = [naming for naming in self._name_changes if naming.number not in done]

    def sync_all(self) -> None:
        """As `sync` on the command line."""
        for inode in list(self._unsynced.values()):
            self.sync_file(inode)
        self._sync_names(self._name_changes)

    def forget_unsynced(self, inode: Inode) -> None:
        """As on Linux after a failed sync: the pages count as clean, and never reach the disk."""
        inode.changes = []
        self._unsynced.pop(inode.number, None)

    def write_back(self, rng: random.Random, probability: float = 0.5) -> None:
        """Write some files back to the disk, as an operating system does from time to time."""
        for inode in list(self._unsynced.values()):
            if rng.random() < probability:
                for change in inode.changes:
                    _apply(inode.stable, change.position, change.data)
                self.forget_unsynced(inode)
        if rng.random() < probability:
            self._sync_names(self._name_changes)

    # Losing power

    @property
    def pending(self) -> list[Change | NameChange]:
        """The changes that are not stable yet, in order."""
        changes: list[Change | NameChange] = [
            change for inode in self._unsynced.values() for change in inode.changes
        ]
        return sorted([*changes, *self._name_changes], key=lambda one: one.number)

    def is_legal(self, kept: Collection[int]) -> bool:
        """Whether exactly these pending changes of names (by number) may survive together."""
        lost: set[tuple[int, str]] = set()
        have_lost: set[int] = set()  # file systems
        for naming in self._name_changes:
            touched = {(one.number, name) for one, name, _ in naming.edits}
            if naming.number in kept:
                if touched & lost or (self.model == "journaled" and naming.file_system in have_lost):
                    return False
            else:
                lost |= touched
                have_lost.add(naming.file_system)
        return True

    def lose_power(self, kept: Collection[int], torn: Mapping[int, Collection[int]] | None = None) -> None:
        """Keep the pending changes with the numbers in `kept`; of those in `torn` keep only the given sectors
        (counted from the start of the file)."""
        torn = torn or {}
        for naming in self._name_changes:
            if naming.number in kept:
                _rename(naming)
        self._name_changes = []
        for inode in self._unsynced.values():
            for change in inode.changes:
                if change.number in torn and change.data is not None:
                    for sector in sorted(torn[change.number]):
                        _apply_sector(inode.stable, change, sector)
                elif change.number in kept:
                    _apply(inode.stable, change.position, change.data)
            inode.changes = []
        self._unsynced = {}
        self._forget_cache(self.root)

    def lose_power_randomly(self, rng: random.Random) -> None:
        """A random legal outcome. Some losses keep nothing, some keep all, most keep a part."""
        keep = rng.choice((0.0, 1.0, 0.2, 0.5, 0.8, 0.95))
        kept: set[int] = set()
        lost: set[tuple[int, str]] = set()
        have_lost: set[int] = set()  # file systems
        for naming in self._name_changes:
            touched = {(one.number, name) for one, name, _ in naming.edits}
            blocked = touched & lost or (self.model == "journaled" and naming.file_system in have_lost)
            if not blocked and rng.random() < keep:
                kept.add(naming.number)
            else:
                lost |= touched
                have_lost.add(naming.file_system)
        torn: dict[int, list[int]] = {}
        for inode in self._unsynced.values():
            for change in inode.changes:
                fate = rng.random()
                if fate < keep:
                    kept.add(change.number)
                elif fate < keep + (1 - keep) / 2 and change.data is not None:
                    torn[change.number] = [one for one in change.sectors if rng.random() < 0.5]
        self.lose_power(kept, torn)

    def _forget_cache(self, directory: Directory) -> None:
        directory.entries = dict(directory.stable)
        for node in directory.entries.values():
            if isinstance(node, Directory):
                self._forget_cache(node)
            else:
                node.content = bytearray(node.stable)
                node.maps = []

    # Inspection

    def used_bytes(self) -> int:
        return sum(len(inode.content) for inode in self._files(self.root, set()))

    def _files(self, directory: Directory, seen: set[int]) -> Iterator[Inode]:
        for node in directory.entries.values():
            if isinstance(node, Directory):
                yield from self._files(node, seen)
            elif node.number not in seen:
                seen.add(node.number)
                yield node

    def copy(self) -> Storage:
        """A copy with the same content and the same journal."""
        twin = Storage(self.model)
        twin.quota_bytes = self.quota_bytes
        twin._number = self._number
        twins: dict[int, Inode | Directory] = {}
        twin.root = self._twin(self.root, twins)  # type: ignore[assignment]
        for naming in self._name_changes:
            edits = [
                (self._twin(one, twins), name, None if target is None else self._twin(target, twins))
                for one, name, target in naming.edits
            ]
            twin._name_changes.append(NameChange(naming.number, naming.text, edits))  # type: ignore[arg-type]
        for inode in self._unsynced.values():
            copied = self._twin(inode, twins)
            assert isinstance(copied, Inode)
            twin._unsynced[copied.number] = copied
        return twin

    def _twin(self, node: Inode | Directory, twins: dict[int, Inode | Directory]) -> Inode | Directory:
        found = twins.get(node.number)
        if found is not None:
            return found
        if isinstance(node, Inode):
            inode = twins[node.number] = Inode(node.number, node.file_system)
            inode.content, inode.stable = bytearray(node.content), bytearray(node.stable)
            inode.modified_ms = node.modified_ms
            inode.changes = [
                Change(one.number, one.path, inode, one.position, one.data) for one in node.changes
            ]
            return inode
        directory = twins[node.number] = Directory(node.number, node.file_system)
        directory.entries = {name: self._twin(one, twins) for name, one in node.entries.items()}
        directory.stable = {name: self._twin(one, twins) for name, one in node.stable.items()}
        return directory


def _rename(naming: NameChange) -> None:
    for directory, name, target in naming.edits:
        if target is None:
            directory.stable.pop(name, None)
        else:
            directory.stable[name] = target


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    size = len(content)
    if data is None:
        if position < size:
            del content[position:]
        else:
            content.extend(bytes(position - size))
    elif position == size:
        content += data
    else:
        if position > size:
            content.extend(bytes(position - size))
        content[position : position + len(data)] = data


def _apply_sector(content: bytearray, change: Change, sector: int) -> None:
    assert change.data is not None
    start = max(sector * SECTOR_BYTES, change.position)
    end = min((sector + 1) * SECTOR_BYTES, change.position + len(change.data))
    if start < end:
        _apply(content, start, change.data[start - change.position : end - change.position])


@dataclass(frozen=True, slots=True)
class PowerLoss:
    """One outcome of a power loss: the pending changes in `kept` survive, and these sectors of torn ones."""

    storage: Storage
    kept: Collection[int]
    torn: Mapping[int, Collection[int]]

    def state(self) -> Storage:
        """The state after the loss, as an independent copy."""
        left = self.storage.copy()
        left.lose_power(self.kept, self.torn)
        return left


def crash_states(storage: Storage) -> Iterator[Storage]:
    """The states that a power loss may leave now: every prefix of the pending changes, every prefix with one
    earlier change lost, and every prefix whose last write is torn after each of its sectors, or before it.
    With several file systems, each may have reached a different prefix.

    All of them are legal in the storage's model. Each is an independent copy.
    """
    return (loss.state() for loss in power_losses(storage))


def power_losses(storage: Storage) -> Iterator[PowerLoss]:
    """The outcomes behind `crash_states`, for callers that need only some of them: copies take long."""
    return (loss for loss in _candidate_losses(storage) if storage.is_legal(loss.kept))


def _candidate_losses(storage: Storage) -> Iterator[PowerLoss]:
    pending = storage.pending
    numbers = [one.number for one in pending]
    for count in range(len(pending) + 1):
        kept = set(numbers[:count])
        yield PowerLoss(storage, kept, {})
        for missing in numbers[: max(count - 1, 0)]:
            yield PowerLoss(storage, kept - {missing}, {})
        last = pending[count - 1] if count else None
        if isinstance(last, Change) and last.data is not None and len(last.sectors) > 1:
            sectors = list(last.sectors)
            for cut in range(1, len(sectors)):
                yield PowerLoss(storage, kept, {last.number: sectors[:cut]})
                yield PowerLoss(storage, kept, {last.number: sectors[cut:]})
    yield from _losses_apart(storage, pending)


def numbers_by_file_system(storage: Storage) -> dict[int, list[int]]:
    """The numbers of the pending changes, in order."""
    numbers: dict[int, list[int]] = {}
    for one in storage.pending:
        place = one.inode.file_system if isinstance(one, Change) else one.file_system
        numbers.setdefault(place, []).append(one.number)
    return numbers


def _losses_apart(storage: Storage, pending: list[Change | NameChange]) -> Iterator[PowerLoss]:
    """Every combination of prefixes of several file systems, except those that are prefixes of all."""
    queues = list(numbers_by_file_system(storage).values())
    if len(queues) < 2:
        return
    for counts in product(*(range(len(numbers) + 1) for numbers in queues)):
        kept = {number for numbers, count in zip(queues, counts, strict=True) for number in numbers[:count]}
        lost = min((one.number for one in pending if one.number not in kept), default=None)
        if lost is not None and any(number > lost for number in kept):
            yield PowerLoss(storage, kept, {})
