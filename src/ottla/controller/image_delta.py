"""The changes of a run of committed records, for subscribers such as the broker on this node.

`ClusterImage.replay` fills it. It names what has changed; the new values are in the image.
"""

from __future__ import annotations

from ottla.controller.registrations import PartitionRegistration, Topic

ConfigResource = tuple[int, str]
"""(resource type code, resource name)."""


class ImageDelta:
    """The changes between two states of a `ClusterImage`. False where nothing changed."""

    __slots__ = (
        "acls_changed",
        "brokers_changed",
        "client_quotas_changed",
        "configs_changed",
        "controllers_changed",
        "delegation_tokens_changed",
        "features_changed",
        "first_offset",
        "last_offset",
        "partitions_changed",
        "producer_ids_changed",
        "scram_changed",
        "topics_created",
        "topics_deleted",
    )

    def __init__(self) -> None:
        self.first_offset = -1
        self.last_offset = -1
        self.topics_created: dict[bytes, Topic] = {}
        self.topics_deleted: dict[bytes, Topic] = {}  # as they last were
        self.partitions_changed: dict[bytes, dict[int, PartitionRegistration | None]] = {}
        """By topic id and partition: the previous value; None for a new partition."""
        self.configs_changed: set[ConfigResource] = set()
        self.brokers_changed: set[int] = set()
        self.controllers_changed: set[int] = set()
        self.features_changed = False
        self.client_quotas_changed = False
        self.acls_changed = False
        self.scram_changed = False
        self.delegation_tokens_changed = False
        self.producer_ids_changed = False

    def __bool__(self) -> bool:
        return bool(
            self.topics_created
            or self.topics_deleted
            or self.partitions_changed
            or self.configs_changed
            or self.brokers_changed
            or self.controllers_changed
            or self.features_changed
            or self.client_quotas_changed
            or self.acls_changed
            or self.scram_changed
            or self.delegation_tokens_changed
            or self.producer_ids_changed
        )

    def partition_changed(
        self, topic_id: bytes, partition: int, before: PartitionRegistration | None
    ) -> None:
        """Keep the value from before the first change in this delta."""
        changed = self.partitions_changed.get(topic_id)
        if changed is None:
            changed = self.partitions_changed[topic_id] = {}
        if partition not in changed:
            changed[partition] = before

    def topic_deleted(self, topic: Topic) -> None:
        """A topic that was created and deleted within the delta leaves no trace in it."""
        self.partitions_changed.pop(topic.id, None)
        if self.topics_created.pop(topic.id, None) is None:
            self.topics_deleted[topic.id] = topic
