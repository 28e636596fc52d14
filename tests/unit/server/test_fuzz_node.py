"""A live node under random requests of every API and version it serves, whole and damaged.

What may come out: an answer that can be read, or a closed connection. What may not: a handler that fails in
a way it did not foresee, a node that stops answering, memory that grows with what was sent.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator

import pytest
from tests.unit.server.asking import Asking
from tests.unit.wire.instances import Instances

from ottla.testing import Broker
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import UnencodableMessage, UnsupportedVersion
from ottla.wire.frame import read_response, request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest

CASES = int(os.environ.get("OTTLA_NODE_FUZZ_CASES", "4"))
_TOPICS = ["alpha", "beta"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"num.partitions": "2", "connections.max.idle.ms": "600000"}) as running:
        yield running


class _Client:
    """A connection that reopens when the node closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._asking: Asking | None = None

    def send(self, frame: bytes) -> bytes | None:
        """The response frame; None if the connection was closed or nothing arrived."""
        if self._asking is None:
            self._asking = Asking(self._port)
            self._asking.socket.settimeout(5)
        try:
            self._asking.socket.sendall(frame)
            return self._asking.receive_frame()
        except (ConnectionError, TimeoutError, EOFError):
            self.close()
            return None

    def close(self) -> None:
        if self._asking is not None:
            self._asking.socket.close()
            self._asking = None


def _served(client: _Client) -> dict[int, tuple[int, int]]:
    answer = client.send(request_frame(ApiVersionsRequest(), 0, 1, "fuzz"))
    assert answer is not None
    _, response = read_response(answer, 18, 0)
    return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}


def _aim(struct: object, source: random.Random) -> None:
    """Replace half of the topic and partition names by existing ones, since frames fail early otherwise."""
    for name in getattr(struct, "__slots__", ()):
        value = getattr(struct, name)
        if isinstance(value, list):
            for one in value:
                _aim(one, source)
            if name == "partitions" and value and isinstance(value[0], int):
                value[0] = source.randrange(3)
        elif name in ("name", "topic", "topic_name", "resource_name") and source.random() < 0.5:
            setattr(struct, name, source.choice(_TOPICS))
        elif name in ("partition", "index", "partition_index") and source.random() < 0.7:
            setattr(struct, name, source.randrange(3))
        elif name in ("resource_type", "operation", "config_operation") and source.random() < 0.7:
            setattr(struct, name, source.choice([0, 1, 2, 4]))


def _is_harmless(key: int, message: object) -> bool:
    """Protect the node: UpdateFeatures and UnregisterBroker may legitimately change it."""
    if key in (57, 64):
        return False
    if hasattr(message, "timeout_ms"):
        message.timeout_ms = 50
    if hasattr(message, "max_wait_ms"):
        message.max_wait_ms = 1
    return True


def test_any_request_gets_a_response_or_a_closed_connection(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    client = _Client(broker.port)
    served = _served(client)
    assert len(served) >= 20
    with Asking(broker.port) as admin:
        for name in _TOPICS:
            admin.create_topic(name, 2)
    source = random.Random(20)
    instances = Instances("node")
    answered = closed = 0
    for key, (first, last) in served.items():
        entry = API_BY_KEY[key]
        for version in range(max(first, entry.versions[0]), last + 1):
            for case in range(CASES):
                message = instances.message(entry.request_class(), version)
                _aim(message, source)
                if not _is_harmless(key, message):
                    continue
                if key == 0:
                    message.acks = source.choice([1, -1])
                try:
                    frame = request_frame(message, version, case, "fuzz")
                except (UnencodableMessage, UnsupportedVersion):
                    continue
                if case % 2:
                    damaged = bytearray(frame)
                    for _ in range(source.randrange(1, 4)):
                        damaged[source.randrange(12, len(damaged))] = source.randrange(256)
                    frame = bytes(damaged)
                    if key == 0:
                        continue  # a damaged acks=0 request never gets a response
                answer = client.send(frame)
                if answer is None:
                    closed += 1
                else:
                    answered += 1
                    read_response(answer, key, version)
    unforeseen = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not unforeseen, unforeseen[0].getMessage() + str(unforeseen[0].exc_info)
    assert _served(client) == served
    client.close()
    assert answered > closed
