"""The code that the verifiable producer and consumer share: their properties file, events as JSON lines with
time and name, and a clean exit on SIGTERM and Ctrl-C, with the exit code of a JVM."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from types import FrameType

from ottla.tools.measurements import now_ms
from ottla.tools.subcommands import SubcommandParser

_lock = threading.Lock()


def properties_file(
    parser: SubcommandParser, old_option: str, old: str | None, new: str | None
) -> str | None:
    """The path in --command-config or in its deprecated name, which prints a warning; both are an error."""
    if old is not None and new is not None:
        parser.error(f"Options {old_option} and --command-config are mutually exclusive.")
    if old is not None:
        print(
            f"Option {old_option} has been deprecated and will be removed in a future version. "
            "Use --command-config instead."
        )
    return new or old


def print_event(name: str, **facts: object) -> None:
    """Print an event as a complete line, from any thread."""
    text = json.dumps(
        {"timestamp": now_ms(), "name": name, **facts}, separators=(",", ":"), ensure_ascii=False
    )
    with _lock:
        print(text, flush=True)


def place(partition: tuple[str, int]) -> dict[str, object]:
    return {"topic": partition[0], "partition": partition[1]}


def until_signalled(work: Callable[[], None]) -> int:
    """Run the work; SIGTERM and SIGINT raise KeyboardInterrupt in it. Returns the exit code."""
    codes = [0]

    def stop(number: int, frame: FrameType | None) -> None:
        codes.append(128 + number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        work()
        return 0
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        work()
    except KeyboardInterrupt:
        return codes[-1]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return codes[-1]
