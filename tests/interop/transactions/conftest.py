"""One broker behind a proxy for all tests of transactions, and the clients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ottla.wire.messages.list_offsets import ListOffsetsRequest
from tests.interop import peers
from tests.interop.clients.admins import ConfluentAdmin
from tests.interop.clients.conftest import broker_kinds
from tests.interop.transactions.agents import AGENTS, Agent
from tests.interop.transactions.lines import CLIENT_ID
from tests.interop.transactions.proxy import CuttingProxy
from tests.unit.server.asking import Asking

PARTITIONS = 2
SOURCE = "source"
_numbers = itertools.count()


@dataclass
class World:
    """A broker behind a proxy, and the topics left on it."""

    broker: peers.BrokerProcess
    proxy: CuttingProxy
    admin: ConfluentAdmin = field(init=False)

    def __post_init__(self) -> None:
        self.admin = ConfluentAdmin(f"127.0.0.1:{self.proxy.port}")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.proxy.port}"

    def new_topic(self) -> str:
        name = f"t{next(_numbers)}"
        assert self.admin.create_topic(name, partitions=PARTITIONS).code == 0
        return name

    def is_settled(self, topic: str) -> bool:
        """Whether the markers of all transactions are written, which happens after the clients' responses."""
        with Asking(self.broker.port) as asking:
            stable = _end_offsets(asking, topic, is_committed=True)
            return stable == _end_offsets(asking, topic, is_committed=False)

    def committed_values(self, topic: str) -> list[str]:
        """The records visible with read_committed up to the end; no transaction may stay open."""
        with Asking(self.broker.port) as asking:
            stable = _end_offsets(asking, topic, is_committed=True)
            ends = _end_offsets(asking, topic, is_committed=False)
        assert stable == ends, f"a transaction is still open in {topic}: {stable} of {ends}"
        return _read_committed(self.bootstrap, topic, ends)

    def committed_offset(self, group: str, topic: str) -> int:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
        consumer.close()
        return int(found.offset)


def _end_offsets(asking: Asking, topic: str, *, is_committed: bool) -> list[int]:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1 if is_committed else 0,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1)
                    for index in range(PARTITIONS)
                ],
            )
        ],
    )
    answer = asking.ask(request, 7)
    return [one.offset for one in sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)]


def _read_committed(bootstrap: str, topic: str, ends: list[int]) -> list[str]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "-",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(len(ends))])
    values = []
    open_count = len(ends)
    while open_count:
        message = consumer.poll(20)
        assert message is not None, f"{topic} was not read to its end"
        error = message.error()
        if error is None:
            values.append((message.value() or b"").decode())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            open_count -= 1
    consumer.close()
    return sorted(values)


@pytest.fixture(scope="module", params=broker_kinds())
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    proxy_port = peers.free_port()
    properties = {
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "group.min.session.timeout.ms": "1000",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.session.timeout.ms": "2000",
        "group.consumer.session.timeout.ms": "2000",
        "group.consumer.min.heartbeat.interval.ms": "300",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    with (
        peers.running(request.param, properties=properties) as broker,
        CuttingProxy(proxy_port, broker.port, CLIENT_ID) as proxy,
    ):
        world = World(broker, proxy)
        assert world.admin.create_topic(SOURCE, partitions=1).code == 0
        yield world


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    made: Agent = request.param
    return made


@pytest.fixture(scope="session", autouse=True)
def _agents_end() -> Iterator[None]:
    yield
    for one in AGENTS:
        one.close()
