"""Sampled call stacks of a node: cleaned, weighted with its CPU time, and divided into parts of a request.

Two profilers see different things. py-spy knows Python's functions, compiled and not, but counts time, also
while the thread waits for a processor. perf counts CPU time and knows the system calls, but not Python's
functions. So the paths are py-spy's; the time in user code, in each system call and in all is the CPU's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

_FRAME = re.compile(r"^(?P<name>.*) \((?P<file>[^()]*?)(?::\d+)?\)$")
_SYSTEM_CALL = re.compile(r"^(?:__x64_sys|__arm64_sys|__se_sys|__do_sys|ksys)_(\w+)$")
_HASH = re.compile(r"h[0-9a-f]{16}|_R\w{40,}|_ZN\w{40,}")
# What py-spy shows of inlined code is the name of a macro at its end.
_SKIPPED = re.compile(r"^(0x[0-9a-f]+|_?Py_X?(IN|DE)CREF\w*|_Py_.*|_PyEval_.*|<module>)$")
_WAITING = re.compile(r"acquire_lock|cond_timedwait|cond_wait|sem_wait|sem_clockwait|futex|take_gil")
_LOOP = "uv_run"
_READING = "uv__stream_io"
SYSTEM_CALLS: Mapping[str, str] = {
    "read": "read",
    "readv": "readv",
    "recv": "recvfrom",
    "recvmsg": "recvmsg",
    "write": "write",
    "writev": "writev",
    "send": "sendto",
    "sendmsg": "sendmsg",
    "pwrite64": "pwrite64",
    "pwritev": "pwritev",
    "epoll_pwait": "epoll_pwait",
    "epoll_wait": "epoll_wait",
    "fdatasync": "fdatasync",
    "fsync": "fsync",
    "fallocate64": "fallocate",
    "openat64": "openat",
}
"""The system call of each function of the C library that ends a stack."""
UNSEEN_CALLS = "other system calls"


class Layer(StrEnum):
    """Whose code a frame is."""

    KERNEL = "Linux"
    LOOP = "uvloop and libuv"
    COMPILED = "Ottla, compiled"
    PYTHON = "Ottla, Python"
    OTHER = "CPython and libraries"


class Part(StrEnum):
    """The parts of a request, in order, and what is left."""

    RECEIVE = "receive"
    FRAME = "frame"
    DECODE = "decode"
    CHECK = "check"
    APPEND = "append"
    ANSWER = "answer"
    SEND = "send"
    LOOP = "event loop and timers"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Frame:
    """One call in a stack."""

    name: str
    file: str

    @property
    def layer(self) -> Layer:
        if self.file.startswith("libc.so") and self.name in (*SYSTEM_CALLS, UNSEEN_CALLS):
            return Layer.KERNEL
        if self.file.startswith("ottla/"):
            return Layer.COMPILED if self.file.endswith(".so") or ".cpython" in self.file else Layer.PYTHON
        if self.file in ("core.c", "linux.c", "stream.c", "loop.c", "epoll.c", "tcp.c"):
            return Layer.LOOP
        return Layer.OTHER


Stack = tuple[Frame, ...]

# The first rule counts that fits a frame, from the innermost frame outwards.
_PARTS: tuple[tuple[Part, re.Pattern[str]], ...] = (
    (Part.RECEIVE, re.compile(r"^(read|readv|recv|recvmsg) libc")),
    (Part.SEND, re.compile(r"^(write|writev|send|sendmsg) libc|UVStream_+(write|try_write|exec_write|init)")),
    (Part.SEND, re.compile(r"^Connection\._?(write|flush|send)|^(write|flush|_write) .*net/")),
    (
        Part.CHECK,
        re.compile(r"PlainCheck|^kernel_|fastcrc|crc32|records/(validate|kernel|plain_batch|batch)"),
    ),
    (Part.ANSWER, re.compile(r"^(s_pack _struct|\w*fast_path__answer |Connection\.answer_now )")),
    (Part.APPEND, re.compile(r"ottla/(log|server/replicas|host)|os_pwrite|HostFile|HostClock")),
    (Part.FRAME, re.compile(r"answer_read|ottla/server/net/(connection|request_memory)")),
    (Part.DECODE, re.compile(r"ottla/(server|wire)")),
    (Part.RECEIVE, re.compile(r"^uv__read|uv_stream_buffered|uv__stream_io|get_buffer")),
    (Part.LOOP, re.compile(r"core\.c|linux\.c|loop\.c")),
)


def part_of(stack: Stack) -> Part:
    names = {frame.name for frame in stack}
    if _LOOP in names and _READING not in names:
        return Part.LOOP  # waiting, and timers
    for frame in reversed(stack):
        said = f"{frame.name} {frame.file}"
        for part, pattern in _PARTS:
            if pattern.search(said):
                return part
    return Part.OTHER


def read_samples(lines: Iterable[str]) -> dict[Stack, int]:
    """The stacks of py-spy's raw format and how often each was seen, without threads that waited."""
    found: dict[Stack, int] = defaultdict(int)
    for line in lines:
        text, _, count = line.rstrip("\n").rpartition(" ")
        frames = [_frame(one) for one in text.split(";")]
        if _WAITING.search(" ".join(frame.name for frame in frames[-3:])):
            continue
        kept = tuple(_without_repetition(_inside_the_loop(frames)))
        if kept:
            found[kept] += int(count)
    return dict(found)


def _frame(text: str) -> Frame:
    found = _FRAME.match(text)
    name, file = (found["name"], found["file"]) if found else (text, "")
    name = "fastcrc" if "fastcrc" in name else _HASH.sub("…", name)
    return Frame(
        name.replace(".<locals>", ""), file if file.startswith("ottla/") else file.rsplit("/", 1)[-1]
    )


def _inside_the_loop(frames: list[Frame]) -> list[Frame]:
    """Without what starts the node; a thread beside the loop keeps its last function alone."""
    names = [frame.name for frame in frames]
    if _LOOP in names:
        return frames[names.index(_LOOP) :]
    return [Frame("other threads", ""), *frames[-1:]]


def _without_repetition(frames: list[Frame]) -> Iterable[Frame]:
    before: Frame | None = None
    for frame in frames:
        if not _SKIPPED.match(frame.name) and (before is None or frame.name != before.name):
            yield frame
            before = frame


def system_call_shares(script: Iterable[str]) -> dict[str, float]:
    """The share of each system call in the kernel's CPU time, from the output of `perf script -F ip,sym`."""
    counts: dict[str, int] = defaultdict(int)
    stack: list[str] = []
    for line in (*script, ""):
        if line.strip():
            stack.append(line.split(maxsplit=1)[-1].strip())
            continue
        calls = [found[1] for name in stack if (found := _SYSTEM_CALL.match(name))]
        if calls:
            counts[calls[-1]] += 1
        stack = []
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()}


def weighted(
    samples: Mapping[Stack, int], user_us: float, system_us: float, shares: Mapping[str, float]
) -> dict[Stack, float]:
    """The microseconds of a request in each stack: `user_us` and `system_us` are its CPU time in all."""
    calls = {stack: SYSTEM_CALLS.get(stack[-1].name) for stack in samples}
    counts: dict[str | None, int] = defaultdict(int)
    for stack, count in samples.items():
        counts[calls[stack]] += count
    times: dict[str | None, float] = {name: system_us * share for name, share in shares.items()}
    times[None] = user_us
    found = {
        stack: times.get(calls[stack], 0.0) * count / counts[calls[stack]] for stack, count in samples.items()
    }
    unseen = sum(time for name, time in times.items() if name not in counts)
    if unseen:
        found[(Frame(UNSEEN_CALLS, "libc.so.6"),)] = unseen
    return found


def times_of_parts(stacks: Mapping[Stack, float], *, is_kernel_only: bool = False) -> dict[Part, float]:
    """The microseconds of each part, or those that it spends in system calls."""
    found = dict.fromkeys(Part, 0.0)
    for stack, time in stacks.items():
        if not is_kernel_only or stack[-1].layer is Layer.KERNEL:
            found[part_of(stack)] += time
    return found
