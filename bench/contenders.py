"""The two brokers as processes with the same settings, and measurements from outside."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic
from tests.interop.peers import BrokerProcess, KafkaBroker, OttlaBroker, answers_metadata, wait_until

from bench.ceiling import CeilingBroker
from bench.ottla_forms import PlainOttla
from bench.results import CEILING, KAFKA, PLAIN

# The JVM options of Kafka's own start script.
BROKER_JVM = (
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
# Delete topics from the disk soon, so that their pages are dropped instead of written back.
SETTINGS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "1000",
    # Lets a group of the consumer protocol rebalance as fast as its coordinator can.
    "group.consumer.assignment.interval.ms": "100",
}
_ADMIN_TIMEOUT_S = 60.0
_START_TIMEOUT_S = 60.0
_PROBE_PAUSE_S = 0.002


def make_broker(name: str, directory: Path) -> BrokerProcess:
    if name == KAFKA:
        return KafkaBroker(directory, jvm=BROKER_JVM, properties=SETTINGS)
    if name == CEILING:
        return CeilingBroker(directory, properties=SETTINGS)
    if name == PLAIN:
        return PlainOttla(directory, properties=SETTINGS)
    return OttlaBroker(directory, properties=SETTINGS)


class Contender:
    """A running broker under measurement."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.broker = make_broker(name, directory)
        self.broker.start()
        self._process = psutil.Process(self.broker.pid)

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def port(self) -> int:
        return self.broker.port

    def cpu_s(self) -> float:
        """CPU seconds of the broker's process so far, in user and kernel mode."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def memory_mb(self) -> float:
        """Resident memory."""
        return float(self._process.memory_info().rss) / 1e6

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic and wait until each of its partitions answers."""
        admin = self._admin()  # must live until the response arrives
        created = admin.create_topics([NewTopic(topic, partitions, 1)], request_timeout=30)
        created[topic].result(_ADMIN_TIMEOUT_S)
        wait_until(lambda: self._is_ready(topic, partitions), _ADMIN_TIMEOUT_S, f"{topic} to be ready")

    def _is_ready(self, topic: str, partitions: int) -> bool:
        try:
            return self.record_count(topic, partitions) == 0
        except KafkaException:
            return False

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until its files are deleted, so that no later load pays for that."""
        admin = self._admin()
        admin.delete_topics([topic], request_timeout=30)[topic].result(_ADMIN_TIMEOUT_S)
        data = self.broker.data
        wait_until(
            lambda: (
                not any(name.startswith(f"{topic}-") or name.endswith("-delete") for name in os.listdir(data))
            ),
            _ADMIN_TIMEOUT_S,
            f"the files of {topic} to be gone; {self.name} says:\n{self.broker.log_tail(20)}",
            pause_s=0.1,
        )

    def record_count(self, topic: str, partitions: int) -> int:
        """The records of a topic without deletions: the sum of its end offsets."""
        asked = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
        admin = self._admin()
        answers = admin.list_offsets(asked, request_timeout=30)
        return sum(answer.result(_ADMIN_TIMEOUT_S).offset for answer in answers.values())

    def close(self) -> None:
        self.broker.close()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "socket.timeout.ms": 60_000, "log_level": 0})


def time_start(broker: BrokerProcess) -> tuple[float, float]:
    """Start a stopped, formatted broker: (seconds to its first metadata response, CPU seconds until then).

    The clock starts before the process does, so it includes loading the interpreter or the JVM.
    """
    started = time.monotonic()
    broker.start(wait=False)
    while not _answers(broker.port):
        if time.monotonic() - started > _START_TIMEOUT_S:
            broker.wait_ready()  # raises the reason
        time.sleep(_PROBE_PAUSE_S)
    elapsed = time.monotonic() - started
    times = psutil.Process(broker.pid).cpu_times()
    return elapsed, float(times.user + times.system)


def is_listening(port: int) -> bool:
    """Whether the port is open, a check cheap enough to repeat often."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers(port: int) -> bool:
    return is_listening(port) and answers_metadata("127.0.0.1", port, 10.0)
