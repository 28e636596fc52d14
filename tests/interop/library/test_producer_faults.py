"""Exactly once, counted by confluent-kafka, while connections are cut, answers are late and nodes go away."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

import ottla
from ottla.client.admin import ElectionType, OffsetSpec
from tests.interop.library.proxies import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    CUT,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    PASS,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    Proxies,
    count_cuts,
)
from tests.interop.library.support import LibraryCluster, eventually, make_topic, unique, values_of

WAIT = 180.0


def send_numbered(producer: ottla.Producer, topic: str, count: int) -> None:
    """Send numbers, and see that each was acknowledged at its place."""
    deliveries = [producer.send(topic, b"%d" % number, partition=0) for number in range(count)]
    assert [delivery.result(WAIT).offset for delivery in deliveries] == list(range(count))


@pytest.mark.parametrize("stage", ["request", "answer"])
def test_connections_cut_around_the_write_lose_and_double_nothing(
    cluster: LibraryCluster, stage: str
) -> None:
    topic = make_topic(cluster, f"cut-{stage}")
    turns = itertools.count(1)

    def rule(key: int, at: str) -> float:
        return CUT if key == PRODUCE and at == stage and next(turns) % 5 == 0 else PASS

    with Proxies(cluster.bootstrap, rule) as proxies:
        with ottla.Producer(proxies.bootstrap, batch_size=300, linger_ms=0, retry_backoff_ms=10) as producer:
            send_numbered(producer, topic, 1000)
        assert proxies.cuts > 0
    assert values_of(cluster, topic) == [b"%d" % number for number in range(1000)]


def test_answers_that_come_after_the_request_timed_out_lose_and_double_nothing(
    cluster: LibraryCluster,
) -> None:
    topic = make_topic(cluster, "late")
    turns = itertools.count(1)

    def rule(key: int, at: str) -> float:
        return 2.0 if key == PRODUCE and at == "answer" and next(turns) in (2, 5) else PASS

    with (
        Proxies(cluster.bootstrap, rule) as proxies,
        ottla.Producer(proxies.bootstrap, batch_size=300, linger_ms=0, request_timeout_ms=1000) as producer,
    ):
        send_numbered(producer, topic, 200)
        assert producer.metrics()["retries"] > 0
    assert values_of(cluster, topic) == [b"%d" % number for number in range(200)]


@pytest.mark.parametrize("cluster", ["ottla-3"], indirect=True)
def test_a_leader_that_moves_while_five_batches_are_in_doubt_loses_and_doubles_nothing(
    cluster: LibraryCluster,
) -> None:
    """A broker remembers five: where more were written, it would not know the first when it came again."""
    topic = make_topic(cluster, "in-doubt")
    place = ottla.TopicPartition(topic, 0)
    values = [b"%d " % number + bytes(400) for number in range(30)]
    turns = itertools.count(1)

    def rule(key: int, at: str) -> float:
        """The client never hears of the first that were written."""
        return 3600.0 if key == PRODUCE and at == "answer" and next(turns) == 1 else PASS

    with (
        ottla.Admin(cluster.bootstrap) as admin,
        Proxies(cluster.bootstrap, rule) as proxies,
        ottla.Producer(
            proxies.bootstrap,
            batch_size=300,
            linger_ms=0,
            metadata_max_age_ms=100,
            request_timeout_ms=5000,
            retry_backoff_ms=10,
        ) as producer,
    ):
        deliveries = [producer.send(topic, value, partition=0) for value in values]
        eventually(lambda: end_of(admin, place) >= 5, "five batches that are written")
        move_leader(admin, place)
        assert [delivery.result(WAIT).offset for delivery in deliveries] == list(range(30))
        assert producer.metrics()["retries"] > 0
    assert values_of(cluster, topic) == values


def end_of(admin: ottla.Admin, place: ottla.TopicPartition) -> int:
    return admin.list_offsets({place: OffsetSpec.LATEST}).result(place).offset


def move_leader(admin: ottla.Admin, place: ottla.TopicPartition) -> None:
    """To its next replica."""
    (partition,) = admin.describe_topics([place.topic]).result(place.topic).partitions
    first, *others = (node.id for node in partition.replicas)
    admin.alter_partition_reassignments({place: [*others, first]}).all()
    eventually(lambda: not admin.list_partition_reassignments([place]), "the new order of replicas")
    admin.elect_leaders(ElectionType.PREFERRED, [place]).all()


@pytest.mark.parametrize("protocol", [1, 2])
@pytest.mark.parametrize("stage", ["request", "answer"])
def test_a_transaction_survives_a_cut_at_each_of_its_steps(
    cluster: LibraryCluster, stage: str, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = make_topic(cluster, f"steps-{stage}", 2), unique("group")
    keys = [METADATA, INIT_PRODUCER_ID, FIND_COORDINATOR, PRODUCE, TXN_OFFSET_COMMIT, END_TXN]
    if protocol == 1:
        monkeypatch.setattr("ottla.client.producer.transactions.FEATURE", "a feature that no cluster has")
        keys += [ADD_PARTITIONS, ADD_OFFSETS]
    with Proxies(cluster.bootstrap, count_cuts(*((key, stage) for key in keys))) as proxies:
        with ottla.Producer(
            proxies.bootstrap, transactional_id=unique("tx"), retry_backoff_ms=10
        ) as producer:
            for turn in range(4):
                with producer.transaction() as transaction:
                    for number in range(20):
                        transaction.send(topic, b"%d %d" % (turn, number), partition=number % 2)
                    place = ottla.TopicPartition(topic, 0)
                    transaction.send_offsets({place: ottla.OffsetAndMetadata(turn)}, group)
        assert proxies.cuts == len(keys)
    values = values_of(cluster, topic, 2)
    wanted = [b"%d %d" % (turn, number) for turn in range(4) for number in range(20)]
    assert sorted(value or b"" for value in values) == sorted(wanted)


@pytest.mark.parametrize("cluster", ["ottla-3"], indirect=True)
def test_leaders_and_coordinators_that_move_lose_and_double_nothing(cluster: LibraryCluster) -> None:
    topic = make_topic(cluster, "moves", 3)
    # A node may take long to come back on a machine that is busy.
    patience: dict[str, Any] = {
        "max_block_ms": 300_000,
        "delivery_timeout_ms": 300_000,
        "transaction_timeout_ms": 300_000,
    }
    failures: list[Exception] = []
    sent: list[bytes] = []
    stop = threading.Event()

    def work() -> None:
        try:
            with ottla.Producer(cluster.bootstrap, transactional_id=unique("tx"), **patience) as producer:
                for turn in itertools.count():
                    if stop.is_set():
                        return
                    values = [b"%d %d" % (turn, number) for number in range(30)]
                    with producer.transaction() as transaction:
                        for number, value in enumerate(values):
                            transaction.send(topic, value, partition=number % 3)
                    sent.extend(values)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for node_id in cluster.nodes.node_ids:
            before = len(sent)
            cluster.nodes.restart(node_id)
            while len(sent) == before and thread.is_alive():
                thread.join(0.05)
    finally:
        stop.set()
        thread.join(600)
    assert not failures, failures
    assert not thread.is_alive()
    assert sorted(value or b"" for value in values_of(cluster, topic, 3)) == sorted(sent)
