"""The load generators: each is a separate process with a deadline, and reports its measurements.

Kafka's own producer tool, a Java consumer and a paced Java producer of ours (bench/java), librdkafka and a
loop over many connections (bench/native). None is faster or slower depending on the broker.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.interop.peers import PEERS, end_process, java_command, javac_compile, start_process

from ottla.records.record import Record, build_batch
from ottla.wire.frame import request_frame
from ottla.wire.messages.produce import ProduceRequest

HERE = Path(__file__).parent
# The JVM options of Kafka's own scripts for tools.
CLIENT_JVM = (
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
FRAME_VERSION = 12  # the last one with topic names instead of ids
_SUMMARY = re.compile(
    r"(?P<records>\d+)(?P<steady> steady state)? records sent, (?P<rate>[\d.]+) records/sec.*?"
    r"(?P<average>[\d.]+) ms avg latency, (?P<max>[\d.]+) ms max latency, "
    r"(?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99.9th"
)


class GeneratorFailed(RuntimeError):
    """A load generator failed; the message ends with its last output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target and the amount of the load."""

    port: int
    topic: str
    partitions: int
    records: int
    passes: int = 1
    timeout_s: int

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measurements of a generator: the row's figure, and others."""

    value: float
    details: Mapping[str, float] = field(default_factory=dict)


def producer_performance(
    target: Target, *, size: int, settings: Sequence[str], throughput: int = -1
) -> Mapping[str, float]:
    """Kafka's ProducerPerformance; its figures without the first third, in which the JVM warms up."""
    command = java_command(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", target.bootstrap, "--topic", target.topic),
        *("--num-records", str(target.records), "--warmup-records", str(target.records // 3)),
        *("--record-size", str(size), "--throughput", str(throughput)),
        *("--reporting-interval", str(target.timeout_s * 2000)),
        *("--command-property", *settings),
        jvm=CLIENT_JVM,
    )
    output = run_program(command, target.timeout_s)
    for found in _SUMMARY.finditer(output):
        if found["steady"]:
            return {
                "records_per_s": float(found["rate"]),
                "bytes_per_s": float(found["rate"]) * size,
                "average_ms": float(found["average"]),
                **{f"{name}_ms": float(found[name]) for name in ("p50", "p95", "p99", "p999", "max")},
            }
    raise GeneratorFailed(f"ProducerPerformance gave no steady state summary:\n{output[-2000:]}")


def java_consumer(target: Target) -> Outcome:
    """One Java consumer reads the whole topic `passes` times; the first half does not count. MB/s."""
    lines = run_program(
        java_command(
            "AssignedConsumer",
            *(target.bootstrap, target.topic, str(target.partitions), str(target.records)),
            *(str(target.passes), str(target.timeout_s)),
            classes=java_classes(),
            jvm=CLIENT_JVM,
        ),
        target.timeout_s,
    ).splitlines()
    counted = [json.loads(line) for line in lines if line.startswith("{")][target.passes // 2 :]
    seconds = sum(one["seconds"] for one in counted)
    return Outcome(
        sum(one["bytes"] for one in counted) / seconds / 1e6,
        {"records_per_s": sum(one["records"] for one in counted) / seconds},
    )


def paced_producer(target: Target, *, size: int, rate: int, settings: Sequence[str]) -> Mapping[str, float]:
    """A constant rate of records; percentiles of their latency in milliseconds, without the first third."""
    command = java_command(
        "PacedProducer",
        *(target.bootstrap, target.topic, str(size), str(rate)),
        *(str(target.records), str(target.records // 3)),
        *settings,
        classes=java_classes(),
        jvm=CLIENT_JVM,
    )
    figures = json.loads(run_program(command, target.timeout_s).strip().splitlines()[-1])
    return {name.removesuffix("_us") + "_ms": value / 1e3 for name, value in figures.items()}


def librdkafka(target: Target, *, role: str, size: int, settings: Sequence[str] = ()) -> Mapping[str, float]:
    """librdkafka in C at full speed: `role` is produce or consume, which repeats `passes` times."""
    command = [
        *(str(native_program("rdkafka_load")), str(librdkafka_path()), role, target.bootstrap, target.topic),
        *(str(target.partitions), str(target.records), str(size), str(target.timeout_s)),
        *settings,
    ]
    figures = [json.loads(run_program(command, target.timeout_s)) for _ in range(target.passes)]
    seconds = sum(one["seconds"] for one in figures)
    return {
        "records_per_s": sum(one["records"] for one in figures) / seconds,
        "bytes_per_s": sum(one["bytes"] for one in figures) / seconds,
    }


def connections(target: Target, *, count: int, size: int) -> Outcome:
    """`count` connections with one produce request each in flight. Requests per second."""
    return outcome_of(connection_load(target, produce_frame(target.topic, size), count))


def connection_load(target: Target, frame: bytes, count: int, rate: int = 0) -> Mapping[str, Any]:
    """`count` connections that send the same frame repeatedly; returns the program's report.

    Together they send `rate` frames per second, or as many as they can.
    """
    with tempfile.NamedTemporaryFile(prefix="ottla-bench-frame-") as file:
        file.write(frame)
        file.flush()
        command = [
            *(str(native_program("connection_load")), str(target.port), file.name),
            *(str(count), str(target.records), str(target.timeout_s), str(rate)),
        ]
        figures: Mapping[str, Any] = json.loads(run_program(command, target.timeout_s))
    return figures


def outcome_of(figures: Mapping[str, Any]) -> Outcome:
    """Requests per second of a `connection_load`."""
    return Outcome(
        figures["requests"] / figures["seconds"],
        {"p50_ms": figures["p50_us"] / 1e3, "p99_ms": figures["p99_us"] / 1e3},
    )


def produce_frame(topic: str, size: int) -> bytes:
    """A produce request, acks=1, with one record for partition 0."""
    record = Record(offset=0, timestamp=time.time_ns() // 1_000_000, key=None, value=b"x" * size)
    batch = build_batch([record])
    partition = ProduceRequest.PartitionProduceData(index=0, records=memoryview(batch))
    topic_data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic_data])
    return request_frame(request, FRAME_VERSION, 1, "bench")


@cache
def librdkafka_path() -> Path:
    """The library inside the confluent-kafka package."""
    package = find_spec("confluent_kafka")
    packages = Path(package.origin or "").parents[1] if package is not None else Path()
    found = sorted(packages.glob("confluent_kafka.libs/librdkafka*.so*"))
    if not found:
        raise GeneratorFailed("This confluent-kafka package brings no librdkafka of its own.")
    return found[0]


def build_all() -> None:
    """Compile everything in advance, so that no measurement waits for a compiler."""
    java_classes()
    native_program("rdkafka_load")
    native_program("connection_load")


def java_classes() -> Path:
    """The Java generators, compiled."""
    return javac_compile(sorted((HERE / "java").glob("*.java")))


@cache
def native_program(name: str) -> Path:
    """The program of a C file, compiled once per content."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise GeneratorFailed("cc is missing: install the package gcc.")
    source = HERE / "native" / f"{name}.c"
    target = PEERS / "native" / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:20]}"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-o", str(made), str(source), "-ldl"], check=True)
        made.rename(target)
    return target


def run_program(command: Sequence[str], timeout_s: int, environment: Mapping[str, str] | None = None) -> str:
    """Run a generator to its end, within `timeout_s` plus a margin; return its output."""
    process = start_process(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    try:
        output, errors = process.communicate(timeout=timeout_s + 10)
    except subprocess.TimeoutExpired as error:
        raise GeneratorFailed(f"{Path(command[0]).name} did not end within {timeout_s + 10} s.") from error
    finally:
        end_process(process)
    if process.returncode:
        last_words = (output[-2000:] + errors[-4000:]).decode(errors="replace")
        raise GeneratorFailed(f"{Path(command[0]).name} ended with {process.returncode}:\n{last_words}")
    return output.decode(errors="replace")
