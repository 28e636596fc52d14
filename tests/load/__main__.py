"""`python -m tests.load`: 4,000 open connections, 500 stalled consumers, and a storm of new connections.

Prints what was measured; `--connections`, `--consumers`, `--per-second` and `--seconds` choose other numbers.
"""

from __future__ import annotations

import argparse

from ottla.testing import Broker
from tests.load.crowd import fill, hold_open, raise_file_limit, resident_bytes, stall, storm


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--connections", type=int, default=4000)
    parser.add_argument("--consumers", type=int, default=500)
    parser.add_argument("--per-second", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    connections = min(options.connections, raise_file_limit(options.connections))
    if connections < options.connections:
        print(f"The system allows {connections} open files and not {options.connections}.")
    with Broker(in_process=False) as broker:
        fill(broker, 20)
        print(f"a node with 20 MB of records: {resident_bytes(broker) / 2**20:.0f} MB", flush=True)
        held = hold_open(broker, connections)
        print(
            f"{held.count} open connections: {held.bytes_each / 1024:.1f} KB each; the slowest of 200 "
            f"requests of another client took {held.round_trip_ms:.1f} ms",
            flush=True,
        )
        for fetches, answer_bytes in ((20, 1 << 20), (200, 50_000), (400, 2_000)):
            stalled = stall(broker, options.consumers, fetches=fetches, answer_bytes=answer_bytes)
            print(
                f"{stalled.count} stalled consumers, {fetches} fetches of {answer_bytes // 1000} KB each: "
                f"{stalled.grown_bytes / 2**20:.1f} MB more",
                flush=True,
            )
        blown = storm(broker, per_second=options.per_second, seconds=options.seconds)
        print(
            f"a storm of {blown.connections} connections in {blown.seconds:.1f} s, {blown.refused} refused, "
            f"{blown.grown_bytes / 2**20:.1f} MB more; p99 of {blown.requests} requests of another client: "
            f"{blown.p99_ms:.2f} ms, before it {blown.p99_before_ms:.2f} ms "
            f"({blown.p99_ms / blown.p99_before_ms:.2f} times)"
        )


if __name__ == "__main__":
    main()
