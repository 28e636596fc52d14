"""A broker stops or is killed while an idempotent producer writes: each record is there once, in order."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.interop import peers
from tests.interop.clients.admins import ConfluentAdmin
from tests.interop.clients.conftest import CLIENTS, broker_kinds
from tests.interop.clients.java import close_agent
from tests.interop.clients.messages import Client, Message, plain_messages

COUNT = 12_000
RESTART_AT = (1_500, 6_000)
ALLOWED_AHEAD = 3_000  # written while the broker goes down
TOPIC = "written-meanwhile"
# A killed broker registers again once its old session has run out; Kafka's default is 9 s.
PROPERTIES = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}


@pytest.fixture(scope="module", autouse=True)
def _java_agent_ends() -> Iterator[None]:
    yield
    close_agent()


class Writing(threading.Thread):
    """Writes messages through a client as far as it is allowed to, and keeps what was acknowledged."""

    def __init__(self, client: Client, bootstrap: str, messages: list[Message]) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._address = bootstrap
        self._messages = messages
        self._changed = threading.Condition()
        self._limit = 0
        self.acknowledged: dict[int, int] = {}
        self.failure: BaseException | None = None

    def allow(self, limit: int) -> None:
        with self._changed:
            self._limit = limit
            self._changed.notify_all()

    def _paced(self) -> Iterator[Message]:
        for index, message in enumerate(self._messages):
            if index % 100 == 0:
                with self._changed:
                    self._changed.wait_for(lambda at=index: at < self._limit, 120)  # type: ignore[misc]
                    self._changed.wait(0.01)  # so that it writes for a while, not in one go
            yield message

    def run(self) -> None:
        try:
            self._client.produce(
                self._address,
                TOPIC,
                self._paced(),
                idempotent=True,
                on_acknowledged=self.acknowledged.__setitem__,
            )
        except BaseException as error:  # noqa: BLE001 (handed to the test)
            self.failure = error


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
@pytest.mark.parametrize("kind", broker_kinds())
def test_every_acknowledged_record_is_there_once_and_in_order(kind: str, client: Client, clean: bool) -> None:
    messages = plain_messages(COUNT, size=100)
    with peers.running(kind, properties=PROPERTIES) as broker:
        assert ConfluentAdmin(broker.bootstrap).create_topic(TOPIC, partitions=1).code == 0
        writing = Writing(client, broker.bootstrap, messages)
        writing.start()
        for offset in RESTART_AT:
            writing.allow(offset + ALLOWED_AHEAD)
            wait_for_end_offset(broker, offset, writing)
            broker.restart(clean=clean)
        writing.allow(COUNT)
        writing.join(120)
        assert writing.failure is None, writing.failure
        assert not writing.is_alive(), "the client still writes"
        assert len(writing.acknowledged) == COUNT
        stored = CLIENTS["confluent"].consume(broker.bootstrap, TOPIC, COUNT)
        assert [record.value for record in stored] == [message.value for message in messages]
        assert end_offset(broker) == COUNT
        for index, offset in writing.acknowledged.items():
            # -1: the client was told that a repeated batch is in the log already, but not where.
            assert offset in (index, -1)


def wait_for_end_offset(broker: peers.BrokerProcess, offset: int, writing: Writing) -> None:
    def reached() -> bool:
        assert writing.is_alive(), f"the client ended too early: {writing.failure}"
        return end_offset(broker) >= offset

    peers.wait_until(reached, 60, f"{offset} records in the log")


def end_offset(broker: peers.BrokerProcess) -> int:
    found = ConfluentAdmin(broker.bootstrap).list_offset(TOPIC, 0, "latest").value
    return -1 if found is None else int(found)
