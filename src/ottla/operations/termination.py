"""How a command exits on a signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def exit_code_of(number: int) -> int:
    """The exit code that a shell reports for a process killed by a signal."""
    return 128 + number


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does, so that it leaves its groups."""

    def terminate(number: int, _: object) -> None:
        raise SystemExit(exit_code_of(number))

    if not is_main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def is_main_thread() -> bool:
    """Whether this thread may handle signals."""
    return threading.current_thread() is threading.main_thread()
