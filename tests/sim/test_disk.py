"""Disks of the simulated world: visible contents, states after a power loss, and failures."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ottla.host import HostDisk
from ottla.ports import Disk
from ottla.testing.world import Crashed, World
from ottla.testing.world.disk import Model, SimulatedDisk, Storage, crash_states

MODELS: tuple[Model, ...] = ("posix", "journaled")


def _disk(model: Model = "posix", seed: int = 1) -> SimulatedDisk:
    disk = SimulatedDisk(random.Random(seed), model=model)
    disk.make_directory("/data")
    disk.storage.sync_all()
    return disk


def _states(disk: SimulatedDisk) -> list[SimulatedDisk]:
    return [SimulatedDisk(random.Random(1), storage=state) for state in crash_states(disk.storage)]


def _content(disk: SimulatedDisk, path: str) -> bytes | None:
    return disk.read(path) if disk.exists(path) else None


@pytest.mark.parametrize("model", MODELS)
def test_synced_data_is_in_every_state(model: Model) -> None:
    disk = _disk(model)
    file = disk.open("/data/log", create=True)
    file.pwrite([b"one"], 0)
    file.fsync()
    disk.sync_directory("/data")
    file.pwrite([b"two"], 3)
    assert disk.read("/data/log") == b"onetwo"
    assert {_content(state, "/data/log") for state in _states(disk)} == {b"one", b"onetwo"}


def test_a_synced_file_without_a_synced_name_may_be_lost() -> None:
    kept = {}
    for model in MODELS:
        disk = _disk(model)
        file = disk.open("/data/log", create=True)
        file.pwrite([b"one"], 0)
        file.fsync()
        kept[model] = {_content(state, "/data/log") for state in _states(disk)}
    assert kept == {"posix": {None, b"one"}, "journaled": {b"one"}}


def test_writes_are_torn_only_between_sectors() -> None:
    disk = _disk()
    file = disk.open("/data/log", create=True)
    file.pwrite([bytes([1]) * 1_500], 0)
    file.fsync()
    disk.sync_directory("/data")
    file.pwrite([bytes([2]) * 1_500], 0)
    found = {_content(state, "/data/log") for state in _states(disk)}
    new, old = bytes([2]), bytes([1])
    assert found == {
        old * 1_500,
        new * 1_500,
        new * 512 + old * 988,
        new * 1_024 + old * 476,
        old * 512 + new * 988,
        old * 1_024 + new * 476,
    }


def test_a_lost_sector_beyond_the_old_end_is_zeros() -> None:
    disk = _disk()
    file = disk.open("/data/log", create=True)
    file.fsync()
    disk.sync_directory("/data")
    file.pwrite([bytes([7]) * 1_024], 0)
    assert bytes(512) + bytes([7]) * 512 in {_content(state, "/data/log") for state in _states(disk)}


@pytest.mark.parametrize("model", MODELS)
def test_a_replaced_file_is_old_or_new(model: Model) -> None:
    disk = _disk(model)
    disk.replace("/data/point", b"old" * 1_000)
    seen: set[bytes | None] = set()

    def on_call() -> None:
        seen.update(_content(state, "/data/point") for state in _states(disk))

    disk.slow_call = lambda operation, path: on_call()
    disk.replace("/data/point", b"new" * 1_000)
    disk.slow_call = None
    assert seen == {b"old" * 1_000, b"new" * 1_000}
    assert {_content(state, "/data/point") for state in _states(disk)} == {b"new" * 1_000}


def test_an_unsynced_replaced_file_may_be_anything() -> None:
    disk = _disk()
    disk.replace("/data/point", b"old")
    disk.replace("/data/point", b"new", sync=False)
    assert {_content(state, "/data/point") for state in _states(disk)} == {b"old", b"", b"new"}


def test_names_reach_a_journaled_disk_in_order() -> None:
    found = {}
    for model in MODELS:
        disk = _disk(model)
        for name in ("a", "b"):
            disk.open(f"/data/{name}", create=True)
        found[model] = {tuple(state.list("/data")) for state in _states(disk)}
    assert found["journaled"] == {(), ("a",), ("a", "b")}
    assert found["posix"] == {(), ("a",), ("b",), ("a", "b")}


@pytest.mark.parametrize("model", MODELS)
def test_random_power_losses_leave_legal_states(model: Model) -> None:
    disk = _disk(model)
    for name in ("a", "b", "c"):
        disk.open(f"/data/{name}", create=True).pwrite([b"x" * 700], 0)
    disk.rename("/data/a", "/data/d")
    disk.remove("/data/b")
    legal: set[Any] = set()
    numbers = [one.number for one in disk.storage.pending]
    for bits in range(1 << len(numbers)):
        kept = {number for place, number in enumerate(numbers) if bits >> place & 1}
        if disk.storage.is_legal(kept):
            state = disk.storage.copy()
            state.lose_power(kept)
            legal.add(tuple(SimulatedDisk(random.Random(1), storage=state).list("/data")))
    seen = set()
    for seed in range(300):
        state = disk.storage.copy()
        state.lose_power_randomly(random.Random(seed))
        seen.add(tuple(SimulatedDisk(random.Random(1), storage=state).list("/data")))
    assert seen <= legal
    assert len(seen) > 3


def test_a_failed_sync_drops_the_pages_for_good() -> None:
    disk = _disk()
    file = disk.open("/data/log", create=True)
    disk.sync_directory("/data")
    file.pwrite([b"gone"], 0)
    disk.fail("fsync", "log", times=1)
    with pytest.raises(OSError, match="Input/output"):
        file.fsync()
    file.fsync()
    assert disk.read("/data/log") == b"gone"  # still in the cache
    assert {_content(state, "/data/log") for state in _states(disk)} == {b""}


def test_a_full_disk_accepts_a_partial_write() -> None:
    disk = _disk()
    disk.storage.quota_bytes = 1_000
    file = disk.open("/data/log", create=True)
    file.pwrite([b"x" * 900], 0)
    assert disk.space("/data") == (1_000, 100)
    with pytest.raises(OSError) as caught:
        file.pwrite([b"y" * 200], 900)
    assert caught.value.errno == errno.ENOSPC
    assert disk.read("/data/log") == b"x" * 900 + b"y" * 100


def test_flipped_bits_are_read() -> None:
    disk = _disk()
    disk.replace("/data/point", bytes(4))
    disk.flip_bit("/data/point", 9)
    assert disk.read("/data/point") == b"\0\2\0\0"
    assert {_content(state, "/data/point") for state in _states(disk)} == {b"\0\2\0\0"}


def test_a_program_can_die_within_any_change() -> None:
    left = []
    for count in range(1, 20):
        disk = _disk()
        disk.crash_at = (count, disk.die)
        try:
            disk.replace("/data/point", b"content")
        except Crashed:
            with pytest.raises(Crashed):
                disk.exists("/data/point")
            left.append(_content(SimulatedDisk(random.Random(1), storage=disk.storage), "/data/point"))
        else:
            break
    assert left == [
        None,
        None,
        None,
        None,
        b"content",
    ]  # create, write, sync, rename; then sync the directory


def test_a_map_shows_writes_and_flushes_its_own() -> None:
    disk = _disk()
    disk.replace("/data/index", b"abcdefgh")
    mapped = disk.map("/data/index", 8)
    file = disk.open("/data/index")
    file.pwrite([b"XY"], 2)
    assert bytes(mapped.view) == b"abXYefgh"
    mapped.view[0] = ord("A")
    mapped.flush()
    assert disk.read("/data/index") == b"AbXYefgh"
    mapped.close(trim_to=3)
    assert disk.read("/data/index") == b"AbX"


def test_blocking_work_takes_virtual_time_and_dies_with_its_process() -> None:
    with World(1) as world:
        client = world.client("one")
        disk = SimulatedDisk(random.Random(1))
        disk.delay_s = (1.0, 2.0)
        done: list[float] = []

        def block() -> str:
            done.append(world.now)
            return "done"

        async def work() -> str:
            return await disk.offload(block)

        async def story() -> None:
            assert await client.spawn(work()) == "done"
            assert 1.0 <= done[0] <= 2.0 <= world.now <= 4.0
            client.spawn(work())
            await asyncio.sleep(0.5)
            client.kill()
            await asyncio.sleep(10)
            assert len(done) == 1

        world.run(story())


_PATHS = some.sampled_from(["a", "b", "d/a", "d/b", "d", "e"])
_STEPS = some.one_of(
    some.tuples(some.just("write"), _PATHS, some.binary(max_size=20), some.integers(0, 30)),
    some.tuples(some.just("truncate"), _PATHS, some.integers(0, 30)),
    some.tuples(some.just("replace"), _PATHS, some.binary(max_size=20)),
    some.tuples(some.sampled_from(["read", "list", "exists", "is_directory", "remove"]), _PATHS),
    some.tuples(some.sampled_from(["make_directory", "remove_tree", "size", "sync_directory"]), _PATHS),
    some.tuples(some.just("rename"), _PATHS, _PATHS),
)


def _do(disk: Disk, root: str, step: tuple[Any, ...]) -> object:
    """Take a step; return its result, or the class of the error."""
    name, path, *rest = step
    where = f"{root}/{path}"

    def write(data: bytes, position: int) -> bytes:
        file = disk.open(where, create=True)
        try:
            file.pwrite([data], position)
            return file.pread(100, 0)
        finally:
            file.close()

    def truncate(size: int) -> int:
        file = disk.open(where)
        try:
            file.truncate(size)
            return file.size()
        finally:
            file.close()

    calls: dict[str, Callable[..., object]] = {
        "write": write,
        "truncate": truncate,
        "rename": lambda new: disk.rename(where, f"{root}/{new}"),
    }
    try:
        call = calls.get(name)
        return call(*rest) if call is not None else getattr(disk, name)(where, *rest)
    except OSError as error:
        return type(error)


@settings(max_examples=150, deadline=None)
@given(some.lists(_STEPS, max_size=25))
def test_a_simulated_disk_behaves_like_a_real_one(steps: list[tuple[Any, ...]]) -> None:
    import tempfile

    real, simulated = HostDisk(threads=1), _disk()
    with tempfile.TemporaryDirectory() as directory:
        for step in steps:
            shown = _do(real, directory, step), _do(simulated, "/data", step)
            if shown[0] is not shown[1] and isinstance(shown[0], type) and isinstance(shown[1], type):
                continue  # the order of two errors is not defined
            assert shown[0] == shown[1], step
        found = {
            str(path.relative_to(directory)): path.read_bytes()
            for path in Path(directory).rglob("*")
            if path.is_file()
        }
    real.close()
    assert found == _files(simulated, "/data", "")


def _files(disk: SimulatedDisk, directory: str, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if disk.is_directory(path):
            found |= _files(disk, path, f"{prefix}{name}/")
        else:
            found[prefix + name] = disk.read(path)
    return found


def test_a_copy_of_a_storage_is_independent() -> None:
    disk = _disk()
    disk.open("/data/log", create=True).pwrite([b"one"], 0)
    twin: Storage = disk.storage.copy()
    disk.open("/data/log").pwrite([b"two"], 3)
    assert SimulatedDisk(random.Random(1), storage=twin).read("/data/log") == b"one"
    assert len(twin.pending) == 2
