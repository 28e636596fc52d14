"""Transactions whose partitions are led by another broker than their coordinator's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.server.asking import Asking
from tests.unit.server.coordinators.transaction_support import (
    TransactingProducer,
    committed_offset,
    committed_values,
    tries,
)
from tests.unit.server.nodes import NodeProcess, Nodes, leaders, wait_for_leaders, wait_until

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

OK = ErrorCode.NONE
ONE_REPLICA = {
    "offsets_topic_replication_factor": "1",
    "offsets_topic_num_partitions": "2",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
    "transaction_state_log_num_partitions": "2",
    "request_timeout_ms": "2000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, NodeProcess]]:
    with Nodes(tmp_path_factory.mktemp("nodes")) as nodes:
        nodes.controller.start()
        yield {number: nodes.broker(number, **ONE_REPLICA) for number in (1, 2)}


@pytest.fixture
def brokers(cluster: dict[int, NodeProcess]) -> dict[int, NodeProcess]:
    """Two brokers that run, whatever the test before did to them."""
    for broker in cluster.values():
        if broker.process is None:
            broker.start()
    return cluster


class Setting:
    """A producer at its coordinator, and one of the same identity at the broker that leads the data."""

    count = 0

    def __init__(self, brokers: dict[int, NodeProcess], *, version: int) -> None:
        Setting.count += 1
        self.topic = self.name = f"test-{Setting.count}"
        with brokers[1].ask() as asking:
            asking.create_topic(self.topic, 2)
            coordinator = _coordinator_of(asking, 1, self.name)
        for broker in brokers.values():
            wait_for_leaders(broker, self.topic, 2)
            wait_for_leaders(broker, "__transaction_state", 2)
        self.coordinator = brokers[coordinator]
        self.leader = brokers[3 - coordinator]
        with self.leader.ask() as asking:
            led = leaders(asking, self.topic)
        self.partition = next(index for index, leader in led.items() if leader != coordinator)
        self.driver = TransactingProducer(self.coordinator.port, self.name, version=version)
        self.driver.init()
        self.worker = self.new_worker()

    def new_worker(self) -> TransactingProducer:
        worker = TransactingProducer(self.leader.port, self.name, version=self.driver.version)
        worker.producer_id, worker.epoch = self.driver.identity
        return worker

    def write(self, value: bytes) -> ErrorCode:
        if self.driver.version < 2:
            while self.driver.add((self.topic, self.partition)) != OK:
                pass
        elif self.worker.epoch != self.driver.epoch:
            self.worker.sequences.clear()
        self.worker.producer_id, self.worker.epoch = self.driver.identity
        return self.worker.produce(self.topic, value, partition=self.partition)

    def seen(self) -> list[bytes | None]:
        with self.leader.ask() as asking:
            return committed_values(asking, self.topic, self.partition)

    def state(self) -> str:
        with self.coordinator.ask() as asking:
            (found,) = asking.ask(
                DescribeTransactionsRequest(transactional_ids=[self.name]), 0
            ).transaction_states
            state: str = found.transaction_state
            return state

    def wait_for_state(self, wanted: str) -> None:
        wait_until(lambda: self.state() == wanted, wanted)


def _coordinator_of(asking: Asking, key_type: int, key: str) -> int:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    for _ in tries():
        (found,) = asking.ask(request, 4).coordinators
        if found.error_code == 0:
            node_id: int = found.node_id
            return node_id
    raise AssertionError("there is no coordinator")


@pytest.mark.parametrize("version", [1, 2])
def test_the_leader_asks_the_coordinator_and_gets_its_markers(
    brokers: dict[int, NodeProcess], version: int
) -> None:
    setting = Setting(brokers, version=version)
    if version < 2:
        refused = setting.worker.produce(setting.topic, b"not added", partition=setting.partition)
        assert refused == ErrorCode.TRANSACTION_ABORTABLE
    for number, commit in enumerate((True, False, True)):
        assert setting.write(b"%d" % number) == OK
        assert setting.driver.end(commit=commit) == OK
    setting.wait_for_state("CompleteCommit")
    wait_until(lambda: setting.seen() == [b"0", b"2"], "the markers")
    zombie = setting.new_worker()
    zombie.epoch -= 1
    assert (
        zombie.produce(setting.topic, b"late", partition=setting.partition)
        == ErrorCode.INVALID_PRODUCER_EPOCH
    )


def test_markers_wait_for_a_leader_that_is_away(brokers: dict[int, NodeProcess]) -> None:
    setting = Setting(brokers, version=2)
    assert setting.write(b"1") == OK
    setting.worker.close()
    setting.leader.kill()
    assert setting.driver.end(commit=True) == OK
    assert setting.state() == "PrepareCommit"
    assert setting.driver.end_once(commit=True) == ErrorCode.CONCURRENT_TRANSACTIONS
    setting.leader.start()
    setting.wait_for_state("CompleteCommit")
    wait_until(lambda: setting.seen() == [b"1"], "the markers")


def test_a_coordinator_that_was_killed_sends_the_markers_when_it_is_back(
    brokers: dict[int, NodeProcess],
) -> None:
    setting = Setting(brokers, version=2)
    assert setting.write(b"1") == OK
    setting.leader.kill()
    assert setting.driver.end(commit=True) == OK
    setting.coordinator.kill()
    setting.leader.start()
    assert setting.seen() == []
    setting.coordinator.start()
    setting.wait_for_state("CompleteCommit")
    wait_until(lambda: setting.seen() == [b"1"], "the markers")


def test_without_a_coordinator_the_records_are_to_be_sent_again(brokers: dict[int, NodeProcess]) -> None:
    setting = Setting(brokers, version=2)
    setting.coordinator.kill()
    answer = setting.worker.produce_once(setting.topic, b"1", partition=setting.partition)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    setting.coordinator.start()
    for _ in tries():
        if setting.worker.produce(setting.topic, b"1", partition=setting.partition) == OK:
            break
    again = TransactingProducer(setting.coordinator.port, setting.name)
    again.producer_id, again.epoch = setting.driver.identity
    assert again.end(commit=True) == OK
    wait_until(lambda: setting.seen() == [b"1"], "the markers")


def test_a_topic_that_is_deleted_does_not_hold_the_end_up(brokers: dict[int, NodeProcess]) -> None:
    setting = Setting(brokers, version=2)
    assert setting.write(b"1") == OK
    topic = DeleteTopicsRequest.DeleteTopicState(name=setting.topic)
    with setting.coordinator.ask() as asking:
        deleted = asking.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=10_000), 6)
        assert deleted.responses[0].error_code == 0
    assert setting.driver.end(commit=True) == OK
    setting.wait_for_state("CompleteCommit")


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_are_kept_by_another_broker(brokers: dict[int, NodeProcess], version: int) -> None:
    setting = Setting(brokers, version=version)
    for number in range(50):
        group = f"{setting.name}-{number}"
        with setting.leader.ask() as asking:
            if brokers[_coordinator_of(asking, 0, group)] is setting.leader:
                break
    if version < 2:
        code = setting.driver.commit_offset(group, setting.topic, 7)
        assert code in (OK, ErrorCode.NOT_COORDINATOR)  # it adds the partition, and keeps no offsets here
    for _ in tries():
        code = setting.worker.commit_offset_alone(group, setting.topic, 7)
        if code == OK:
            break
    assert code == OK
    with setting.leader.ask() as asking:
        assert committed_offset(asking, group, setting.topic) == -1
        assert setting.driver.end(commit=True) == OK
        setting.wait_for_state("CompleteCommit")
        wait_until(lambda: committed_offset(asking, group, setting.topic) == 7, "the offset")
