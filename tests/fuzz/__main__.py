"""`python -m tests.fuzz --frames N --seed S`: sends frames of every API and version to a node in this
process.

Frames that fail are minimized and saved as hex, with the seed and the commands that replay them: `--replay
FILE` sends the frames of a file again, and `--seed S --round N` the whole round, on a fresh node.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.fuzz import session
from tests.fuzz.replay import load, replay, save, smallest
from tests.fuzz.target import Fault

MEMORY_GROWTH_BYTES_MAX = 512 * 1024 * 1024
"""It includes the world's disk, which is in memory; `test_over_tcp.py` measures a node's own memory."""
_SHRUNK_MAX = 8


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", type=int, help="one round of the run alone: the first is 0")
    parser.add_argument("--save", metavar="DIRECTORY", default="fuzz-found", help="where failing frames go")
    parser.add_argument("--replay", metavar="FILE", action="append", help="send the frames of a file instead")
    options = parser.parse_args()
    if options.replay:
        return max(_replay(Path(name)) for name in options.replay)
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    began = time.monotonic()
    session.run(session.ROUND_FRAMES, options.seed + 1)  # imports and compiles what is loaded on first use
    before = _memory_bytes()
    peaks: list[tuple[int, int]] = []  # (round, peak MB after it)

    def note_memory(so_far: session.Tally) -> None:
        megabytes = _memory_bytes() // 2**20
        if not peaks or megabytes > peaks[-1][1] + 20:
            peaks.append((so_far.frames // session.ROUND_FRAMES - 1, megabytes))

    tally = session.run(options.frames, options.seed, on_round=note_memory, only=options.round)
    grown = _memory_bytes() - before
    print(
        f"seed {options.seed}: {tally.frames} frames of {len(tally.by_api)} APIs in "
        f"{time.monotonic() - began:.0f} s; {tally.answered} answered, {tally.closed} connections closed, "
        f"{grown / 2**20:.0f} MB more memory at most, {len(tally.faults)} faults",
        flush=True,
    )
    _tell(tally.faults, options)
    if grown > MEMORY_GROWTH_BYTES_MAX:
        print(f"FAILED: the memory has grown by {grown / 2**20:.0f} MB, in the rounds {peaks}")
    return 1 if tally.faults or grown > MEMORY_GROWTH_BYTES_MAX else 0


def _tell(faults: list[tuple[int, Fault]], options: argparse.Namespace) -> None:
    seen: set[str] = set()
    for number, (round_number, fault) in enumerate(faults):
        kind = fault.what[:80]
        if kind in seen:
            continue
        seen.add(kind)
        frames = smallest(fault) if len(seen) <= _SHRUNK_MAX else fault.frames
        path = Path(options.save) / f"{options.seed}-{number}.hex"
        command = f"python -m tests.fuzz --seed {options.seed} --round {round_number}"
        save(path, frames, [fault.what, f"commit {_commit()}", f"found by {command}"])
        print(f"\nFAILED: {fault.what}\n{len(frames)} frames; replay: python -m tests.fuzz --replay {path}")
        print(f"the whole round: {command} (commit {_commit()})", flush=True)


def _replay(path: Path) -> int:
    faults = replay(load(path))
    for fault in faults:
        print(f"{path}: {fault.what}")
    if not faults:
        print(f"{path}: nothing wrong")
    return 1 if faults else 0


def _memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _commit() -> str:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
