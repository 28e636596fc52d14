"""Exactly once while any request or answer may be cut: a seed decides which, and how the producer is set.

By default a few seeds; with OTTLA_CHANCE_SEEDS=100, so many.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.client.proxy import CUT, PASS, Proxy

import ottla
from ottla.testing import Broker

WAIT = 120.0
API_VERSIONS = 18
SEEDS = range(int(os.environ.get("OTTLA_CHANCE_SEEDS", "2")))


@pytest.fixture(scope="module")
def proxied() -> Iterator[Proxy]:
    with Proxy() as proxy:
        listeners = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "advertised.listeners": f"PLAINTEXT://{proxy.address}",
        }
        with Broker({"num.partitions": "3", **listeners}) as broker:
            proxy.target_port = broker.port
            yield proxy


def chosen(dice: random.Random) -> dict[str, Any]:
    return {
        "batch_size": dice.choice([100, 300, 2000]),
        "linger_ms": dice.choice([0, 1, 5]),
        "max_in_flight_requests_per_connection": dice.choice([1, 2, 5]),
        "retry_backoff_ms": 3,
        "retry_backoff_max_ms": 50,
        "reconnect_backoff_ms": 2,
        "reconnect_backoff_max_ms": 20,
    }


def cutting(proxy: Proxy, dice: random.Random) -> None:
    share = dice.choice([0.02, 0.1, 0.2])
    chance = random.Random(dice.random())  # the proxy's thread has dice of its own
    proxy.rule = lambda _, key, stage: CUT if key != API_VERSIONS and chance.random() < share else PASS


def contents(proxy: Proxy, topic: str) -> list[list[bytes]]:
    """The committed values of each partition, by a consumer whose connections stay whole."""
    proxy.rule = lambda proxy, key, stage: PASS
    found: list[list[bytes]] = [[], [], []]
    places = [ottla.TopicPartition(topic, index) for index in range(3)]
    with ottla.Consumer(
        proxy.address, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(timeout=1.0):
                found[record.partition].append(record.value)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_an_idempotent_producer_writes_each_record_once_and_in_order(proxied: Proxy, seed: int) -> None:
    dice = random.Random(seed)
    topic = f"idempotent-{seed}"
    cutting(proxied, dice)
    with ottla.Producer(proxied.address, **chosen(dice)) as producer:
        deliveries = [producer.send(topic, b"%d" % number, partition=number % 3) for number in range(1500)]
        for delivery in deliveries:
            delivery.result(WAIT)
    assert contents(proxied, topic) == [
        [b"%d" % number for number in range(index, 1500, 3)] for index in range(3)
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", [1, 2])
def test_transactions_are_seen_whole_or_not_at_all(
    proxied: Proxy, seed: int, protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if protocol == 1:
        monkeypatch.setattr("ottla.client.producer.transactions.FEATURE", "a feature that no cluster has")
    dice = random.Random(seed)
    topic = f"transactions-{protocol}-{seed}"
    wanted: list[list[bytes]] = [[], [], []]
    cutting(proxied, dice)
    with ottla.Producer(proxied.address, transactional_id=topic, **chosen(dice)) as producer:
        producer.partitions_for(topic)
        for turn in range(25):
            values = [b"%d.%d" % (turn, number) for number in range(dice.choice([0, 1, 20, 60]))]
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.send(topic, value, partition=number % 3)
            if dice.random() < 0.3:
                producer.flush(WAIT)
            if dice.random() < 0.3:
                producer.send_offsets({ottla.TopicPartition(topic, 0): ottla.OffsetAndMetadata(turn)}, topic)
            if dice.random() < 0.3:
                producer.abort_transaction()
                continue
            producer.commit_transaction()
            for index in range(3):
                wanted[index] += values[index::3]
    assert contents(proxied, topic) == wanted
