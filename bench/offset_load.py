"""Measures how long a coordinator takes to load a million committed offsets.

Both brokers get the same record batches, written into `__consumer_offsets` as Kafka's coordinator writes
them, and are stopped. The result is the time from a start to the first fetched offset, minus the same time of
a broker whose groups have almost nothing to load.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.interop.peers import BrokerProcess

from bench import machine
from bench.contenders import is_listening, make_broker
from bench.generators import GeneratorFailed
from bench.members import find_coordinator
from bench.offset_batches import COMMITTED_TOPIC, PARTITIONS, commit_batches
from bench.plain_client import Client
from bench.results import NAMES, Measurement
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.produce import ProduceRequest

TOPIC = "__consumer_offsets"
ADMIN_CLIENT_ID = "__admin_client"
"""The only client id with which Kafka allows writes to internal topics."""

_PRODUCE_VERSION = 12
_FETCH_VERSION = 9
_TIMEOUT_S = 120.0
_PAUSE_S = 0.005
_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stopped:
    """A stopped broker, with the last commit that its coordinator has to load."""

    broker: BrokerProcess
    group: str
    offset: int


def time_loads(
    row: str,
    records: int,
    rounds: int,
    directory: Path,
    patience_s: float,
    progress: Callable[[str], None],
    names: Sequence[str] = NAMES,
) -> list[Measurement]:
    """Fill the brokers, then start each of them in turn, with few and with all records."""
    found: list[Measurement] = []
    with ExitStack() as stack:
        few = _fill(PARTITIONS, names, directory / "offsets-few", stack)
        full = _fill(records, names, directory / "offsets", stack)
        progress(f"{row}: {records:,} offset records written")
        for number in range(rounds):
            machine.wait_for_quiet(patience_s)
            for name in names:
                busy, started = machine.busy_cpu_s(), time.monotonic()
                plain_s, plain_cpu_s, _ = _time_start(few[name])
                seconds, cpu_s, memory_mb = _time_start(full[name])
                wall = time.monotonic() - started
                found.append(
                    Measurement(
                        row=row,
                        broker=name,
                        round=number,
                        value=max(0.0, seconds - plain_s),
                        cpu_s=max(0.0, cpu_s - plain_cpu_s),
                        other_cpu_s=max(0.0, machine.busy_cpu_s() - busy - cpu_s - plain_cpu_s),
                        wall_s=wall,
                        memory_mb=memory_mb,
                        details={"plain_start_s": plain_s, "start_s": seconds},
                    )
                )
                progress(
                    f"round {number + 1}/{rounds}  {row:20} {name:6} {seconds - plain_s:>12,.2f} s      "
                    f"start {seconds:.2f} s, without {plain_s:.2f} s, CPU {cpu_s:.2f} s, {memory_mb:.0f} MB"
                )
    return found


def _fill(records: int, names: Sequence[str], directory: Path, stack: ExitStack) -> dict[str, _Stopped]:
    """Start a broker of each kind, write the same offsets into all, and stop them."""
    brokers = {name: make_broker(name, directory / name) for name in names}
    clients = []
    for broker in brokers.values():
        stack.callback(broker.close)
        broker.start()
        find_coordinator(broker.port, COMMITTED_TOPIC, _TIMEOUT_S)
        clients.append(stack.enter_context(Client(broker.port, client_id=ADMIN_CLIENT_ID)))
    group = ""
    for group, batch in commit_batches(records, time.time_ns() // 1_000_000):  # noqa: B007
        for client in clients:
            _produce(client, batch)
    for client in clients:
        client.close()
    for broker in brokers.values():
        broker.stop()
    return {
        name: _Stopped(broker=broker, group=group, offset=records - 1) for name, broker in brokers.items()
    }


def _produce(client: Client, batch: bytes) -> None:
    partition = ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch))
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[partition])
    response = client.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), _PRODUCE_VERSION)
    error = response.responses[0].partition_responses[0].error_code
    if error:
        raise GeneratorFailed(f"Writing offsets into {TOPIC} got error {error}.")


def _time_start(stopped: _Stopped) -> tuple[float, float, float]:
    """(seconds from a start to the last committed offset, CPU seconds until then, memory in MB)."""
    broker = stopped.broker
    started = time.monotonic()
    broker.start(wait=False)
    while not is_listening(broker.port):
        _pause(broker, started)
    with Client(broker.port, timeout_s=_TIMEOUT_S) as client:
        while not _is_loaded(client, stopped):
            _pause(broker, started)
    elapsed = time.monotonic() - started
    process = psutil.Process(broker.pid)
    times, memory = process.cpu_times(), process.memory_info().rss
    broker.stop()
    return elapsed, float(times.user + times.system), memory / 1e6


def _pause(broker: BrokerProcess, started: float) -> None:
    if time.monotonic() - started > _TIMEOUT_S:
        raise GeneratorFailed(f"{broker.kind} loads no offsets:\n{broker.log_tail(20)}")
    time.sleep(_PAUSE_S)


def _is_loaded(client: Client, stopped: _Stopped) -> bool:
    """Whether the coordinator has loaded the last commit; any other response is an error."""
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(
        name=COMMITTED_TOPIC, partition_indexes=[stopped.offset % PARTITIONS]
    )
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=stopped.group, topics=[topic])
    answered = client.ask(OffsetFetchRequest(groups=[group]), _FETCH_VERSION).groups[0]
    if answered.error_code in _NOT_YET:
        return False
    fetched = [(one.committed_offset, one.error_code) for one in answered.topics[0].partitions]
    if answered.error_code or fetched != [(stopped.offset, 0)]:
        raise GeneratorFailed(
            f"{stopped.broker.kind} has {fetched} (error {answered.error_code}) for the last offset, "
            f"and {stopped.offset} was written."
        )
    return True
