"""The admin on each cluster: groups with members of other clients, their offsets, transactions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import KafkaException
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from ottla.client.admin import (
    AbortSpec,
    Admin,
    GroupState,
    GroupType,
    TransactionState,
)
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.wire.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    NonEmptyGroup,
    TransactionalIdNotFound,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from tests.interop.library.admin_support import PATIENCE_MS, made
from tests.interop.library.support import LibraryCluster, eventually, unique


@pytest.fixture
def admin(cluster: LibraryCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap, default_api_timeout_ms=PATIENCE_MS) as client:
        yield client


@contextlib.contextmanager
def member(cluster: LibraryCluster, group: str, topic: str, **more: Any) -> Iterator[ConfluentConsumer]:
    """A consumer of confluent-kafka that has its partitions."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": group,
        "client.id": "confluent",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    consumer = ConfluentConsumer(settings)
    try:
        consumer.subscribe([topic])

        def has_partitions() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        eventually(has_partitions, "an assignment")
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("protocol", "kind"), [("classic", GroupType.CLASSIC), ("consumer", GroupType.CONSUMER)]
)
def test_a_group_is_listed_described_and_kept_while_it_has_members(
    admin: Admin, cluster: LibraryCluster, protocol: str, kind: GroupType
) -> None:
    topic, group = made(admin, cluster, "members", 2), unique("group")
    keys = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with member(cluster, group, topic, group_protocol=protocol) as consumer:
        consumer.commit(offsets=[ConfluentPartition(topic, 0, 5)], asynchronous=False)

        def stable() -> Any:
            described = admin.describe_consumer_groups([group]).result(group)
            return described if described.state is GroupState.STABLE else None

        described = eventually(stable, "a stable group")
        (one,) = described.members
        assert (described.type, described.is_simple) == (kind, False)
        assert one.client_id == "confluent"
        assert one.assignment == set(keys)
        assert described.coordinator_id in {node.id for node in admin.describe_cluster().nodes}
        listed = {found.group_id: found for found in admin.list_groups(types=[kind])}
        assert (listed[group].type, listed[group].protocol_type) == (kind, "consumer")
        assert group in {found.group_id for found in admin.list_consumer_groups(states=["Stable"])}
        assert group not in {found.group_id for found in admin.list_groups(states=[GroupState.EMPTY])}
        assert isinstance(admin.delete_groups([group])[group], NonEmptyGroup)
        altered = admin.alter_consumer_group_offsets(group, {keys[0]: 9})
        assert isinstance(altered[keys[0]], UnknownMemberId)
        deleted = admin.delete_consumer_group_offsets(group, keys[:1])
        assert isinstance(deleted[keys[0]], GroupSubscribedToTopic)

    eventually(
        lambda: admin.describe_consumer_groups([group]).result(group).state is GroupState.EMPTY,
        "the member to leave",
    )
    assert admin.list_consumer_group_offsets(group).result(group)[keys[0]] == OffsetAndMetadata(5)
    assert admin.delete_groups([group]).all() == {group: None}
    assert isinstance(admin.describe_consumer_groups([group])[group], GroupIdNotFound)
    assert isinstance(admin.delete_groups([group])[group], GroupIdNotFound)


def test_offsets_are_set_and_forgotten_without_members(admin: Admin, cluster: LibraryCluster) -> None:
    topic, group, unused = made(admin, cluster, "offsets", 3), unique("simple"), unique("unused")
    keys = [TopicPartition(topic, index) for index in range(3)]
    missing = TopicPartition(unique("missing"), 0)

    results = admin.alter_consumer_group_offsets(
        group, {keys[0]: 4, keys[1]: OffsetAndMetadata(7, 0, "a note"), missing: 1}
    )

    assert {key: type(error) for key, error in results.failed.items()} == {missing: UnknownTopicOrPartition}
    listed = admin.list_consumer_group_offsets({group: None, unused: keys[:1]}, require_stable=True).all()
    assert listed[group] == {keys[0]: OffsetAndMetadata(4), keys[1]: OffsetAndMetadata(7, 0, "a note")}
    assert listed[unused] == {keys[0]: None}
    assert admin.list_consumer_group_offsets({group: keys[2:]}).result(group) == {keys[2]: None}
    described = admin.describe_consumer_groups([group]).result(group)
    assert (described.is_simple, described.state) == (True, GroupState.EMPTY)
    (listing,) = (one for one in admin.list_groups() if one.group_id == group)
    assert listing.is_simple_consumer_group

    assert not admin.delete_consumer_group_offsets(group, keys[:1]).failed
    assert admin.list_consumer_group_offsets(group).result(group).keys() == {keys[1]}
    gone = admin.delete_consumer_group_offsets(unique("none"), keys[:1])
    assert isinstance(gone[keys[0]], GroupIdNotFound)


def test_static_members_are_removed_by_name_and_all_members_at_once(
    admin: Admin, cluster: LibraryCluster
) -> None:
    topic, group = made(admin, cluster, "removed", 1), unique("static")
    instance = unique("instance")
    with member(cluster, group, topic, group_instance_id=instance):
        results = admin.remove_members(group, [instance, "nobody"])
        assert results[instance] is None
        assert isinstance(results["nobody"], UnknownMemberId)
        eventually(
            lambda: (
                not admin.describe_consumer_groups([group]).result(group).members
                or not admin.remove_members(group).failed
            ),
            "an empty group",
        )


# Transactions


@contextlib.contextmanager
def open_transaction(cluster: LibraryCluster, topic: str, name: str) -> Iterator[ConfluentProducer]:
    producer = ConfluentProducer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "linger.ms": 0}
    )
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, b"pending", partition=0)
    producer.flush(120)
    yield producer


def test_an_open_transaction_is_seen_from_all_sides_and_ended(admin: Admin, cluster: LibraryCluster) -> None:
    topic, name, unknown = made(admin, cluster, "open"), unique("transaction"), unique("unknown")
    key = TopicPartition(topic, 0)
    with open_transaction(cluster, topic, name) as producer:
        described = eventually(
            lambda: (found := admin.describe_transactions([name]).result(name)).partitions and found,
            "the partition in the transaction",
        )
        assert described.state is TransactionState.ONGOING
        assert described.partitions == {key}
        assert described.start_time_ms is not None
        missing = admin.describe_transactions([name, unknown])
        assert isinstance(missing[unknown], TransactionalIdNotFound)
        listed = {one.transactional_id: one for one in admin.list_transactions(states=["Ongoing"])}
        assert listed[name].producer_id == described.producer_id
        by_producer = admin.list_transactions(producer_ids=[described.producer_id])
        assert [one.transactional_id for one in by_producer] == [name]
        by_pattern = admin.list_transactions(transactional_id_pattern=f"{name}.*")
        assert [one.transactional_id for one in by_pattern] == [name]
        assert not [
            one for one in admin.list_transactions(duration_ms=3_600_000) if one.transactional_id == name
        ]
        (state,) = admin.describe_producers([key]).result(key)
        assert (state.producer_id, state.transaction_start_offset) == (described.producer_id, 0)
        at_leader = admin.describe_topics([topic]).result(topic).partitions[0].leader
        assert at_leader is not None
        assert admin.describe_producers([key], broker_id=at_leader.id).result(key) == (state,)

        admin.force_terminate_transaction(name)
        eventually(
            lambda: (
                admin.describe_transactions([name]).result(name).state is TransactionState.COMPLETE_ABORT
                or admin.describe_transactions([name]).result(name).state is TransactionState.EMPTY
            ),
            "the transaction to end",
        )
        with pytest.raises(KafkaException):
            producer.commit_transaction(120)


def test_a_transaction_that_hangs_in_a_partition_is_aborted_there(
    admin: Admin, cluster: LibraryCluster
) -> None:
    topic, name = made(admin, cluster, "hanging"), unique("hanging")
    key = TopicPartition(topic, 0)
    with open_transaction(cluster, topic, name) as producer:
        (state,) = eventually(lambda: admin.describe_producers([key]).result(key), "the producer")
        spec = AbortSpec(key, state.producer_id, state.producer_epoch, max(state.coordinator_epoch or 0, 0))

        admin.abort_transaction(spec)

        (after,) = admin.describe_producers([key]).result(key)
        assert after.transaction_start_offset is None
        with contextlib.suppress(KafkaException):
            producer.abort_transaction(120)


def test_producers_are_fenced_by_their_transactional_ids(admin: Admin, cluster: LibraryCluster) -> None:
    topic, name, fresh = made(admin, cluster, "fenced"), unique("fenced"), unique("fresh")
    with open_transaction(cluster, topic, name) as producer:
        before = admin.describe_transactions([name]).result(name)

        fenced = admin.fence_producers([name, fresh]).all()

        assert fenced[name].producer_epoch > before.producer_epoch
        assert fenced[name].producer_id == before.producer_id
        assert fenced[fresh].producer_epoch == 0
        with pytest.raises(KafkaException):
            producer.commit_transaction(120)
