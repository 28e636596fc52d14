"""Replicated partitions as seen by clients and followers: racks, throttles, deletions, errors."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.server.asking import fetch_request
from tests.unit.server.nodes import Nodes, wait_until
from tests.unit.server.replicas.replication_support import Trio

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.delete_records import DeleteRecordsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
TOPIC, BROKER = 2, 4


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    with Nodes(tmp_path_factory.mktemp("trio")) as nodes:
        yield Trio(nodes, replica_selector_class=SELECTOR, replica_fetch_max_bytes="50000")


def configure(trio: Trio, kind: int, name: str, *, at: int = 1, **configs: Any) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=key.replace("_", "."), config_operation=0, value=value
            )
            for key, value in configs.items()
        ],
    )
    with trio.brokers[at].ask() as asking:
        (answer,) = asking.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == 0, answer


def fetch(trio: Trio, topic: str, offset: int, *, at: int, version: int = 12, **fields: Any) -> Any:
    request = fetch_request(topic, offset)
    for name in ("current_leader_epoch", "last_fetched_epoch"):
        setattr(request.topics[0].partitions[0], name, fields.pop(name, -1))
    for name, value in fields.items():
        setattr(request, name, value)
    with trio.brokers[at].ask() as asking:
        return asking.ask(request, version).responses[0].partitions[0]


def test_a_consumer_reads_from_the_replica_in_its_rack(trio: Trio) -> None:
    trio.create("racks")
    trio.produce("racks", [b"one", b"two"], at=1)

    def preferred(rack: str) -> int:
        return int(fetch(trio, "racks", 0, at=1, rack_id=rack).preferred_read_replica)

    wait_until(lambda: preferred("rack-3") == 3, "the follower to be known")
    assert preferred("rack-1") == preferred("nowhere") == preferred("") == -1
    assert fetch(trio, "racks", 0, at=1, rack_id="rack-2").records == b""
    wait_until(lambda: trio.values("racks", at=3) == [b"one", b"two"], "the watermark at the follower")
    assert fetch(trio, "racks", 0, at=3, rack_id="rack-3").preferred_read_replica == -1
    # Older versions could not read from followers, and are refused.
    assert fetch(trio, "racks", 0, at=3, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_fetches_with_wrong_epochs_or_of_non_replicas_are_refused(trio: Trio) -> None:
    trio.create("epochs", (1, 2))
    trio.produce("epochs", [b"one"], at=1)
    epoch = trio.partition("epochs", at=1).leader_epoch

    def code(**fields: Any) -> int:
        return int(fetch(trio, "epochs", 0, at=1, **fields).error_code)

    assert code(current_leader_epoch=epoch + 1) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code(current_leader_epoch=epoch) == ErrorCode.NONE
    assert code(current_leader_epoch=epoch, replica_id=3) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code(replica_id=3) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(replica_id=2, current_leader_epoch=epoch, last_fetched_epoch=epoch) == ErrorCode.NONE
    beyond = fetch(
        trio, "epochs", 5, at=1, replica_id=2, current_leader_epoch=epoch, last_fetched_epoch=epoch
    )
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (epoch, 1)
    refused = fetch(trio, "epochs", 0, at=2, replica_id=3, current_leader_epoch=epoch)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_was_replaced_is_refused(trio: Trio) -> None:
    trio.create("replaced", (1, 2))
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=2, replica_epoch=0),
        max_wait_ms=0,
        topics=[
            FetchRequest.FetchTopic(
                topic_id=topic_id(trio, "replaced"),
                partitions=[
                    FetchRequest.FetchPartition(
                        partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=0
                    )
                ],
            )
        ],
    )
    with trio.brokers[1].ask() as asking:
        answer = asking.ask(request, 17).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def topic_id(trio: Trio, topic: str) -> bytes:
    from ottla.wire.messages.metadata import MetadataRequest

    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)])
    with trio.brokers[1].ask() as asking:
        found: bytes = asking.ask(request, 12).topics[0].topic_id
        return found


def test_only_the_leader_answers_for_the_end_of_an_epoch(trio: Trio) -> None:
    trio.create("ends", (1, 2))
    trio.produce("ends", [b"one", b"two"], at=1)
    request = OffsetForLeaderEpochRequest(
        replica_id=2,
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic="ends",
                partitions=[
                    OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
                ],
            )
        ],
    )
    with trio.brokers[1].ask() as leader, trio.brokers[2].ask() as follower:
        told = leader.ask(request, 4).topics[0].partitions[0]
        refused = follower.ask(request, 4).topics[0].partitions[0]
    assert (told.error_code, told.leader_epoch, told.end_offset) == (0, 0, 2)
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_delete_records_responds_after_every_replica_deleted(trio: Trio) -> None:
    trio.create("deleted")
    trio.produce("deleted", [b"%d" % number for number in range(5)], at=1)
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=3)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name="deleted", partitions=[partition])],
        timeout_ms=20_000,
    )
    with trio.brokers[1].ask() as asking:
        answer = asking.ask(request, 2).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, 3)
    for node in (2, 3):
        assert fetch(trio, "deleted", 0, at=node).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(trio, "deleted", 3, at=node).error_code == ErrorCode.NONE


def test_only_the_leader_says_that_an_offset_is_out_of_range_above(trio: Trio) -> None:
    trio.create("above", (1, 2))
    trio.produce("above", [b"one"], at=1)
    assert fetch(trio, "above", 7, at=1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(trio, "above", 7, at=2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetch(trio, "above", 0, at=2).error_code == ErrorCode.NONE


def test_a_recreated_topic_starts_empty_everywhere(trio: Trio) -> None:
    trio.create("again")
    trio.produce("again", [b"old", b"older"], at=1)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name="again")], timeout_ms=10_000
    )
    with trio.brokers[1].ask() as asking:
        assert asking.ask(request, 6).responses[0].error_code == 0
    trio.create("again", (2, 3, 1), at=2)
    assert trio.produce("again", [b"new"], at=2).error_code == 0
    assert {trio.segment("again", at=node) for node in (1, 2, 3)} == {trio.segment("again", at=2)}
    assert trio.values("again", at=2) == [b"new"]


def test_a_partition_moves_to_another_broker_completely(trio: Trio) -> None:
    trio.create("moving", (1, 2))
    for number in range(20):
        assert trio.produce("moving", [b"%d" % number], at=1).error_code == 0
    before = trio.segment("moving", at=1)
    request = AlterPartitionReassignmentsRequest(
        topics=[
            AlterPartitionReassignmentsRequest.ReassignableTopic(
                name="moving",
                partitions=[
                    AlterPartitionReassignmentsRequest.ReassignablePartition(
                        partition_index=0, replicas=[3, 2]
                    )
                ],
            )
        ],
        timeout_ms=10_000,
    )
    with trio.brokers[1].ask() as asking:
        answer = asking.ask(request, 1)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
    trio.wait_until_isr("moving", {2, 3}, at=2)
    leader = trio.wait_until_led_by("moving", {2, 3}, at=2)
    trio.wait_until_led_by("moving", {leader}, at=leader)
    assert trio.segment("moving", at=3) == before
    assert trio.produce("moving", [b"more"], at=leader).error_code == 0
    assert trio.segment("moving", at=3) == trio.segment("moving", at=2)
    wait_until(lambda: not (trio.brokers[1].data / "moving-0").exists(), "the old replica to go")


@pytest.mark.parametrize(("side", "node"), [("follower", 2), ("leader", 1)])
def test_the_throttle_limits_an_out_of_sync_replica(trio: Trio, side: str, node: int) -> None:
    rate, size = 200_000, 1_000_000
    topic = f"throttled-by-{side}"
    trio.create(topic, (1, 2))
    configure(trio, TOPIC, topic, at=1, **{f"{side}_replication_throttled_replicas": f"0:{node}"})
    configure(trio, BROKER, str(node), at=node, **{f"{side}_replication_throttled_rate": str(rate)})
    process = trio.brokers[2].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        for _ in range(10):
            assert trio.produce(topic, [b"x" * (size // 10)], at=1, acks=1).error_code == 0
        trio.wait_until_isr(topic, {1}, at=1)
    finally:
        process.send_signal(signal.SIGCONT)
    began = time.monotonic()
    trio.wait_until_isr(topic, {1, 2}, at=1)
    seconds = time.monotonic() - began
    assert trio.segment(topic, at=2) == trio.segment(topic, at=1)
    # The first bytes are sent before the limit is exceeded; the rest keeps the rate.
    assert seconds > size / rate / 3
