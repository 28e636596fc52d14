"""Events that stop `ottla record`: SIGINT (Ctrl-C), SIGTERM, and a closed output pipe.

Rule for `Stop`: the first signal raises nothing, so that no record is lost between being read and being sent.
It takes effect where the command waits for input. The second one ends the command as Ctrl-C does elsewhere.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import stat
from collections.abc import Iterator
from typing import BinaryIO, Self

from ottla.operations.termination import is_main_thread

_CHUNK_BYTES = 64 * 1024
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Records that a signal arrived; `chunks` ends then."""

    def __init__(self) -> None:
        self.signal = 0
        """The signal that arrived, or 0."""
        self._before: dict[int, object] = {}
        self._awake, self._wake = os.pipe()

    def __enter__(self) -> Self:
        if is_main_thread():
            for number in _SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self._awake)
        os.close(self._wake)

    def _note(self, number: int, _: object) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        os.write(self._wake, b"\0")

    def chunks(self, stream: BinaryIO) -> Iterator[bytes]:
        """The data of a stream as it arrives, until its end or a signal."""
        try:
            descriptor = stream.fileno()
        except io.UnsupportedOperation:  # bytes in memory, which are always ready
            while not self.signal and (chunk := stream.read(_CHUNK_BYTES)):
                yield chunk
            return
        while self._has_come(descriptor) and (chunk := os.read(descriptor, _CHUNK_BYTES)):
            yield chunk

    def _has_come(self, descriptor: int) -> bool:
        """Wait for bytes or the end of the stream; False if a signal arrived."""
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            select.select([descriptor, self._awake], [], [])
        return not self.signal


def flush(stream: BinaryIO) -> None:
    """Flush the output. Fails if the reader has closed the pipe, even with nothing to write, so that a
    follower of an idle topic exits with its reader."""
    stream.flush()
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:
        return
    watch = select.poll()
    watch.register(descriptor, 0)
    if any(seen & (select.POLLERR | select.POLLHUP) for _, seen in watch.poll(0)):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
