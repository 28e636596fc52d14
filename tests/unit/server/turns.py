"""Counts the work that is done in one turn of an event loop, in calls of functions: the same everywhere."""

from __future__ import annotations

import sys
from asyncio import base_events
from typing import Any

import pytest


class Work:
    """Calls in the block: in all, and the most of them in one turn of a loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.total = self.most = 0
        run_once: Any = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]

        def counted(loop: Any) -> None:
            before = self.total
            run_once(loop)
            self.most = max(self.most, self.total - before)

        monkeypatch.setattr(base_events.BaseEventLoop, "_run_once", counted)

    def _note(self, _frame: Any, event: str, _argument: Any) -> None:
        self.total += event in ("call", "c_call")

    def __enter__(self) -> None:
        self.total = self.most = 0
        sys.setprofile(self._note)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
