"""How long a transaction takes until a reader sees it: Kafka and Ottla in turn, on three nodes each.

    python -m bench.commit_latency [--ids 12] [--transactions 20] [--rounds 2] [--clusters kafka ottla]

Each transactional id writes one record into a partition of its own and commits, again and again, with a pause
in between, so that every node is idle when a transaction begins: what counts is the way through the cluster,
not its load. One consumer reads what is committed. Both clusters get the same client, Ottla's. The clusters
take turns, so that a busy machine is busy for both. Printed are medians for each id, and over all
transactions the median, the 99th percentile and the most; the first transaction of each id is left out, since
it finds the coordinator and makes the topics that it needs.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.interop import peers

from bench.clusters import Cluster
from bench.results import NAMES
from ottla import aio

TOPIC = "transfers"
PAUSE_S = 0.05
TIMEOUT_S = 60.0
SETTINGS = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "12",
    "offsets.topic.replication.factor": "3",
}
PARTS = ("write", "commit", "commit to seen", "begin to seen")
Times = dict[str, list[float]]


@dataclass(slots=True)
class Plan:
    ids: int
    transactions: int
    rounds: int
    clusters: Sequence[str]


class Reader:
    """A consumer of committed records, which notes when each arrived."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self._seen: dict[bytes, asyncio.Future[float]] = {}
        self._consumer = aio.Consumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._partitions = [aio.TopicPartition(TOPIC, index) for index in range(partitions)]

    def expect(self, value: bytes) -> asyncio.Future[float]:
        """When a record with this value has arrived."""
        return self._seen.setdefault(value, asyncio.get_running_loop().create_future())

    async def run(self) -> None:
        async with self._consumer as consumer:
            await consumer.assign(self._partitions)
            while True:
                records = await consumer.poll(1.0)
                now = time.monotonic()
                for record in records:
                    arrived = self.expect(bytes(record.value))
                    if not arrived.done():
                        arrived.set_result(now)


async def measure(bootstrap: str, plan: Plan) -> dict[int, Times]:
    """The times in milliseconds of each id, by part."""
    reader = Reader(bootstrap, plan.ids)
    reading = asyncio.ensure_future(reader.run())
    found = {}
    try:
        for number in range(plan.ids):
            writing = asyncio.ensure_future(_write(bootstrap, number, plan, reader))
            await asyncio.wait((writing, reading), timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()  # it ends by an error alone
            if not writing.done():
                raise TimeoutError(f"The transactions of id {number} did not end within {TIMEOUT_S:g} s.")
            found[number] = writing.result()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return found


async def _write(bootstrap: str, number: int, plan: Plan, reader: Reader) -> Times:
    times: Times = {part: [] for part in PARTS}
    async with aio.Producer(bootstrap_servers=bootstrap, transactional_id=f"bench-{number}") as producer:
        for count in range(plan.transactions + 1):
            value = f"{number}-{count}-{time.monotonic_ns()}".encode()
            arrived = reader.expect(value)
            began = time.monotonic()
            await producer.begin_transaction()
            await (await producer.send(TOPIC, value, partition=number))
            written = time.monotonic()
            await producer.commit_transaction()
            committed = time.monotonic()
            seen = await arrived
            if count:
                steps = (written - began, committed - written, seen - written, seen - began)
                for part, seconds in zip(PARTS, steps, strict=True):
                    times[part].append(seconds * 1000)
            await asyncio.sleep(PAUSE_S)
    return times


def run(plan: Plan) -> dict[str, dict[int, Times]]:
    """All rounds, by cluster and id."""
    total: dict[str, dict[int, Times]] = {
        name: {number: {part: [] for part in PARTS} for number in range(plan.ids)} for name in plan.clusters
    }
    for _ in range(plan.rounds):
        for name in plan.clusters:
            with tempfile.TemporaryDirectory(prefix="commit-latency-") as directory:
                cluster = Cluster(name, Path(directory), SETTINGS)
                try:
                    cluster.start()
                    cluster.create_topic(TOPIC, plan.ids)
                    measured = asyncio.run(measure(cluster.bootstrap, plan))
                finally:
                    cluster.close()
            for number, times in measured.items():
                for part, milliseconds in times.items():
                    total[name][number][part] += milliseconds
    return total


def show(total: dict[str, dict[int, Times]]) -> None:
    names = list(total)
    print("commit to seen, median in ms by transactional id")
    print(f"{'id':>4}" + "".join(f"{name:>10}" for name in names))
    for number in next(iter(total.values())):
        medians = [statistics.median(total[name][number]["commit to seen"]) for name in names]
        print(f"{number:>4}" + "".join(f"{one:>10.1f}" for one in medians))
    print("\nall ids, in ms")
    print(f"{'':16}{'cluster':>8}{'median':>9}{'p99':>9}{'most':>9}{'count':>8}")
    for part in PARTS:
        for name in names:
            values = sorted(one for times in total[name].values() for one in times[part])
            p99 = values[min(int(len(values) * 0.99), len(values) - 1)]
            print(
                f"{part:16}{name:>8}{statistics.median(values):>9.1f}{p99:>9.1f}{values[-1]:>9.1f}"
                f"{len(values):>8}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.commit_latency", description=__doc__)
    parser.add_argument("--ids", type=int, default=12)
    parser.add_argument("--transactions", type=int, default=20, help="of each id, in each round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clusters", nargs="+", choices=NAMES, default=list(NAMES))
    options = parser.parse_args(arguments)
    plan = Plan(options.ids, options.transactions, options.rounds, options.clusters)
    try:
        show(run(plan))
    except (peers.BrokerFailed, peers.PeerMissing) as error:
        print(f"The run broke off: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
