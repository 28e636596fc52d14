"""One broker of each kind for the whole suite, and the clients to try on it.

Ottla always runs. OTTLA_TEST_ORACLE=1 runs every test on Kafka as well, which is how a test is proven right
before it judges Ottla; OTTLA_TEST_BROKERS=kafka names the kinds outright.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.interop import peers
from tests.interop.clients.admins import ConfluentAdmin
from tests.interop.clients.aio import AioClient
from tests.interop.clients.confluent import ConfluentClient
from tests.interop.clients.java import JavaClient, close_agent
from tests.interop.clients.kcat import KcatClient
from tests.interop.clients.messages import Client
from tests.interop.clients.python import PythonClient

CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (ConfluentClient(), AioClient(), PythonClient(), JavaClient(), KcatClient())
}
BROKER_PROPERTIES = {
    "auto.create.topics.enable": "false",
    "message.max.bytes": "1048588",
    "socket.request.max.bytes": "104857600",
}


def broker_kinds() -> list[str]:
    named = os.environ.get("OTTLA_TEST_BROKERS")
    if named:
        return named.split(",")
    return ["kafka", "ottla"] if os.environ.get("OTTLA_TEST_ORACLE") == "1" else ["ottla"]


@pytest.fixture(scope="package", params=broker_kinds())
def broker(request: pytest.FixtureRequest) -> Iterator[peers.BrokerProcess]:
    with peers.running(request.param, properties=BROKER_PROPERTIES) as running:
        yield running


@pytest.fixture(scope="session", autouse=True)
def _java_agent_ends() -> Iterator[None]:
    yield
    close_agent()


@pytest.fixture(params=CLIENTS.values(), ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    made: Client = request.param
    return made


_numbers = itertools.count()


@pytest.fixture
def new_topic(broker: peers.BrokerProcess) -> Callable[..., str]:
    """Creates a topic with a fresh name; keyword arguments are its configs with underscores for dots."""

    def create(name: str = "topic", *, partitions: int = 1, **configs: object) -> str:
        topic = f"{name}-{os.getpid()}-{next(_numbers)}"
        texts = {key.replace("_", "."): str(value) for key, value in configs.items()}
        outcome = ConfluentAdmin(broker.bootstrap).create_topic(topic, partitions=partitions, configs=texts)
        assert outcome.code == 0, outcome
        return topic

    return create
