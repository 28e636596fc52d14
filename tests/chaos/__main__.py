"""`python -m tests.chaos MINUTES [--seed N]`: runs a cluster of real processes under random faults and load.

It prints a line every ten seconds and a table at the end, even if interrupted. If it finds an anomaly, it
exits with 1, prints the seed, the commit and the command that repeats the same faults, and keeps the data,
and the timeline as text and as a picture. The timeline includes the clients' logs.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos.faults import KINDS
from tests.chaos.run import ROUND_S, Run, first_of_each_kind
from tests.chaos.timeline import Timeline

LINES = 80
INTERRUPTED = 130  # the exit code of a process ended by Ctrl-C


class Notes(logging.Handler):
    """Adds the clients' warnings to the timeline, instead of mixing them with the progress output."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(logging.WARNING)
        self._timeline = timeline

    def emit(self, record: logging.LogRecord) -> None:
        self._timeline.note(record.name, f"{record.levelname} {record.getMessage()}"[:300])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("minutes", type=float, help="how long; the round that runs then is finished")
    parser.add_argument("--seed", type=int, help="what draws the faults; else a new one")
    parser.add_argument(
        "--share", type=float, default=1.0, help="how much is written: 1 is about 200 records/s"
    )
    parser.add_argument("--only", help=f"some of the faults, with commas between them: {', '.join(KINDS)}")
    parser.add_argument("--round", type=float, default=ROUND_S, help="seconds of faults before all is judged")
    parser.add_argument("--directory", type=Path, help="where the data goes and stays")
    options = parser.parse_args()
    only = [name.strip() for name in options.only.split(",")] if options.only else None
    unknown = set(only or ()) - set(KINDS)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}. There are: {', '.join(KINDS)}")
    seed = random.randrange(1, 1 << 31) if options.seed is None else options.seed
    directory = options.directory or Path(tempfile.mkdtemp(prefix="ottla-chaos-"))
    print(
        f"seed {seed}: four nodes under faults for {options.minutes:g} minutes, repaired and judged every "
        f"{options.round:g} s; data in {directory}",
        flush=True,
    )
    run = Run(directory / "nodes", seed, share=options.share, only=only)
    logging.getLogger().addHandler(Notes(run.timeline))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops nodes and unmounts file systems
    report = run.run(options.minutes * 60, options.round)
    print(report.table())
    if report.anomalies or options.directory is not None:
        (directory / "timeline.txt").write_text(run.timeline.text() + "\n")
        (directory / "timeline.svg").write_text(run.timeline.picture(f"chaos, seed {run.seed}"))
    else:
        shutil.rmtree(directory, ignore_errors=True)
    if report.anomalies:
        _explain(run, directory, options)
        return 1
    return INTERRUPTED if report.is_interrupted else 0


def _explain(run: Run, directory: Path, options: argparse.Namespace) -> None:
    print("\nThe end of the timeline:\n" + run.timeline.text(LINES))
    found = run.report.anomalies
    print("\n" + "\n".join(map(str, first_of_each_kind(found))))
    counts = Counter(one.kind for one in found)
    print("In all: " + ", ".join(f"{kind} {count}" for kind, count in counts.items()))
    only = f" --only '{options.only}'" if options.only else ""
    print(f"FAILED: seed {run.seed}, commit {_commit()}; data, timeline.txt and timeline.svg: {directory}")
    print(
        f"again: python -m tests.chaos {options.minutes:g} --seed {run.seed} --round {options.round:g}{only}"
    )


def _commit() -> str:
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # killed clients have left threads that cannot be joined
