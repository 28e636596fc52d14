"""The admin client of Kafka itself, through the agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tests.interop.clients.admins.shape import ALL_OPERATIONS, Assignments, Config, Outcome
from tests.interop.clients.java import JavaFailure, agent


class JavaAdmin:
    name = "java"
    supports = ALL_OPERATIONS

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _ask(
        self, operation: str, shape: Callable[[Any], Any] = lambda _: None, **arguments: object
    ) -> Outcome:
        try:
            answer = agent().ask(
                {
                    "op": operation,
                    "bootstrap": self._bootstrap,
                    "config": {"default.api.timeout.ms": "20000", "request.timeout.ms": "20000"},
                    **arguments,
                }
            )
        except JavaFailure as error:
            return Outcome(error.code, None, str(error))
        return Outcome(0, shape(answer))

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = -1,
        replication: int = -1,
        configs: Mapping[str, str] | None = None,
        assignments: Assignments | None = None,
        validate_only: bool = False,
    ) -> Outcome:
        return self._ask(
            "create_topic",
            topic=topic,
            partitions=partitions,
            replication=replication,
            configs=dict(configs or {}),
            assignments=assignments,
            validate_only=validate_only,
        )

    def delete_topic(self, topic: str) -> Outcome:
        return self._ask("delete_topic", topic=topic)

    def create_partitions(
        self, topic: str, total: int, *, assignments: Assignments | None = None, validate_only: bool = False
    ) -> Outcome:
        return self._ask(
            "create_partitions",
            topic=topic,
            total=total,
            assignments=assignments,
            validate_only=validate_only,
        )

    def describe_topic(self, topic: str) -> Outcome:
        return self._ask("describe_topic", lambda a: [tuple(p) for p in a["partitions"]], topic=topic)

    def describe_configs(self, kind: str, name: str) -> Outcome:
        def shape(answer: Any) -> dict[str, Config]:
            return {key: Config(entry[0], entry[1]) for key, entry in answer["entries"].items()}

        return self._ask("describe_configs", shape, kind=kind, name=name)

    def alter_configs(
        self, kind: str, name: str, *operations: tuple[str, str, str | None], validate_only: bool = False
    ) -> Outcome:
        return self._ask(
            "alter_configs", kind=kind, name=name, operations=operations, validate_only=validate_only
        )

    def list_offset(self, topic: str, partition: int, spec: str | int) -> Outcome:
        return self._ask("list_offset", lambda a: a["offset"], topic=topic, partition=partition, spec=spec)

    def delete_records(self, topic: str, partition: int, before: int) -> Outcome:
        return self._ask(
            "delete_records", lambda a: a["low_watermark"], topic=topic, partition=partition, before=before
        )

    def describe_cluster(self) -> Outcome:
        def shape(answer: Any) -> tuple[str, int, dict[int, int]]:
            return answer["cluster_id"], answer["controller"], {node[0]: node[2] for node in answer["nodes"]}

        return self._ask("describe_cluster", shape)

    def log_dirs(self) -> Outcome:
        def shape(answer: Any) -> dict[str, dict[tuple[str, int], int]]:
            return {
                path: {_topic_partition(where): replica[0] for where, replica in replicas.items()}
                for path, replicas in answer["directories"].items()
            }

        return self._ask("log_dirs", shape, broker=1)

    def describe_producers(self, topic: str, partition: int) -> Outcome:
        """value: [[producer id, epoch, last sequence, coordinator epoch, transaction start], ...]"""
        return self._ask("describe_producers", lambda a: a["producers"], topic=topic, partition=partition)

    def describe_quorum(self) -> Outcome:
        """value: (leader, voters)"""
        return self._ask("describe_quorum", lambda a: (a["leader"], a["voters"]))

    def describe_features(self) -> Outcome:
        """value: ({name: finalized level}, {name: [min, max]})"""
        return self._ask("describe_features", lambda a: (a["finalized"], a["supported"]))


def _topic_partition(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"(.*)-(\d+)", text)
    assert match is not None, text
    return match[1], int(match[2])
