"""The event loop in a thread that the blocking classes stand on."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import ottla
from ottla.client.errors import Closed, ConfigError, Forked, TimedOut
from ottla.client.net.background import Background, Signal, _after_fork, members


async def answer() -> int:
    return 42


def test_a_coroutine_runs_in_the_thread_and_its_result_and_errors_come_back() -> None:
    background = Background("test")

    async def fails() -> None:
        raise KeyError("x")

    try:
        assert background.run(answer()) == 42
        with pytest.raises(KeyError):
            background.run(fails())
    finally:
        background.stop()


def test_work_that_need_not_wait_is_done_without_time() -> None:
    background = Background("test")

    async def waits() -> None:
        await asyncio.Event().wait()

    try:
        for _ in range(100):
            assert background.run(answer(), timeout=0) == 42
            with pytest.raises(TimedOut):
                background.run(waits(), timeout=0)
    finally:
        background.stop()


def test_a_call_without_time_ends_although_the_loop_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery callback may wait for a lock that the caller has."""
    monkeypatch.setattr("ottla.client.net.background._FIRST_STEP_SECONDS_MAX", 0.01, raising=False)
    background, lock = Background("test"), threading.Lock()
    lock.acquire()
    background.soon(lock.acquire, True, 10.0)
    try:
        with pytest.raises(TimedOut):
            background.run(answer(), timeout=0)
    finally:
        lock.release()
        background.stop()


def test_a_signal_wakes_the_next_wait_once_however_often_it_is_set() -> None:
    signal = Signal()
    waited: list[str] = []

    def wait() -> None:
        signal.wait(60)
        waited.append("woken")

    signal.set()
    signal.set()
    signal.wait(60)  # returns at once
    signal.set()
    signal.clear()
    waiting = threading.Thread(target=wait)
    waiting.start()
    assert waited == []
    signal.set()
    waiting.join(60)
    assert waited == ["woken"]


def test_a_wait_that_takes_too_long_ends_and_cancels_the_work() -> None:
    background = Background("test")
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    try:
        with pytest.raises(TimedOut):
            background.run(forever(), timeout=0.01)
        assert cancelled.wait(60)
    finally:
        background.stop()


def test_ctrl_c_ends_a_wait_and_cancels_the_work() -> None:
    background = Background("test")
    cancelled = threading.Event()

    async def forever() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    try:
        with pytest.raises(KeyboardInterrupt):
            background.run(forever())
        assert cancelled.wait(60)
    finally:
        background.stop()


def test_a_thread_that_could_not_be_started_is_started_by_the_next_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    background = Background("test")

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start"):
            background.run(answer())
    assert not background.is_running
    try:
        assert background.run(answer()) == 42
    finally:
        background.stop()


def test_after_ctrl_c_a_thread_that_starts_all_the_same_ends_and_the_next_use_starts_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    background = Background("test")
    late: list[threading.Thread] = []

    def interrupt(thread: threading.Thread) -> None:
        late.append(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            background.run(answer())
    try:
        assert background.run(answer()) == 42
        late[0].start()
        late[0].join()
        assert background.run(answer()) == 42
    finally:
        background.stop()


def test_after_stop_it_is_closed_and_stopping_again_is_harmless() -> None:
    background = Background("test")
    background.run(answer())
    background.stop()
    background.stop()
    with pytest.raises(Closed):
        background.run(answer())


def test_waiting_on_its_own_thread_is_refused_since_it_would_never_end() -> None:
    background = Background("test")

    async def inside() -> None:
        background.run(answer())

    try:
        with pytest.raises(RuntimeError, match="another thread"):
            background.run(inside())
    finally:
        background.stop()


def test_a_forked_child_is_told_to_make_its_own() -> None:
    background = Background("test")
    background.run(answer())
    child = os.fork()
    if child == 0:
        status = 1
        try:
            background.run(answer())
        except Forked:
            background.stop()
            status = 0
        finally:
            os._exit(status)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        background.stop()


def test_a_program_that_closes_nothing_ends_its_loops_before_the_interpreter_goes() -> None:
    program = (
        "import atexit, threading\n"
        "names = lambda: [one.name for one in threading.enumerate() if one.name.startswith('ottla-')]\n"
        "atexit.register(lambda: print(names()))\n"  # what was registered first is called last
        "from ottla.client.net.background import Background\n"
        "background = Background('producer')\n"
        "background.loop\n"
        "print(names())\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "['ottla-producer']\n[]\n", "")


def test_who_waits_while_another_thread_stops_the_loop_is_told_that_it_is_closed() -> None:
    background = Background("producer")
    has_begun = threading.Event()
    found: list[BaseException] = []

    async def endless() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    def wait() -> None:
        try:
            background.run(endless())
        except BaseException as error:  # noqa: BLE001 - it is what the test looks at
            found.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    has_begun.wait()
    background.stop()
    waiting.join()
    assert [type(error) for error in found] == [Closed]


def test_work_that_comes_while_the_loop_ends_is_told_that_it_is_closed() -> None:
    background = Background("producer")
    loop = background.loop
    # As a thread that found the loop just before another one stopped it.
    background.stop()
    background._loop = loop

    async def work() -> None:
        raise AssertionError("nothing runs any more")

    with pytest.raises(Closed):
        background.run(work())


def test_a_finalizer_that_uses_the_loop_while_it_is_started_gets_the_same_one() -> None:
    background = Background("producer")
    found: list[object] = []

    class Parting:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            found.append(background.loop)

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(3):
            Parting()
        started = background.loop
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert set(found) == {started}
    background.stop()


def test_a_set_that_another_thread_changes_in_the_middle_is_listed_again() -> None:
    class Changing(weakref.WeakSet[Background]):
        changes = 2

        def __iter__(self) -> Iterator[Background]:
            if self.changes:
                self.changes -= 1
                raise RuntimeError("Set changed size during iteration")
            return super().__iter__()

    background = Background("test")
    changing = Changing([background])
    assert members(changing) == [background]


@pytest.fixture
def only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of other tests are not told of a fork that is none."""
    monkeypatch.setattr("ottla.client.net.background._all", weakref.WeakSet())


@pytest.mark.usefixtures("only_here")
def test_a_client_that_fails_when_it_is_told_of_a_fork_keeps_it_from_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[int] = []

    def fail() -> None:
        raise KeyError("x")

    clients = [
        Background("test", on_fork=fail if number % 2 else partial(told.append, number))
        for number in range(8)
    ]
    _after_fork()
    assert sorted(told) == [0, 2, 4, 6]
    assert caplog.text.count("failed when the process was forked") == 4
    del clients


@pytest.mark.usefixtures("only_here")
@pytest.mark.parametrize("wrong", [{"acks": "7"}, {"value_serializer": "no such serializer"}])
def test_a_producer_that_could_not_be_made_is_left_out_when_the_process_forks(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError):
        ottla.Producer("127.0.0.1:1", **wrong)
    _after_fork()
    assert "failed when the process was forked" not in caplog.text
