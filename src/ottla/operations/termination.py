"""How a command ends when it is told to by a signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def exit_code_of(number: int) -> int:
    """What a shell makes of a process that a signal has ended."""
    return 128 + number


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does: a group is left in order."""

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
