"""The difference of two cluster states, for a node that loaded a snapshot and skipped the records.

The delta equals that of replaying those records, so subscribers of deltas need not distinguish them.
"""

from __future__ import annotations

from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.controller.registrations import Topic


def difference(before: ClusterImage, after: ClusterImage) -> ImageDelta:
    """The changes that lead from `before` to `after`."""
    delta = ImageDelta()
    delta.first_offset, delta.last_offset = before.offset + 1, after.offset
    for topic_id, topic in before.topics.items():
        if topic_id not in after.topics:
            delta.topics_deleted[topic_id] = topic
    for topic_id, topic in after.topics.items():
        known = before.topics.get(topic_id)
        if known is None:
            delta.topics_created[topic_id] = topic
        _compare_partitions(known, topic, delta)
    delta.configs_changed = {
        resource
        for resource in before.configs.keys() | after.configs.keys()
        if before.configs.get(resource) != after.configs.get(resource)
    }
    delta.brokers_changed = {
        broker_id
        for broker_id in before.brokers.keys() | after.brokers.keys()
        if before.brokers.get(broker_id) != after.brokers.get(broker_id)
    }
    delta.controllers_changed = {
        controller_id
        for controller_id in before.controllers.keys() | after.controllers.keys()
        if before.controllers.get(controller_id) != after.controllers.get(controller_id)
    }
    delta.features_changed = before.features != after.features
    delta.client_quotas_changed = before.client_quotas != after.client_quotas
    delta.acls_changed = before.acls != after.acls
    delta.scram_changed = before.scram != after.scram
    delta.delegation_tokens_changed = before.delegation_tokens != after.delegation_tokens
    delta.producer_ids_changed = before.next_producer_id != after.next_producer_id
    return delta


def _compare_partitions(before: Topic | None, after: Topic, delta: ImageDelta) -> None:
    for index, partition in after.partitions.items():
        known = None if before is None else before.partitions.get(index)
        if known != partition:
            delta.partition_changed(after.id, index, known)
