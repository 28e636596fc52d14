"""Kafka's commands. Each module with a `main` is one, and works with `python -m`.

commands.py            lists the tools with the Java classes that they replace
arguments.py           parses a command line as Kafka's parser does
admin_connection.py    opens the admin
node_processes.py      finds Ottla's nodes among the processes of this machine
metadata_nodes.py      turns a `ClusterImage` into a tree for the metadata shell; pure
metadata_commands.py   the shell's commands on that tree; pure

Ctrl-C prints nothing, not even while Python still imports a tool.
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
