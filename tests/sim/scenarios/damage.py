"""Corrupt or full disks: bits that flip in files at rest, and no space for one kind of file.

After a flip a node must serve correct data or refuse: it never serves anything that was not written. A node
with damaged records gets a new disk at the end, as an operator would do, and replicates everything from the
others.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from ottla.records.batch import iterate_headers
from ottla.testing.world.disk import SimulatedDisk
from ottla.testing.world.nemesis import Nemesis
from ottla.testing.world.process import ProcessDied
from ottla.testing.world.storage import Directory, Inode, Storage
from tests.sim.scenarios.hosts import others_have_all
from tests.sim.scenarios.targets import leader_of

if TYPE_CHECKING:
    from ottla.testing.world import SimulatedNode
    from tests.sim.workload.story import Story

_METADATA = "__cluster_metadata-0"
_START_S = 20.0
_UNDER_CRC = 17
"""The offset in a batch where its checksum's coverage begins: the checksum itself first. In Kafka's format no
checksum covers the epoch and the base offset before it."""


def _is_data(path: str) -> bool:
    return _METADATA not in path


def _is_log(path: str) -> bool:
    return _is_data(path) and path.endswith(".log")


KINDS: dict[str, Callable[[str], bool]] = {
    "log": lambda path: _is_log(path),
    "index": lambda path: _is_data(path) and path.endswith((".index", ".timeindex", ".txnindex")),
    "producers": lambda path: _is_data(path) and path.endswith(".snapshot"),
    "epochs": lambda path: _is_data(path) and path.endswith("leader-epoch-checkpoint"),
    "metadata log": lambda path: not _is_data(path) and path.endswith(".log"),
    "metadata snapshot": lambda path: path.endswith(".checkpoint"),
}
_FLIPPED = "bit flipped in "
FLIPPED = tuple(_FLIPPED + kind for kind in KINDS)
_FLIPS = 4


def files(storage: Storage) -> Iterator[tuple[str, Inode]]:
    """All files of a disk, with their paths."""

    def walk(path: str, directory: Directory) -> Iterator[tuple[str, Inode]]:
        for name, found in sorted(directory.entries.items()):
            if isinstance(found, Directory):
                yield from walk(f"{path}/{name}", found)
            else:
                yield f"{path}/{name}", found

    yield from walk("", storage.root)


def _bit(rng: random.Random, path: str, inode: Inode) -> int | None:
    """The bit to flip; None if the file has none that matters."""
    content = bytes(inode.content)
    if not path.endswith(".log"):
        return int(rng.random() * len(content) * 8) if content else None
    batches = [(at, header.length_bytes) for at, header in iterate_headers(content)]
    if not batches:
        return None
    at, length = rng.choice(batches)
    return (at + _UNDER_CRC) * 8 + int(rng.random() * (length - _UNDER_CRC) * 8)


async def flip_a_bit_under_a_leader(story: Story, nemesis: Nemesis) -> None:
    """Flip a bit in a closed segment of a partition that a broker leads, while it serves readers."""
    world, rng = story.world, nemesis.rng
    topic, index = rng.choice(story.partitions)
    node = leader_of(world, topic, index)
    if node is None or node.config.is_controller or nemesis.pick_victim(node) is None:
        return
    mend = partial(_replace_disk, story, nemesis, node)
    try:
        logs = [
            (path, inode)
            for path, inode in files(node.storage)
            if f"/{topic}-{index}/" in path and _is_log(path)
        ]
        places = [(path, _bit(rng, path, inode)) for path, inode in logs[:-1]]
        hit = [(path, bit) for path, bit in places if bit is not None]
        if not hit or node.disk is None:
            return
        path, bit = rng.choice(hit)
        node.disk.flip_bit(path, bit)
        world.note(node.host, f"bit {bit} of {path} flips")
        nemesis.count("bit flipped under a leader")
        node.disk.slow_call = _reads(nemesis, {path: "log under a leader"})
        nemesis.repairs.append(mend)
        await nemesis.wait_duration()
        await mend()
        if mend in nemesis.repairs:
            nemesis.repairs.remove(mend)
    finally:
        if node.disk is not None:
            node.disk.slow_call = None
        nemesis.release(node)


async def flip_bits(story: Story, nemesis: Nemesis) -> None:
    """Flip bits in some files of a stopped broker, and start it."""
    world, rng = story.world, nemesis.rng
    brokers = [node for node in world.nodes.values() if node.is_broker and not node.config.is_controller]
    node = nemesis.pick_victim(rng.choice(brokers)) if brokers else None
    if node is None:
        return
    mend = partial(_replace_disk, story, nemesis, node)
    try:
        if rng.random() < 0.5:
            await node.stop()
        else:
            node.crash()
        flipped = dict(_flip(nemesis, node) for _ in range(_FLIPS))
        nemesis.repairs.append(mend)
        await _start(nemesis, node, _reads(nemesis, flipped))
        await nemesis.wait_duration()
        await mend()
        if mend in nemesis.repairs:
            nemesis.repairs.remove(mend)
    finally:
        if node.disk is not None:
            node.disk.slow_call = None
        nemesis.release(node)


def _flip(nemesis: Nemesis, node: SimulatedNode) -> tuple[str, str]:
    """Flip a bit of one file, of the least frequently hit kind; return its path and kind."""
    rng = nemesis.rng
    effect = nemesis.least_frequent(FLIPPED)
    kind = effect.removeprefix(_FLIPPED)
    found = [(path, inode) for path, inode in files(node.storage) if KINDS[kind](path)]
    rng.shuffle(found)
    for path, inode in found:
        bit = _bit(rng, path, inode)
        if bit is not None:
            SimulatedDisk(rng, storage=node.storage).flip_bit(path, bit)
            nemesis.world.note(node.host, f"bit {bit} of {path} flips")
            nemesis.count(effect)
            return path, kind
    return "", kind


def _reads(nemesis: Nemesis, flipped: dict[str, str]) -> Callable[[str, str], None]:
    def on_call(operation: str, path: str) -> None:
        if path in flipped and operation in ("pread", "read", "map"):
            nemesis.effects[f"damaged {flipped[path]} used"] = 1

    return on_call


async def _start(nemesis: Nemesis, node: SimulatedNode, on_call: Callable[[str, str], None]) -> None:
    """Start it; if its disk is too damaged, replace the disk."""
    starting = asyncio.ensure_future(node.start())
    await asyncio.sleep(0)
    if node.disk is not None:
        node.disk.slow_call = on_call
    try:
        await asyncio.wait_for(starting, _START_S)
    except (ProcessDied, TimeoutError):
        nemesis.count("refused to start")
        node.crash()
        node.wipe()
        await nemesis.start_until_serving(node)


async def _replace_disk(story: Story, nemesis: Nemesis, node: SimulatedNode) -> None:
    """Replace the disk, once no data is only on the old one."""
    while not others_have_all(story.world, node):
        await asyncio.sleep(0.5)
    node.crash()
    node.wipe()
    await nemesis.start_until_serving(node)


_FULL = {
    "records": ("pwrite", ".log"),
    "indexes": ("map", "index"),
    "metadata": ("pwrite", _METADATA),
    "checkpoints": ("pwrite", "checkpoint"),
    "everything": ("*", ""),
}
FULL = tuple(f"no room for {kind}" for kind in _FULL)


async def fill_for_one_kind(story: Story, nemesis: Nemesis) -> None:
    """Fill the disk for records, for indexes, or for metadata, and free it later."""
    world, rng = story.world, nemesis.rng
    node = nemesis.pick_victim()
    if node is None:
        return
    effect = nemesis.least_frequent([f"no room for {kind}" for kind in _FULL])
    kind = effect.removeprefix("no room for ")
    operation, part = _FULL[kind]
    disk = node.disk
    try:
        if disk is not None and kind == "everything":
            node.storage.quota_bytes = node.storage.used_bytes() + int(rng.random() * 10_000)
        elif disk is not None:
            disk.fail(operation, part, error=errno.ENOSPC, probability=rng.choice((0.1, 1.0)))
        world.note(node.host, f"has no room for {kind}")
        await nemesis.wait_duration()
        nemesis.count(effect)
        node.storage.quota_bytes = None
        if node.disk is not None:
            node.disk.faults.clear()
        world.note(node.host, "has room again")
        await nemesis.start_until_serving(node)
        # An offline log directory returns only after a restart, as in Kafka.
        node.crash()
        await nemesis.start_until_serving(node)
    finally:
        node.storage.quota_bytes = None
        if node.disk is not None:
            node.disk.faults.clear()
        nemesis.release(node)


async def fail_syncs(story: Story, nemesis: Nemesis) -> None:
    """Syncs fail and drop the data. Then the host reboots, as an operator would do."""
    node = nemesis.pick_victim()
    if node is None:
        return
    try:
        disk = node.disk
        if disk is not None:
            part = nemesis.rng.choice((".log", _METADATA, "checkpoint", ""))
            fault = disk.fail("fsync", part, probability=nemesis.rng.choice((0.1, 1.0)))
            story.world.note(
                node.host, f"its syncs of {part or 'all'} fail, {fault.probability:g} of the time"
            )
            await nemesis.wait_duration()
            if node.disk is not disk or not node.is_serving:
                nemesis.count("ended after a failed sync")
            nemesis.count("syncs failed")
            disk.faults.clear()
        node.lose_power()
        await nemesis.start_until_serving(node)
    finally:
        nemesis.release(node)
