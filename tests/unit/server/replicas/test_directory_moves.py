"""The controller moves partitions between three brokers: reassignments, controlled shutdowns, offline
directories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.nodes import Nodes, wait_until
from tests.unit.server.replicas.replication_support import SETTINGS, Trio

from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest as Moving
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with Nodes(tmp_path_factory.mktemp("trio")) as nodes:
        yield Trio(nodes)


def move(trio: Trio, topic: str, replicas: list[int] | None) -> int:
    wanted = Moving.ReassignablePartition(partition_index=0, replicas=replicas)
    request = Moving(topics=[Moving.ReassignableTopic(name=topic, partitions=[wanted])], timeout_ms=10_000)
    with trio.brokers[1].ask() as asking:
        return int(asking.ask(request, 1).responses[0].partitions[0].error_code)


def under_way(trio: Trio, at: int = 1) -> list[Any]:
    with trio.brokers[at].ask() as asking:
        request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000)
        return list(asking.ask(request, 0).topics)


def wait_until_on(trio: Trio, topic: str, replicas: list[int], *, at: int = 1) -> None:
    def is_there() -> bool:
        partition = trio.partition(topic, at=at)
        return list(partition.replica_nodes) == replicas and set(partition.isr_nodes) == set(replicas)

    wait_until(is_there, f"{topic} to be on {replicas}")
    wait_until(lambda: not under_way(trio, at), "the reassignment to end")


def directory_of(trio: Trio, topic: str, node_id: int) -> Path:
    return trio.brokers[node_id].data / f"{topic}-0"


def test_a_partition_moves_completely(trio: Trio) -> None:
    trio.create("moved", (1, 2))
    values = [b"%d" % number for number in range(50)]
    assert trio.produce("moved", values, at=1).error_code == 0
    assert move(trio, "moved", [3, 2]) == 0
    wait_until_on(trio, "moved", [3, 2])
    leader = trio.wait_until_led_by("moved", {2, 3}, at=3)
    trio.wait_until_led_by("moved", {leader}, at=leader)
    assert trio.values("moved", at=leader) == values
    assert trio.produce("moved", [b"after"], at=leader).error_code == 0
    assert trio.segment("moved", at=3) == trio.segment("moved", at=2)
    wait_until(lambda: not directory_of(trio, "moved", 1).exists(), "the old replica to go")


def test_replicas_are_added_and_removed(trio: Trio) -> None:
    trio.create("sized", (1,))
    assert trio.produce("sized", [b"one"], at=1).error_code == 0
    assert move(trio, "sized", [1, 2, 3]) == 0
    wait_until_on(trio, "sized", [1, 2, 3])
    assert trio.segment("sized", at=3) == trio.segment("sized", at=1)
    assert move(trio, "sized", [3]) == 0
    wait_until_on(trio, "sized", [3])
    trio.wait_until_led_by("sized", {3}, at=3)
    wait_until(lambda: trio.values("sized", at=3) == [b"one"], "its new leader to serve it")


def test_a_move_to_an_unavailable_broker_can_be_cancelled(trio: Trio) -> None:
    trio.create("stays", (1, 2))
    trio.brokers[3].kill()
    assert move(trio, "stays", [3, 2]) == 0
    assert [topic.name for topic in under_way(trio)] == ["stays"]
    assert move(trio, "stays", None) == 0
    wait_until_on(trio, "stays", [2, 1])  # as in Kafka: the replicas to remove had moved to the end
    leader = trio.leader("stays", at=1)
    assert trio.produce("stays", [b"still"], at=leader).error_code == 0
    trio.brokers[3].start()


def test_a_controlled_shutdown_hands_leaderships_over(trio: Trio) -> None:
    trio.create("led", (2, 1, 3))
    trio.brokers[2].stop()
    leader = trio.leader("led", at=1)  # the others know before the shutdown completes
    assert leader in (1, 3)
    assert trio.produce("led", [b"meanwhile"], at=leader).error_code == 0
    trio.brokers[2].start()
    trio.wait_until_isr("led", {1, 2, 3}, at=1)
    assert trio.leader("led", at=1) == leader
    partitions = ElectLeadersRequest.TopicPartitions(topic="led", partitions=[0])
    request = ElectLeadersRequest(election_type=0, topic_partitions=[partitions], timeout_ms=10_000)
    with trio.brokers[1].ask() as asking:
        (answer,) = asking.ask(request, 2).replica_election_results[0].partition_result
    assert answer.error_code == 0, answer
    trio.wait_until_led_by("led", {2}, at=2)
    wait_until(lambda: trio.values("led", at=2) == [b"meanwhile"], "the preferred leader to serve")


def test_an_offline_directory_hands_only_its_partitions_over(trio: Trio, tmp_path: Path) -> None:
    paths = [tmp_path / "one", tmp_path / "two"]
    broker = trio.nodes.broker(4, **{**SETTINGS, "log_dirs": ",".join(map(str, paths))}).start()
    trio.brokers[4] = broker
    for topic in ("disk-1", "disk-2"):  # the second one goes to the emptier directory
        trio.create(topic, (4, 1))
        assert trio.produce(topic, [b"kept"], at=4).error_code == 0
    (lost,) = [path for path in paths if (path / "disk-1-0").exists()]
    assert not (lost / "disk-2-0").exists()
    lost.rename(tmp_path / "unplugged")
    lost.write_text("not a directory")
    # A write reveals the failed directory, if nothing did before.
    is_acknowledged = trio.produce("disk-1", [b"seen"], at=4).error_code == 0
    trio.wait_until_led_by("disk-1", {1}, at=1)
    trio.wait_until_isr("disk-1", {1}, at=1)
    acknowledged = {b"kept", b"seen"} if is_acknowledged else {b"kept"}
    wait_until(lambda: acknowledged <= set(trio.values("disk-1", at=1)), "its new leader to serve it")
    assert trio.leader("disk-2", at=1) == 4
    assert trio.produce("disk-2", [b"more"], at=4).error_code == 0
    broker.stop()
    assert trio.wait_until_led_by("disk-2", {1}, at=1) == 1
    del trio.brokers[4]
