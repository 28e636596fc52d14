"""Replays a seed in other Python processes, whose hash seeds change the order of sets and dictionaries."""

import os
import subprocess
import sys
from pathlib import Path


def traces_of(*arguments: str, hash_seeds: tuple[str, str] = ("1", "2")) -> set[str]:
    """The trace hashes of `python -m tests.sim` with these arguments, one process per hash seed."""
    traces = set()
    for hash_seed in hash_seeds:
        run = subprocess.run(
            [sys.executable, "-m", "tests.sim", *arguments, "--hash"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        )
        traces.add(run.stdout)
    return traces
