"""Flame graphs: stacks of py-spy, weighted by CPU time, divided into parts, and drawn."""

from __future__ import annotations

import re

import pytest
from bench.flame_svg import flame_svg
from bench.stacks import (
    Frame,
    Layer,
    Part,
    Stack,
    part_of,
    read_samples,
    system_call_shares,
    times_of_parts,
    weighted,
)

HEAD = "<module> (/home/me/src/ottla/tools/start.py:84);main (ottla/tools/start.py:45);uv_run (core.c:464)"
READ = "uv__stream_io (stream.c:1210);uv__read (stream.c:1154)"
UPDATED = "Connection.buffer_updated (ottla/server/net/connection.py:256)"
EXPRESS = "ProduceExpress_answer (ottla/server/handlers/produce_fast_path.cpython-311-x86_64-linux-gnu.so)"
CHECK = "PlainCheck_max_timestamp (ottla/records/plain_batch.cpython-311-x86_64-linux-gnu.so)"
LINES = [
    f"{HEAD};{READ};read (libc.so.6) 10",
    f"{HEAD};{READ};Py_DECREF (object.h:537);{UPDATED} 3",
    f"{HEAD};{READ};{UPDATED};{UPDATED};{EXPRESS} 2",
    f"{HEAD};{READ};{UPDATED};{EXPRESS};{CHECK};0x7f255eca3f16 (libc.so.6) 5",
    f"{HEAD};{READ};{UPDATED};write (/home/me/loop.so);UVStream__try_write (loop.c:1);write (libc.so.6) 30",
    "thread (0x1);PyThread_acquire_lock_timed (libpython3.11.so.1.0);0x7f255ecaed90 (libc.so.6) 40",
    "thread (0x2);os_fsync (libpython3.11.so.1.0);fsync (libc.so.6) 1",
]
SCRIPT = """
        ffff1 tcp_sendmsg
        ffff2 ksys_write
        ffff3 __x64_sys_write
        7f2 write

        ffff1 tcp_sendmsg
        ffff3 __x64_sys_write

        ffff1 tcp_recvmsg
        ffff3 __x64_sys_read

        7f4 something_in_user_code
"""


def _names(stack: Stack) -> list[str]:
    return [frame.name for frame in stack]


def test_stacks_begin_in_the_loop_and_waiting_threads_are_left_out() -> None:
    found = {tuple(_names(stack)): count for stack, count in read_samples(LINES).items()}
    head = ("uv_run", "uv__stream_io", "uv__read")
    assert found == {
        (*head, "read"): 10,
        (*head, "Connection.buffer_updated"): 3,
        (*head, "Connection.buffer_updated", "ProduceExpress_answer"): 2,
        (*head, "Connection.buffer_updated", "ProduceExpress_answer", "PlainCheck_max_timestamp"): 5,
        (*head, "Connection.buffer_updated", "write", "UVStream__try_write", "write"): 30,
        ("other threads", "fsync"): 1,
    }


def test_each_sample_of_the_kernel_counts_for_its_outermost_system_call() -> None:
    assert system_call_shares(SCRIPT.splitlines()) == {
        "write": pytest.approx(2 / 3),
        "read": pytest.approx(1 / 3),
    }


def test_times_add_up_to_the_cpu_of_a_request() -> None:
    shares = {"write": 0.5, "read": 0.2, "futex": 0.3}
    found = weighted(read_samples(LINES), 4.0, 10.0, shares)
    assert sum(found.values()) == pytest.approx(14.0)
    times = times_of_parts(found)
    assert times[Part.SEND] == pytest.approx(5.0)
    assert times[Part.RECEIVE] == pytest.approx(2.0)
    assert times[Part.FRAME] == pytest.approx(4.0 * 3 / 10)
    assert times[Part.DECODE] == pytest.approx(4.0 * 2 / 10)
    assert times[Part.CHECK] == pytest.approx(4.0 * 5 / 10)
    in_kernel = times_of_parts(found, is_kernel_only=True)
    assert sum(in_kernel.values()) == pytest.approx(10.0)
    assert in_kernel[Part.SEND] == pytest.approx(5.0)
    assert in_kernel[Part.CHECK] == 0.0
    assert times[Part.OTHER] == pytest.approx(3.0), "futex, of which py-spy has no stack"


@pytest.mark.parametrize(
    ("name", "file", "layer"),
    [
        ("write", "libc.so.6", Layer.KERNEL),
        ("malloc", "libc.so.6", Layer.OTHER),
        ("write", "loop.c", Layer.LOOP),
        ("answer", "ottla/server/handlers/produce_fast_path.cpython-311-x86_64-linux-gnu.so", Layer.COMPILED),
        ("answer", "ottla/server/handlers/produce_fast_path.py", Layer.PYTHON),
    ],
)
def test_a_frame_belongs_to_a_layer(name: str, file: str, layer: Layer) -> None:
    assert Frame(name, file).layer is layer


def test_a_stack_of_unknown_functions_is_in_no_part() -> None:
    assert part_of((Frame("something", "else.c"),)) is Part.OTHER


def test_timers_are_not_part_of_a_request() -> None:
    timer = f"{HEAD};uv__run_timers (timer.c:1);LoopLateness._tick (ottla/server/loop_lag.py:9) 1"
    (stack,) = read_samples([timer])
    assert part_of(stack) is Part.LOOP


def test_the_picture_has_a_bar_for_each_call_and_no_path_of_the_machine() -> None:
    svg = flame_svg(weighted(read_samples(LINES), 4.0, 10.0, {"write": 0.5, "read": 0.5}), "a < b", "µs")
    assert svg.count("uv_run") == 2, "in its title and its label"
    assert "a &lt; b: 14.0 µs" in svg
    assert "<title>PlainCheck_max_timestamp (ottla/records/" in svg
    assert "/home" not in svg
    bars = [int(y) for y in re.findall(r' y="(\d+)" width="[\d.]+" height="15"', svg)]
    height = int(re.findall(r'height="(\d+)" font', svg)[0])
    assert 44 + max(bars) < height < 44 + max(bars) + 40
