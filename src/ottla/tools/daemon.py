"""What `-daemon` of Kafka's scripts does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def run_apart(tool: str, arguments: Sequence[str], service: str) -> int:
    """Start a tool in a session of its own and return at once. It writes to a file in LOG_DIR, or `logs`."""
    directory = os.environ.get("LOG_DIR") or "logs"
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, f"{service}.out"), "ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", f"ottla.tools.{tool}", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    return 0
