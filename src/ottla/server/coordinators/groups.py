"""The group coordinator of this node, and what both coordinators need of a node.

Groups live in `__consumer_offsets`. `ottla.coordinator` has the state machines and their runtime; this module
connects them to the node's partitions, configuration and metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ottla.config import ResourceType
from ottla.coordinator.active_shard import HostedPartition
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.groups.shard import GroupShard
from ottla.coordinator.records import kinds_of
from ottla.coordinator.result import Caller
from ottla.coordinator.runtime import Coordinator
from ottla.records.batch import Codec
from ottla.server.broker import GROUPS_TOPIC
from ottla.server.coordinators.requests import CoordinatorRequests
from ottla.server.parts import HasClock, HasConfig, HasImage, HasRandom, HasSlices
from ottla.server.replicas.partition import FlushingParts, flush_soon
from ottla.wire.messages import group_records

if TYPE_CHECKING:
    from ottla.controller.image import ClusterImage
    from ottla.controller.image_delta import ImageDelta
    from ottla.server.net.dispatch import RequestContext
    from ottla.server.replicas.partition import Partitions


class Parts(FlushingParts, HasConfig, HasImage, HasClock, HasRandom, HasSlices, Protocol):
    """The parts of a node that `GroupCoordinator` uses."""


class PartitionCountParts(HasConfig, HasImage, Protocol):
    """The parts of a node that `internal_partition_count` looks in."""


def caller_of(context: RequestContext) -> Caller:
    return Caller(context.version, context.client_id or "", f"/{context.connection.peer_host}")


class GroupCoordinator:
    """The group coordinator of this node."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = self._read_settings()
        self.coordinator = Coordinator(
            topic=GROUPS_TOPIC,
            partition_count=lambda: internal_partition_count(
                parts, GROUPS_TOPIC, "offsets.topic.num.partitions"
            ),
            hosted=lambda: hosted_partitions(parts.partitions, GROUPS_TOPIC),
            new_shard=self._new_shard,
            kinds=kinds_of(group_records),
            clock=parts.clock,
            slices=parts.slices,
            write_timeout_ms=parts.config.int_of("offsets.commit.timeout.ms"),
            flush=lambda partition: flush_soon(parts, partition.topic, partition.index),
            run_effect=_no_effects,
            codec=Codec(parts.config.int_of("offsets.topic.compression.codec")),
        )
        self.requests = CoordinatorRequests(self.coordinator)

    def start(self) -> None:
        self.coordinator.update_leadership()

    def on_metadata(self, image: ClusterImage, delta: ImageDelta) -> None:
        if any(kind in (ResourceType.BROKER, ResourceType.GROUP) for kind, _name in delta.configs_changed):
            self._settings = self._read_settings()
            for active in self.coordinator.loaded():
                active.shard.settings = self._settings
        self.coordinator.on_metadata(image, delta)

    def close(self) -> None:
        self.coordinator.close()

    def _new_shard(self, index: int) -> GroupShard:
        parts = self._parts
        return GroupShard(
            index=index,
            image=parts.image,
            clock=parts.clock,
            random=parts.random,
            settings=self._settings,
        )

    def _read_settings(self) -> GroupSettings:
        texts: Mapping[str, Mapping[str, str]] = {
            name: values
            for (kind, name), values in self._parts.image.configs.items()
            if kind == ResourceType.GROUP
        }
        return GroupSettings(self._parts.config, texts)


def internal_partition_count(parts: PartitionCountParts, topic: str, setting: str) -> int:
    """The partition count of an internal topic, or the one that it will be created with."""
    known = parts.image.topics_by_name.get(topic)
    return len(known.partitions) if known is not None else parts.config.int_of(setting)


def hosted_partitions(partitions: Partitions, topic: str) -> list[HostedPartition]:
    return list(partitions.by_name.get(topic, {}).values())


def _no_effects(_index: int, effect: Any) -> None:
    raise AssertionError(f"groups have no effects, but got {effect!r}")
