"""The admin client of confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.interop.clients.admins.shape import ALL_OPERATIONS, CONFIG_SOURCES, Assignments, Config, Outcome

_TIMEOUT_S = 30.0


class ConfluentAdmin:
    name = "confluent"
    supports = ALL_OPERATIONS - {"log_dirs"}

    def __init__(self, bootstrap: str) -> None:
        self._client: Any = AdminClient({"bootstrap.servers": bootstrap})

    @staticmethod
    def _outcome(work: Callable[[], Any], shape: Callable[[Any], Any] = lambda _: None) -> Outcome:
        try:
            futures = work()
            future = next(iter(futures.values())) if isinstance(futures, dict) else futures
            return Outcome(0, shape(future.result(_TIMEOUT_S)))
        except KafkaException as error:
            cause = error.args[0]
            return Outcome(cause.code(), None, cause.str())

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
        # The library names no topic whose partition count and assignment are both given.
        place = (
            {"num_partitions": partitions, "replication_factor": replication}
            if assignments is None
            else {"num_partitions": len(assignments), "replica_assignment": [list(a) for a in assignments]}
        )
        new: Any = NewTopic(topic, config=dict(configs or {}), **place)
        return self._outcome(lambda: self._client.create_topics([new], validate_only=validate_only))

    def delete_topic(self, topic: str) -> Outcome:
        return self._outcome(lambda: self._client.delete_topics([topic]))

    def create_partitions(
        self, topic: str, total: int, *, assignments: Assignments | None = None, validate_only: bool = False
    ) -> Outcome:
        place = {} if assignments is None else {"replica_assignment": [list(a) for a in assignments]}
        new: Any = NewPartitions(topic, total, **place)
        return self._outcome(lambda: self._client.create_partitions([new], validate_only=validate_only))

    def describe_topic(self, topic: str) -> Outcome:
        def shape(described: Any) -> list[tuple[int, int, list[int], list[int]]]:
            return [
                (part.id, part.leader.id, [node.id for node in part.replicas], [node.id for node in part.isr])
                for part in described.partitions
            ]

        return self._outcome(lambda: self._client.describe_topics(TopicCollection([topic])), shape)

    def describe_configs(self, kind: str, name: str) -> Outcome:
        resource = ConfigResource(ResourceType[kind.upper()], name)

        def shape(entries: Any) -> dict[str, Config]:
            return {key: Config(e.value, CONFIG_SOURCES[e.source]) for key, e in entries.items()}

        return self._outcome(lambda: self._client.describe_configs([resource]), shape)

    def alter_configs(
        self, kind: str, name: str, *operations: tuple[str, str, str | None], validate_only: bool = False
    ) -> Outcome:
        entries = [
            ConfigEntry(key, text, incremental_operation=AlterConfigOpType[operation.upper()])
            for operation, key, text in operations
        ]
        resource = ConfigResource(ResourceType[kind.upper()], name, incremental_configs=entries)
        return self._outcome(
            lambda: self._client.incremental_alter_configs([resource], validate_only=validate_only)
        )

    def list_offset(self, topic: str, partition: int, spec: str | int) -> Outcome:
        named = {
            "earliest": OffsetSpec.earliest,
            "latest": OffsetSpec.latest,
            "max-timestamp": OffsetSpec.max_timestamp,
        }
        wanted = OffsetSpec.for_timestamp(spec) if isinstance(spec, int) else named[spec]()
        where = TopicPartition(topic, partition)
        return self._outcome(lambda: self._client.list_offsets({where: wanted}), lambda info: info.offset)

    def delete_records(self, topic: str, partition: int, before: int) -> Outcome:
        where = TopicPartition(topic, partition, before)
        return self._outcome(
            lambda: self._client.delete_records([where]), lambda deleted: deleted.low_watermark
        )

    def describe_cluster(self) -> Outcome:
        def shape(cluster: Any) -> tuple[str, int, dict[int, int]]:
            return cluster.cluster_id, cluster.controller.id, {node.id: node.port for node in cluster.nodes}

        return self._outcome(lambda: self._client.describe_cluster(), shape)

    def log_dirs(self) -> Outcome:
        raise AssertionError("not in the library")
