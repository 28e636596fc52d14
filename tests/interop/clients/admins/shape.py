"""What the admin clients have in common: every operation returns an `Outcome` with Kafka's error code.

A code of 0 means success. What a library cannot do is missing from its `supports`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Assignments = Sequence[Sequence[int]]
CONFIG_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation went; `value` is in the operation's own shape, the same for all clients."""

    code: int
    value: Any = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    value: str | None
    source: str


class Admin(Protocol):
    """The operations. Config `operations` are (set, delete, append or subtract; name; text)."""

    name: str
    supports: frozenset[str]

    def __init__(self, bootstrap: str) -> None: ...

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        configs: Mapping[str, str] | None = None,
        assignments: Assignments | None = None,
        validate_only: bool = False,
    ) -> Outcome: ...

    def delete_topic(self, topic: str) -> Outcome: ...

    def create_partitions(
        self, topic: str, total: int, *, assignments: Assignments | None = None, validate_only: bool = False
    ) -> Outcome: ...

    def describe_topic(self, topic: str) -> Outcome:
        """value: [(partition, leader, replicas, in-sync replicas), ...]"""

    def describe_configs(self, kind: str, name: str) -> Outcome:
        """value: {name: Config}"""

    def alter_configs(
        self, kind: str, name: str, *operations: tuple[str, str, str | None], validate_only: bool = False
    ) -> Outcome: ...

    def list_offset(self, topic: str, partition: int, spec: str | int) -> Outcome:
        """value: the offset; `spec` is earliest, latest, max-timestamp or a timestamp."""

    def delete_records(self, topic: str, partition: int, before: int) -> Outcome:
        """value: the new low watermark"""

    def describe_cluster(self) -> Outcome:
        """value: (cluster id, controller id, {node id: port})"""

    def log_dirs(self) -> Outcome:
        """value: {directory: {(topic, partition): size}}"""


ALL_OPERATIONS = frozenset(
    {
        "create_topic",
        "delete_topic",
        "create_partitions",
        "describe_topic",
        "describe_configs",
        "alter_configs",
        "list_offset",
        "delete_records",
        "describe_cluster",
        "log_dirs",
    }
)
