"""`python -m tests.chaos MINUTES [--seed N]`: a cluster of real processes under faults by chance, and load.

A line every ten seconds, a table at the end. Where anything was broken it ends with 1, says seed, commit and
the command that draws the same faults again, and keeps the data with the timeline as text and as a picture.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chaos.faults import KINDS
from tests.chaos.mix import ROUND_S, Mix

LINES = 80


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("minutes", type=float)
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
    print(f"seed {seed}", flush=True)
    mix = Mix(directory / "nodes", seed, share=options.share, only=only)
    report = mix.run(options.minutes * 60, options.round)
    print(report.table())
    if not report.anomalies:
        if options.directory is None:
            shutil.rmtree(directory, ignore_errors=True)
        return 0
    _explain(mix, directory, options)
    return 1


def _explain(mix: Mix, directory: Path, options: argparse.Namespace) -> None:
    (directory / "timeline.txt").write_text(mix.timeline.text() + "\n")
    (directory / "timeline.svg").write_text(mix.timeline.picture(f"chaos, seed {mix.seed}"))
    print("\nThe end of the timeline:\n" + mix.timeline.text(LINES))
    found = mix.report.anomalies
    print("\n" + "\n".join(str(one) for one in found[:50]))
    if len(found) > 50:
        print(f"and {len(found) - 50} more")
    only = f" --only '{options.only}'" if options.only else ""
    print(f"FAILED: seed {mix.seed}, commit {_commit()}; data, timeline.txt and timeline.svg: {directory}")
    print(
        f"again: python -m tests.chaos {options.minutes:g} --seed {mix.seed} --round {options.round:g}{only}"
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
    os._exit(code)  # clients that were killed have left what nobody may take down
