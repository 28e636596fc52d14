"""`python -m bench.connection_memory`: the resident memory of a node with thousands of connections.

Each node gets them twice: idle, when each connection has sent its first request, and used, when each has
also written records, one per request. A node is alone, new, and has written records over one connection
before the first figure.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.peers import BrokerProcess

from bench.contenders import SETTINGS, make_broker
from bench.generators import produce_frame
from bench.ottla_forms import OttlaFrom
from bench.plain_client import Fleet
from bench.results import KAFKA, OTTLA, PLAIN

CONNECTIONS = 4_000
REQUESTS_OF_EACH = 10
TOPIC = "news"

_REQUESTS_BEFORE = 2_000
_RECORD_BYTES = 100
_SETTLE_S = 3.0
_SPARE_FILES = 300
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory in bytes: without connections, with idle ones, and when each has been used."""

    before: int
    idle: int
    used: int

    def each_kb(self, connections: int) -> tuple[float, float]:
        """Of one connection: idle, and used."""
        return (self.idle - self.before) / connections / 1e3, (self.used - self.before) / connections / 1e3


def measure(broker: BrokerProcess, connections: int) -> Memory:
    """Start the node and connect to it."""
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(_TIMEOUT_S)
    frame = produce_frame(TOPIC, _RECORD_BYTES)
    with closing(Fleet(broker.port, 1, _TIMEOUT_S)) as one:
        for _ in range(_REQUESTS_BEFORE):
            one.send(0, frame)
            for _place, _answer in one.collect(1):
                pass
    before = _settled(broker)
    with closing(Fleet(broker.port, connections, _TIMEOUT_S)) as fleet:
        idle = _settled(broker)
        for _ in range(REQUESTS_OF_EACH):
            for place in range(connections):
                fleet.send(place, frame)
            for _place, _answer in fleet.collect(connections):
                pass
        return Memory(before, idle, _settled(broker))


def _settled(broker: BrokerProcess) -> int:
    time.sleep(_SETTLE_S)
    return int(psutil.Process(broker.pid).memory_info().rss)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    _raise_file_limit(options.connections + _SPARE_FILES)
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as temporary:
        place = Path(temporary)
        makers: dict[str, Callable[[], BrokerProcess]] = {
            "Kafka": lambda: make_broker(KAFKA, place / KAFKA),
            "Ottla": lambda: make_broker(OTTLA, place / OTTLA),
            "Ottla, not compiled": lambda: make_broker(PLAIN, place / PLAIN),
        }
        for number, source in enumerate(options.source):
            makers[f"Ottla from {source}"] = lambda number=number, source=source: OttlaFrom(  # type: ignore[misc]
                place / f"source-{number}", source, SETTINGS
            )
        print(f"| node | without | {options.connections:,} idle | {options.connections:,} used | of each |")
        print("|---|--:|--:|--:|---|")
        for title, make in makers.items():
            broker = make()
            try:
                memory = measure(broker, options.connections)
            finally:
                broker.close()
            shown = (f"{one / 1e6:,.1f} MB" for one in (memory.before, memory.idle, memory.used))
            idle_kb, used_kb = memory.each_kb(options.connections)
            print(f"| {title} | {' | '.join(shown)} | {idle_kb:.1f} KB, {used_kb:.1f} KB |", flush=True)
    return 0


def _raise_file_limit(files: int) -> None:
    """Let this process, and the nodes that it starts, open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < files:
        raise SystemExit(f"The system allows {hard} open files, and this takes {files}: raise the limit.")
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.connection_memory", description=__doc__)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument(
        "--source",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="also a node from this `src` of another checkout, compiled there; can be repeated",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
