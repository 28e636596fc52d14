"""Interrupting `kafka-dump-log`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from ottla.operations import log_text
from ottla.records import record
from ottla.records.record import Record, build_batch
from ottla.tools import dump_log

READING = {module.__file__ for module in (dump_log, log_text, record)}


def test_ctrl_c_at_any_line_of_a_dump_ends_it_without_a_traceback(tmp_path: Path) -> None:
    """The exception keeps frames alive, and with them slices of the mapped file."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([Record(0, 1_700_000_000_000, b"key", b"value", ())], base_offset=0))
    whole = Interrupted(path, -1)
    assert whole.code == 0
    assert whole.lines > 20
    assert {Interrupted(path, at).code for at in range(1, whole.lines)} == {128 + signal.SIGINT}


class Interrupted:
    """A dump that is interrupted at a given line of the code that reads the file."""

    def __init__(self, path: Path, stop_at: int) -> None:
        self.lines = 0
        self._stop_at = stop_at
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            self.code = dump_log.main(["--files", str(path), "--print-data-log"])
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        has_begun = self.lines or frame.f_code is dump_log._LogDump.dump.__code__
        return self._step if has_begun and frame.f_code.co_filename in READING else None

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self._stop_at:
                raise KeyboardInterrupt
        return self._step
