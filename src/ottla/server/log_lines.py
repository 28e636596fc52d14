"""The lines of a node's log: one per event, in the format and on the stream that Kafka uses."""

from __future__ import annotations

import logging
import sys
from typing import TextIO


def set_up_logging(stream: TextIO | None = None, *, source: str | None = None) -> None:
    """Log to a stream, by default standard output. `source` names this process in a log that it shares."""
    handler = logging.StreamHandler(sys.stdout if stream is None else stream)
    mark = "" if source is None else f"[{source}] "
    handler.setFormatter(
        _Formatter(
            f"[%(asctime)s,%(msecs)03d] %(levelname)s {mark}%(message)s (%(name)s)", "%Y-%m-%d %H:%M:%S", mark
        )
    )
    logging.basicConfig(level=logging.INFO, handlers=[handler])


class _Formatter(logging.Formatter):
    """Repeats the mark in the further lines of an event, such as those of a traceback."""

    def __init__(self, line: str, time: str, mark: str) -> None:
        super().__init__(line, time)
        self._mark = mark

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text.replace("\n", f"\n{self._mark}") if self._mark else text
