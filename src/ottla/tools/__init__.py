"""Kafka's commands. Each module with a `main` is one, and may be run with `python -m`.

Ctrl-C while Python still imports a tool says nothing, as it does later: whoever interrupts knows that he did.
"""

from __future__ import annotations

import sys
from types import TracebackType


def _tell_unless_interrupted(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _tell(kind, error, traceback)


_tell, sys.excepthook = sys.excepthook, _tell_unless_interrupted
