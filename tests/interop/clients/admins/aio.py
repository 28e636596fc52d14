"""The admin client of aiokafka; offsets are asked through its consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.interop.clients.admins.shape import ALL_OPERATIONS, CONFIG_SOURCES, Assignments, Config, Outcome


class AioAdmin:
    name = "aiokafka"
    supports = ALL_OPERATIONS - {"log_dirs", "describe_cluster", "alter_configs"}

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def _do(self, work: Callable[[Any], Coroutine[Any, Any, Outcome]]) -> Outcome:
        async def run() -> Outcome:
            client = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await client.start()
            try:
                return await work(client)
            except KafkaError as error:
                return Outcome(int(getattr(error, "errno", -1)), None, str(error))
            finally:
                await client.close()

        return asyncio.run(run())

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
        place = None if assignments is None else {i: list(nodes) for i, nodes in enumerate(assignments)}
        new = NewTopic(topic, partitions, replication, place, dict(configs or {}))

        async def work(client: Any) -> Outcome:
            answer = await client.create_topics([new], validate_only=validate_only)
            return Outcome(answer.topic_errors[0][1])

        return self._do(work)

    def delete_topic(self, topic: str) -> Outcome:
        async def work(client: Any) -> Outcome:
            answer = await client.delete_topics([topic])
            return Outcome(answer.topic_error_codes[0][1])

        return self._do(work)

    def create_partitions(
        self, topic: str, total: int, *, assignments: Assignments | None = None, validate_only: bool = False
    ) -> Outcome:
        new = NewPartitions(total, None if assignments is None else [list(nodes) for nodes in assignments])

        async def work(client: Any) -> Outcome:
            answer = await client.create_partitions({topic: new}, validate_only=validate_only)
            return Outcome(answer.topic_errors[0][1])

        return self._do(work)

    def describe_topic(self, topic: str) -> Outcome:
        async def work(client: Any) -> Outcome:
            described = (await client.describe_topics([topic]))[0]
            partitions = sorted(
                (part["partition"], part["leader"], list(part["replicas"]), list(part["isr"]))
                for part in described["partitions"]
            )
            code = described["error_code"]
            return Outcome(code, None if code else partitions)

        return self._do(work)

    def describe_configs(self, kind: str, name: str) -> Outcome:
        async def work(client: Any) -> Outcome:
            resource = ConfigResource(ConfigResourceType[kind.upper()], name)
            code, _, _, _, entries = (await client.describe_configs([resource]))[0].resources[0]
            found = {entry[0]: Config(entry[1], CONFIG_SOURCES[entry[3]]) for entry in entries}
            return Outcome(code, None if code else found)

        return self._do(work)

    def alter_configs(
        self, kind: str, name: str, *operations: tuple[str, str, str | None], validate_only: bool = False
    ) -> Outcome:
        raise AssertionError("the library knows no incremental change")

    def list_offset(self, topic: str, partition: int, spec: str | int) -> Outcome:
        where = TopicPartition(topic, partition)

        async def run() -> Outcome:
            consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, request_timeout_ms=5000)
            await consumer.start()
            try:
                if spec == "earliest":
                    return Outcome(0, (await consumer.beginning_offsets([where]))[where])
                if spec == "latest":
                    return Outcome(0, (await consumer.end_offsets([where]))[where])
                found = (await consumer.offsets_for_times({where: spec}))[where]
                return Outcome(0, -1 if found is None else found.offset)
            finally:
                await consumer.stop()

        return asyncio.run(run())

    def delete_records(self, topic: str, partition: int, before: int) -> Outcome:
        where = TopicPartition(topic, partition)

        async def work(client: Any) -> Outcome:
            answer = await client.delete_records({where: RecordsToDelete(before)})
            return Outcome(0, answer[where])

        return self._do(work)

    def describe_cluster(self) -> Outcome:
        raise AssertionError("the library asks with a Metadata version that names no controller")

    def log_dirs(self) -> Outcome:
        raise AssertionError("not in the library")
