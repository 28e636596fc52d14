"""What the tests of the client library share: a cluster's facts, names, and readers that we did not write."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_SECONDS = 120

_numbers = itertools.count()


@dataclass(frozen=True)
class LibraryCluster:
    """`kind` is "ottla-1", "ottla-3" or "kafka"; `nodes` is what runs them."""

    bootstrap: str
    kind: str
    nodes: Any

    @property
    def replication(self) -> int:
        return 3 if self.kind == "ottla-3" else 1


def unique(name: str) -> str:
    """A name that no other test uses."""
    return f"{name}-{next(_numbers)}-{secrets.token_hex(3)}"


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """The first true result of `condition`."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"gave up waiting for {what}; last seen: {found!r}")
        time.sleep(0.05)
    return found


def make_topic(
    cluster: LibraryCluster, name: str, partitions: int = 1, config: dict[str, str] | None = None
) -> str:
    """A new topic, made by confluent-kafka; usable once this returns."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = unique(name)
    new = NewTopic(topic, partitions, cluster.replication, config=config or {})
    admin.create_topics([new], operation_timeout=60, request_timeout=60)[topic].result(PATIENCE_SECONDS)

    def has_leaders() -> bool:
        try:
            found = admin.list_topics(topic, timeout=30).topics[topic]
        except KafkaException:
            return False
        return len(found.partitions) == partitions and all(
            one.leader >= 0 for one in found.partitions.values()
        )

    eventually(has_leaders, f"leaders of {topic}")
    return topic


def read_all(
    cluster: LibraryCluster, topic: str, partitions: int = 1, *, committed: bool = True
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """(partition, offset, key, value) of all that a topic holds, as confluent-kafka reads it."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        while len(ended) < partitions:
            assert time.monotonic() < deadline, (
                f"{topic} was not read to its end: {len(found)} records so far"
            )
            for message in consumer.consume(500, timeout=1):
                if message.error() is None:
                    found.append((message.partition(), message.offset(), message.key(), message.value()))
                elif message.error().name() == "_PARTITION_EOF":
                    ended.add(message.partition())
    finally:
        consumer.close()
    return found


def values_of(cluster: LibraryCluster, topic: str, partitions: int = 1) -> list[bytes | None]:
    """The committed values of a topic, by partition and offset."""
    return [value for _, _, _, value in sorted(read_all(cluster, topic, partitions), key=lambda one: one[:2])]
