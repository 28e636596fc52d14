"""The option `-daemon` of Kafka's scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


def run_apart(tool: str, arguments: Sequence[str], service: str) -> int:
    """Start a tool in a new session and return at once. Its output goes to a file in LOG_DIR, or `logs`."""
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
