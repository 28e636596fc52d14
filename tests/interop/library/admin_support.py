"""What the tests of the admin share: a topic that every broker knows."""

from __future__ import annotations

from functools import partial

from ottla.client.admin import Admin, NewTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.interop.library.support import LibraryCluster, eventually, unique

PATIENCE_MS = 120_000


def made(admin: Admin, cluster: LibraryCluster, name: str, partitions: int = 1, **configs: str) -> str:
    """A new topic, known to every broker and with leaders: any of them may be asked about it."""
    topic = unique(name)
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions, cluster.replication, configs=settings)]).all()
    for node in admin.describe_cluster().nodes:
        eventually(partial(_knows, admin, node.id, topic, partitions), f"{topic} at broker {node.id}")
    return topic


def _knows(admin: Admin, node_id: int, topic: str, partitions: int) -> bool:
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    answer: MetadataResponse = admin._perform(
        lambda engine: engine.ask(node_id, request, timeout_ms=PATIENCE_MS)
    )
    (told,) = answer.topics
    return len(told.partitions) == partitions and all(
        not one.error_code and one.leader_id >= 0 for one in told.partitions
    )
