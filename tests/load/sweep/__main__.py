"""`python -m tests.load.sweep`: large and repetitive requests of every API and version against one node.

`--count 100000` elements in the array that is long, `--apis 9,15` only these keys, `--newest` only the newest
version of each, `--table` as Markdown, one row for an API with its worst request. `--changes` instead: the
largest changes that a controller accepts, on an empty node.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from ottla.wire.apis import API_BY_KEY
from tests.load.sweep.changes import measure_changes
from tests.load.sweep.node import LONG_TURN_MS
from tests.load.sweep.run import Measured, Other, measure, served, swept_node
from tests.load.sweep.shapes import shapes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.load.sweep", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--share", type=float, default=1.0, help="of what the node is filled with")
    parser.add_argument("--apis", default="")
    parser.add_argument("--newest", action="store_true")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--changes", action="store_true")
    options = parser.parse_args()
    if options.changes:
        with tempfile.TemporaryDirectory() as directory:
            for change in measure_changes(Path(directory)):
                _tell(change)
        return
    wanted = {int(key) for key in options.apis.split(",") if key}
    found: dict[int, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as directory, swept_node(Path(directory), share=options.share) as node:
        other = Other(node.port)
        for key, version, at_controller in served():
            newest = API_BY_KEY[key].stable_versions[-1]
            if (wanted and key not in wanted) or (options.newest and version != newest):
                continue
            for shape in shapes(key, version, options.count):
                measured = measure(node, other, shape, at_controller=at_controller)
                if measured is None:
                    continue
                found.setdefault(key, []).append(measured)
                _tell(measured)
                if not node.is_alive:
                    raise SystemExit(f"The node ended by {API_BY_KEY[key].name} v{version}: {shape.name}")
        other.close()
        print(Path(directory, "output").read_text())
    if options.table:
        options.table.write_text(table(found))


def _tell(measured: Measured) -> None:
    print(
        f"{API_BY_KEY[measured.api_key].name} v{measured.version} {measured.name}: "
        f"{measured.request_bytes >> 10} KB, answer "
        f"{measured.answer_bytes >> 10} KB, turn {measured.turn_ms:.0f} ms, other waited "
        f"{measured.waited_ms:.0f} ms, {measured.grown_bytes >> 20} MB"
        f"{' <--' if measured.turn_ms > LONG_TURN_MS else ''}",
        flush=True,
    )


def table(found: dict[int, list[Measured]]) -> str:
    """One row for each API: its longest turn, the longest wait, and the most memory."""
    rows = [
        "| API | requests | longest turn (ms) | in a request of | longest wait of another client (ms) "
        "| most memory (MB) |",
        "|---|---|---|---|---|---|",
    ]
    for key, all_measured in found.items():
        worst = max(all_measured, key=lambda one: one.turn_ms)
        rows.append(
            f"| {API_BY_KEY[key].name} | {len(all_measured)} | {worst.turn_ms:.0f} "
            f"| {worst.name} (v{worst.version}) "
            f"| {max(one.waited_ms for one in all_measured):.0f} "
            f"| {max(one.grown_bytes for one in all_measured) >> 20} |"
        )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
