"""Markers reach every partition, whatever its leader does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, cast

import pytest

from ottla.coordinator.result import Result
from ottla.coordinator.transactions import markers as module
from ottla.coordinator.transactions.markers import Outcomes, SendMarkers, WritableMarker
from ottla.coordinator.transactions.states import TopicPartition
from ottla.server.coordinators.marker_sender import MarkerSender
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import (
    CoordinatorLoadInProgress,
    ErrorCode,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    RequestTimedOut,
)
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

HERE = 1
OK = ErrorCode.NONE
TURNS_MAX = 2000


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_MS", 0)


class Cluster:
    """The targets of a sender, and the coordinator with its shard.

    `scripted`: the errors of a partition before it accepts a marker.
    """

    node_id = HERE

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = {}
        self.scripted: dict[TopicPartition, list[int]] = {}
        self.marked: list[tuple[int, TopicPartition, bool]] = []  # (broker, partition, is commit)
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.failures: dict[int, list[Exception]] = {}
        self.reported: list[frozenset[TopicPartition]] = []
        self.report_failures: list[KafkaError] = []
        self.is_leader = True
        self.is_slow = False
        self.slow: list[tuple[PendingResponse, Outcomes]] = []
        self.sender = MarkerSender(cast(Any, self), cast(Any, self))

    def leader_of(self, topic: str, index: int) -> int | None:
        return self.leaders.get((topic, index), HERE)

    def _mark(self, broker_id: int, marker: WritableMarker) -> dict[TopicPartition, int]:
        outcomes: dict[TopicPartition, int] = {}
        for topic in marker.topics:
            for index in topic.partition_indexes:
                partition = (topic.name, index)
                script = self.scripted.get(partition)
                outcomes[partition] = script.pop(0) if script else OK
                if outcomes[partition] == OK:
                    self.marked.append((broker_id, partition, marker.transaction_result))
        return outcomes

    def write(self, marker: WritableMarker) -> Outcomes | PendingResponse:
        failures = self.failures.get(HERE)
        if failures:
            raise failures.pop(0)
        outcomes = self._mark(HERE, marker)
        if not self.is_slow:
            return outcomes
        pending = PendingResponse()
        self.slow.append((pending, outcomes))
        return pending

    async def send(self, broker_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        self.requests.append((broker_id, request))
        await asyncio.sleep(0)
        failures = self.failures.get(broker_id)
        if failures:
            raise failures.pop(0)
        response = WriteTxnMarkersResponse()
        for marker in request.markers:
            topics: dict[str, Any] = {}
            for (topic, index), code in self._mark(broker_id, marker).items():
                topics.setdefault(topic, []).append(
                    WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=code
                    )
                )
            response.markers.append(
                WriteTxnMarkersResponse.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name=name, partitions=found)
                        for name, found in topics.items()
                    ],
                )
            )
        return response

    def is_coordinator(self, index: int, coordinator_epoch: int) -> bool:
        return self.is_leader

    def ask(
        self, index: int, decision: Callable[[Any, PendingResponse], Result[None]], pending: PendingResponse
    ) -> None:
        if self.report_failures:
            pending.fail(self.report_failures.pop(0))
        else:
            pending.complete(decision(self, pending).response)

    def markers_written(self, sent: SendMarkers, partitions: Iterable[TopicPartition]) -> Result[None]:
        self.reported.append(frozenset(partitions))
        return Result()

    async def until_idle(self) -> None:
        for _ in range(TURNS_MAX):
            if not self.sender.open_count:
                return
            await asyncio.sleep(0)
        raise AssertionError("the markers are never done")

    @property
    def all_reported(self) -> frozenset[TopicPartition]:
        return frozenset().union(*self.reported)


def ended(*partitions: TopicPartition, name: str = "t", producer_id: int = 7) -> SendMarkers:
    return SendMarkers(
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=3,
        coordinator_epoch=5,
        is_commit=True,
        partitions=frozenset(partitions),
        transaction_version=2,
    )


def run(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cluster = Cluster()
        try:
            await test(cluster)
        finally:
            cluster.sender.close()
            await asyncio.sleep(0)

    asyncio.run(main())


def test_partitions_of_this_node_are_marked_and_reported_at_once() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.sender.run(0, ended(("a", 0), ("b", 1)))
        assert {partition for _, partition, _ in cluster.marked} == {("a", 0), ("b", 1)}
        assert cluster.reported == [frozenset({("a", 0), ("b", 1)})]
        assert cluster.sender.open_count == 0

    run(test)


def test_a_transaction_without_partitions_is_reported_at_once() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.sender.run(0, ended())
        assert cluster.reported == [frozenset()]
        assert cluster.sender.open_count == 0

    run(test)


def test_a_broker_gets_the_markers_of_all_transactions_in_one_request() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders = {("a", 0): 2, ("a", 1): 2, ("a", 2): 3}
        cluster.sender.run(0, ended(("a", 0), ("a", 2), ("a", 3)))
        cluster.sender.run(0, ended(("a", 1), name="u", producer_id=8))
        await cluster.until_idle()
        counts = {broker: len(request.markers) for broker, request in cluster.requests}
        assert counts == {2: 2, 3: 1}
        assert len(cluster.requests) == 2
        (marker, _) = next(request.markers for broker, request in cluster.requests if broker == 2)
        assert (marker.producer_id, marker.producer_epoch) == (7, 3)
        assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
        assert marker.transaction_result is True
        assert cluster.all_reported == {("a", 0), ("a", 1), ("a", 2), ("a", 3)}

    run(test)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
@pytest.mark.parametrize("leader", [HERE, 2])
def test_a_transient_error_is_retried_for_that_partition_alone(code: ErrorCode, leader: int) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders = {("a", 0): leader, ("a", 1): leader}
        cluster.scripted = {("a", 1): [code, code]}
        cluster.sender.run(0, ended(("a", 0), ("a", 1)))
        await cluster.until_idle()
        assert sorted(partition for _, partition, _ in cluster.marked) == [("a", 0), ("a", 1)]
        assert cluster.all_reported == {("a", 0), ("a", 1)}

    run(test)


def test_a_partition_that_moves_gets_its_marker_from_the_new_leader() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders = {("a", 0): 2}
        cluster.failures = {2: [ConnectionResetError(), TimeoutError(), NotEnoughReplicas()]}
        cluster.sender.run(0, ended(("a", 0)))
        for _ in range(TURNS_MAX):
            if len(cluster.requests) == 2:
                break
            await asyncio.sleep(0)
        cluster.leaders = {("a", 0): 3}
        await cluster.until_idle()
        assert cluster.marked == [(3, ("a", 0), True)]

    run(test)


def test_a_partition_without_a_leader_waits_for_one() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders = {("a", 0): -1}
        cluster.sender.run(0, ended(("a", 0), ("a", 1)))
        assert cluster.reported == [frozenset({("a", 1)})]
        cluster.leaders = {}
        await cluster.until_idle()
        assert cluster.all_reported == {("a", 0), ("a", 1)}

    run(test)


def test_a_partition_that_was_deleted_counts_as_marked() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders = {("a", 0): None}
        cluster.sender.run(0, ended(("a", 0), ("a", 1)))
        await cluster.until_idle()
        assert cluster.marked == [(HERE, ("a", 1), True)]
        assert cluster.all_reported == {("a", 0), ("a", 1)}

    run(test)


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION])
def test_a_partition_that_cannot_hold_transactions_needs_no_marker(code: ErrorCode) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.scripted = {("a", 0): [code]}
        cluster.sender.run(0, ended(("a", 0)))
        assert cluster.all_reported == {("a", 0)}

    run(test)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
@pytest.mark.parametrize("leader", [HERE, 2])
def test_a_newer_epoch_ends_the_retries(code: ErrorCode, leader: int) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders = {("a", 0): leader}
        cluster.scripted = {("a", 0): [code]}
        cluster.sender.run(0, ended(("a", 0)))
        await cluster.until_idle()
        assert cluster.reported == []

    run(test)


def test_the_retries_end_when_the_node_is_no_longer_the_coordinator() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.scripted = {("a", 0): [ErrorCode.NOT_LEADER_OR_FOLLOWER] * TURNS_MAX}
        cluster.sender.run(0, ended(("a", 0)))
        cluster.is_leader = False
        await cluster.until_idle()
        assert cluster.marked == []

    run(test)


@pytest.mark.parametrize("error", [NotCoordinator(), CoordinatorLoadInProgress()])
def test_a_report_to_an_unloaded_shard_ends_the_retries(error: KafkaError) -> None:
    async def test(cluster: Cluster) -> None:
        cluster.report_failures = [error]
        cluster.sender.run(0, ended(("a", 0)))
        await cluster.until_idle()
        assert cluster.reported == []

    run(test)


def test_a_partial_report_to_an_unloaded_shard_leaves_nothing_behind() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders["b", 0] = 2
        cluster.failures[2] = [NotCoordinator()]
        cluster.report_failures = [NotCoordinator()]
        cluster.sender.run(0, ended(("a", 0), ("b", 0)))
        await cluster.until_idle()
        assert cluster.reported == []

    run(test)


@pytest.mark.parametrize("leader", [HERE, 2])
def test_an_unexpected_error_is_retried_and_costs_the_other_transactions_nothing(leader: int) -> None:
    async def test(cluster: Cluster) -> None:
        partitions = [("a", 0), ("a", 1)]
        cluster.leaders |= dict.fromkeys(partitions, leader)
        cluster.failures[leader] = [AssertionError("a mistake of ours")]
        for number, partition in enumerate(partitions):
            cluster.sender.run(0, ended(partition, name=f"t{number}", producer_id=number))
        await cluster.until_idle()
        assert sorted(cluster.marked) == [(leader, partition, True) for partition in partitions]
        assert cluster.all_reported == frozenset(partitions)

    run(test)


def test_a_report_that_could_not_be_written_is_made_again() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.report_failures = [NotEnoughReplicas(), NotEnoughReplicas()]
        cluster.sender.run(0, ended(("a", 0)))
        await cluster.until_idle()
        assert cluster.reported == [frozenset({("a", 0)})]
        assert len(cluster.marked) == 1

    run(test)


def test_a_report_whose_commit_takes_long_is_not_repeated() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.leaders["b", 0] = 2
        cluster.report_failures = [RequestTimedOut()]
        cluster.sender.run(0, ended(("a", 0), ("b", 0)))
        await cluster.until_idle()
        assert cluster.reported == [frozenset({("b", 0)})]

    run(test)


def test_a_later_effect_for_the_same_id_replaces_the_earlier() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.is_slow = True
        cluster.sender.run(0, ended(("a", 0)))
        cluster.sender.run(0, ended(("a", 0), ("a", 1)))
        assert cluster.sender.open_count == 1
        (first, outcomes), second = cluster.slow
        first.complete(outcomes)
        assert cluster.reported == []
        second[0].complete(second[1])
        assert cluster.reported == [frozenset({("a", 0), ("a", 1)})]

    run(test)
