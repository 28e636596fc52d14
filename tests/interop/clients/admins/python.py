"""The admin client of kafka-python."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import KafkaError, for_code

from tests.interop.clients.admins.shape import ALL_OPERATIONS, Assignments, Config, Outcome


class PythonAdmin:
    name = "kafka-python"
    supports = ALL_OPERATIONS

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _do(self, work: Callable[[Any], Any]) -> Outcome:
        client: Any = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            return Outcome(0, work(client))
        except KafkaError as error:
            return Outcome(int(getattr(error, "errno", -1)), None, str(error))
        finally:
            client.close()

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
        new: dict[str, Any] = {"configs": dict(configs or {})}
        if assignments is None:
            new |= {"num_partitions": partitions, "replication_factor": replication}
        else:
            new["assignments"] = {index: list(nodes) for index, nodes in enumerate(assignments)}
        return self._do(
            lambda client: client.create_topics({topic: new}, validate_only=validate_only) and None
        )

    def delete_topic(self, topic: str) -> Outcome:
        return self._do(lambda client: client.delete_topics([topic]) and None)

    def create_partitions(
        self, topic: str, total: int, *, assignments: Assignments | None = None, validate_only: bool = False
    ) -> Outcome:
        new: Any = total if assignments is None else {"count": total, "assignments": list(assignments)}
        return self._do(
            lambda client: client.create_partitions({topic: new}, validate_only=validate_only) and None
        )

    def describe_topic(self, topic: str) -> Outcome:
        def work(client: Any) -> list[tuple[int, int, list[int], list[int]]]:
            described = client.describe_topics([topic])[0]
            if described["error_code"]:
                raise _python_error(described["error_code"])
            return sorted(
                (part["partition_index"], part["leader_id"], part["replica_nodes"], part["isr_nodes"])
                for part in described["partitions"]
            )

        return self._do(work)

    def describe_configs(self, kind: str, name: str) -> Outcome:
        def work(client: Any) -> dict[str, Config]:
            resource = ConfigResource(ConfigResourceType[kind.upper()], name)
            entries = client.describe_configs([resource], config_filter="all")[kind][name]
            return {key: Config(entry["value"], entry["config_source"]) for key, entry in entries.items()}

        return self._do(work)

    def alter_configs(
        self, kind: str, name: str, *operations: tuple[str, str, str | None], validate_only: bool = False
    ) -> Outcome:
        configs = {key: (AlterConfigOp[operation.upper()], text) for operation, key, text in operations}
        resource = ConfigResource(ConfigResourceType[kind.upper()], name, configs)

        def work(client: Any) -> None:
            answer = client.alter_configs([resource], validate_only=validate_only, raise_on_unknown=False)
            text = answer[kind][name]
            if text != "OK":  # the library gives the error as a text that starts with "[Error 40]"
                raise _python_error(int(re.findall(r"\d+", text)[0]))

        return self._do(work)

    def list_offset(self, topic: str, partition: int, spec: str | int) -> Outcome:
        where = TopicPartition(topic, partition)
        named = {
            "earliest": OffsetSpec.EARLIEST,
            "latest": OffsetSpec.LATEST,
            "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
        }
        wanted = spec if isinstance(spec, int) else named[spec]
        return self._do(lambda client: client.list_partition_offsets({where: wanted})[where].offset)

    def delete_records(self, topic: str, partition: int, before: int) -> Outcome:
        where = TopicPartition(topic, partition)
        return self._do(lambda client: client.delete_records({where: before})[where]["low_watermark"])

    def describe_cluster(self) -> Outcome:
        def work(client: Any) -> tuple[str, int, dict[int, int]]:
            cluster = client.describe_cluster()
            nodes = {node["broker_id"]: node["port"] for node in cluster["brokers"]}
            return cluster["cluster_id"], cluster["controller_id"], nodes

        return self._do(work)

    def log_dirs(self) -> Outcome:
        def work(client: Any) -> dict[str, dict[tuple[str, int], int]]:
            return {
                directory["log_dir"]: {
                    (topic["name"], part["partition_index"]): part["partition_size"]
                    for topic in directory["topics"]
                    for part in topic["partitions"]
                }
                for directory in client.describe_log_dirs()[0]["log_dirs"]
            }

        return self._do(work)


def _python_error(code: int) -> KafkaError:
    made: KafkaError = for_code(code)()
    return made
