"""The admin while nodes die: calls find the next controller, leader and coordinator, and end well."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ottla.client.admin import Admin, NewTopic, OffsetSpec
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.testing import Cluster
from ottla.wire.errors import TopicAlreadyExists
from tests.interop.library.support import eventually, unique

PATIENCE_MS = 180_000


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(3, overrides={"offsets.topic.num.partitions": "1"}) as nodes:
        yield nodes


@pytest.fixture
def admin(three: Cluster) -> Iterator[Admin]:
    with Admin(
        three.bootstrap_servers, default_api_timeout_ms=PATIENCE_MS, request_timeout_ms=20_000
    ) as made:
        yield made
    for node in three.node_ids:
        if node not in three.running:
            three.start(node)


def everywhere(admin: Admin, topic: str, keys: list[TopicPartition]) -> None:
    """Wait until the topic has leaders and three replicas in sync."""

    def is_ready() -> bool:
        described = admin.describe_topics([topic])
        return (
            not described.failed
            and all(len(one.isr) == 3 for one in described.result(topic).partitions)
            and not admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST)).failed
        )

    eventually(is_ready, f"three replicas of {topic} in sync")


def test_offsets_are_listed_while_a_leader_dies(three: Cluster, admin: Admin) -> None:
    topic = unique("offsets")
    keys = [TopicPartition(topic, index) for index in range(6)]
    admin.create_topics([NewTopic(topic, 6, 3)]).all()
    everywhere(admin, topic, keys)
    leader = admin.describe_topics([topic]).result(topic).partitions[0].leader
    assert leader is not None

    # The call begins while the node is there for its client, and the node is gone when it is asked.
    three.kill(leader.id)
    results = admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST))

    assert {key: one.offset for key, one in results.all().items()} == dict.fromkeys(keys, 0)


def test_topics_are_made_while_the_controller_dies(three: Cluster, admin: Admin) -> None:
    names = [unique("controller") for _ in range(30)]
    active = admin.describe_metadata_quorum().leader_id
    killing = threading.Timer(0.05, three.kill, [active])
    killing.start()
    try:
        for name in names:
            outcome = admin.create_topics([NewTopic(name, 1, 1)])[name]
            # An answer that was lost with its node is asked for again, and then the topic is there.
            assert not isinstance(outcome, Exception) or isinstance(outcome, TopicAlreadyExists), outcome
    finally:
        killing.join()

    eventually(lambda: set(names) <= admin.list_topics().keys(), "all topics")
    assert admin.describe_metadata_quorum().leader_id != active


def test_offsets_of_a_group_are_read_while_its_coordinator_dies(three: Cluster, admin: Admin) -> None:
    topic, group = unique("coordinator"), unique("group")
    key = TopicPartition(topic, 0)
    admin.create_topics([NewTopic(topic, 1, 3)]).all()
    everywhere(admin, topic, [key])
    admin.alter_consumer_group_offsets(group, {key: 42}).all()
    everywhere(admin, "__consumer_offsets", [TopicPartition("__consumer_offsets", 0)])
    coordinator = admin.describe_consumer_groups([group]).result(group).coordinator_id

    three.kill(coordinator)

    assert admin.list_consumer_group_offsets(group).result(group) == {key: OffsetAndMetadata(42)}
    assert admin.describe_consumer_groups([group]).result(group).coordinator_id != coordinator
    admin.alter_consumer_group_offsets(group, {key: 43}).all()

    def is_listed() -> bool:
        # A broker may still name the dead one, whose part is missing then.
        listed = admin.list_groups(timeout_ms=10_000)
        return not listed.errors and group in {one.group_id for one in listed}

    eventually(is_listed, "the group in the list")
