"""The facts that `ottla topic` shows: partitions with state, offsets and sizes; retention; settings.

Rule: a fact that is unavailable (broker down, partition without a leader) is None, not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.configs import ConfigEntry
    from ottla.client.admin.topics import PartitionDescription, TopicDescription

OK = "ok"
UNDER_REPLICATED = "under-replicated"
UNDER_MINIMUM = "under min isr"
OFFLINE = "offline"


def state_of(partition: PartitionDescription, minimum: int | None = None) -> str:
    """The state of a partition; uses `min.insync.replicas` if known."""
    if partition.leader is None:
        return OFFLINE
    # A partition with fewer replicas than the minimum needs exactly all of them.
    if minimum is not None and len(partition.isr) < min(minimum, len(partition.replicas)):
        return UNDER_MINIMUM
    return UNDER_REPLICATED if len(partition.isr) < len(partition.replicas) else OK


def _partition_facts(one: PartitionDescription, minimum: int | None) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "leader": None if one.leader is None else one.leader.id,
        "leader_epoch": one.leader_epoch,
        "replicas": [node.id for node in one.replicas],
        "isr": [node.id for node in one.isr],
        "elr": None if one.elr is None else [node.id for node in one.elr],
        "last_known_elr": None if one.last_known_elr is None else [node.id for node in one.last_known_elr],
        "offline_replicas": list(one.offline),
        "state": state_of(one, minimum),
    }


def _retention(settings: Mapping[str, ConfigEntry]) -> dict[str, Any]:
    def number(name: str) -> int | None:
        value = settings[name].value if name in settings else None
        return None if value is None or int(value) < 0 else int(value)

    policy = settings["cleanup.policy"].value if "cleanup.policy" in settings else None
    return {
        "cleanup_policy": policy,
        "retention_ms": number("retention.ms"),
        "retention_bytes": number("retention.bytes"),
    }


def _overrides(settings: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    from ottla.client.admin import ConfigSource

    return {
        name: one.value
        for name, one in sorted(settings.items())
        if one.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


def listed_facts(topic: TopicDescription) -> dict[str, Any]:
    """The row of a topic in a list."""
    states = [state_of(one) for one in topic.partitions]
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(one.replicas) for one in topic.partitions), default=0),
        "under_replicated": states.count(UNDER_REPLICATED),
        "offline": states.count(OFFLINE),
        "internal": topic.is_internal,
        "topic_id": topic.topic_id,
    }


def add_sizes(
    admin: Admin, described: Mapping[str, TopicDescription], rows: Sequence[dict[str, Any]]
) -> None:
    """Add the size of the leaders' logs to the rows of topics."""
    from ottla.cli.lookups import leader_of, replica_sizes
    from ottla.client.values import TopicPartition

    sizes = replica_sizes(admin, _brokers_of(described.values()))
    for row in rows:
        row["size_bytes"] = sum(
            found.size_bytes
            for one in described[row["topic"]].partitions
            if (leader := leader_of(one)) is not None
            and (found := sizes.get((leader, TopicPartition(row["topic"], one.partition)))) is not None
        )


def _brokers_of(topics: Iterable[TopicDescription]) -> list[int]:
    """The brokers to ask: leaders and in-sync replicas."""
    return sorted({node.id for topic in topics for one in topic.partitions for node in one.isr})


def describe_facts(admin: Admin, described: Mapping[str, TopicDescription]) -> list[dict[str, Any]]:
    """All facts about topics, for `describe` and its JSON."""
    from ottla.cli.lookups import leader_of, replica_sizes
    from ottla.client.admin import OffsetSpec, topic_resource
    from ottla.client.values import TopicPartition

    led = [
        TopicPartition(name, one.partition)
        for name, topic in described.items()
        for one in topic.partitions
        if leader_of(one) is not None
    ]
    earliest = admin.list_offsets(dict.fromkeys(led, OffsetSpec.EARLIEST)).succeeded
    latest = admin.list_offsets(dict.fromkeys(led, OffsetSpec.LATEST)).succeeded
    sizes = replica_sizes(admin, _brokers_of(described.values()))
    configs = admin.describe_configs([topic_resource(name) for name in described]).succeeded
    facts = []
    for name, topic in described.items():
        settings = configs.get(topic_resource(name), {})
        minimum = (
            int(settings["min.insync.replicas"].value or 1) if "min.insync.replicas" in settings else None
        )
        partitions = []
        for one in topic.partitions:
            key = TopicPartition(name, one.partition)
            first, last = earliest.get(key), latest.get(key)
            leader = leader_of(one)
            replica = None if leader is None else sizes.get((leader, key))
            partitions.append(
                _partition_facts(one, minimum)
                | {
                    "earliest": None if first is None else first.offset,
                    "latest": None if last is None else last.offset,
                    "records": None if first is None or last is None else last.offset - first.offset,
                    "size_bytes": None if replica is None else replica.size_bytes,
                }
            )
        facts.append(
            {
                "topic": name,
                "topic_id": topic.topic_id,
                "internal": topic.is_internal,
                "replication_factor": max((len(one.replicas) for one in topic.partitions), default=0),
                "min_insync_replicas": minimum,
                "records": sum(one["records"] or 0 for one in partitions),
                "size_bytes": sum(one["size_bytes"] or 0 for one in partitions),
                "disk_bytes": sum(found.size_bytes for (_, key), found in sizes.items() if key.topic == name),
                "retention": _retention(settings),
                "configs": _overrides(settings),
                "partitions": partitions,
            }
        )
    return facts
