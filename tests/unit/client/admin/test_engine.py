"""Calls reach the right node, are tried again as long as that helps, and end by their deadline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.client.admin.support import ANY, CONTROLLER, engine_of, metadata_of, run
from tests.unit.client.support import Script

from ottla.client.admin import AsyncAdmin
from ottla.client.admin.configs import broker_resource, describe_configs, topic_resource
from ottla.client.admin.nodes import describe_cluster, unregister_broker
from ottla.client.admin.offsets import OffsetSpec, delete_records, list_offsets
from ottla.client.admin.topics import NewTopic, create_topics, list_topics
from ottla.client.errors import AuthenticationFailed, LinkLost, TimedOut
from ottla.client.values import TopicPartition
from ottla.wire.errors import (
    BrokerIdNotRegistered,
    ErrorCode,
    OffsetOutOfRange,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnsupportedEndpointType,
    UnsupportedVersion,
)
from ottla.wire.messages.create_topics import CreateTopicsResponse
from ottla.wire.messages.delete_records import DeleteRecordsResponse
from ottla.wire.messages.describe_configs import DescribeConfigsResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerResponse


def created(*codes: int) -> list[CreateTopicsResponse]:
    one = CreateTopicsResponse.CreatableTopicResult
    return [CreateTopicsResponse(topics=[one(name="t", error_code=code)]) for code in codes]


def offsets_of(request: ListOffsetsRequest, codes: Mapping[TopicPartition, int]) -> ListOffsetsResponse:
    topic_class, one = (
        ListOffsetsResponse.ListOffsetsTopicResponse,
        ListOffsetsResponse.ListOffsetsPartitionResponse,
    )
    return ListOffsetsResponse(
        topics=[
            topic_class(
                name=topic.name,
                partitions=[
                    one(
                        partition_index=part.partition_index,
                        error_code=codes.get(TopicPartition(topic.name, part.partition_index), 0),
                        offset=100 + part.partition_index,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_a_controller_that_has_moved_is_looked_for_and_asked_again() -> None:
    answers = created(ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, 0)
    engine, cluster = engine_of(lambda node, request: answers.pop(0))

    results = run(create_topics(engine, [NewTopic("t", 1, 1)]))

    assert results.result("t").name == "t"
    assert cluster.names() == [(CONTROLLER, "CreateTopics")] * 3
    assert cluster.refreshed == 2


def test_an_item_with_an_error_of_its_own_is_not_asked_for_again() -> None:
    engine, cluster = engine_of(lambda node, request: created(ErrorCode.REQUEST_TIMED_OUT)[0])

    results = run(create_topics(engine, ["t"]))

    assert list(results.failed) == ["t"]
    assert len(cluster.asked) == 1


def test_a_lost_connection_is_tried_again() -> None:
    failures: list[Exception] = [LinkLost("gone"), LinkLost("gone")]

    def answer(node: int, request: Any) -> MetadataResponse:
        if failures:
            raise failures.pop()
        return MetadataResponse()

    engine, cluster = engine_of(answer)

    assert run(list_topics(engine)) == {}
    assert len(cluster.asked) == 3
    assert cluster.refreshes_requested == 2


def test_a_controller_that_died_is_left_for_the_one_that_metadata_names_next() -> None:
    async def scenario(dead: Script, alive: Script) -> None:
        dead.known = alive.known = {1: dead.port, 2: alive.port}
        async with AsyncAdmin(f"{dead.address},{alive.address}", retry_backoff_ms=1) as admin:
            await admin.list_topics()
            await dead.stop()
            alive.node_id = 2
            assert (await admin.create_topics(["t"])).failed == {}

    def answer(script: Script, version: int, request: Any) -> Any:
        if request.NAME == "CreateTopicsRequest":
            return created(0)[0]
        return None

    async def both() -> None:
        async with Script(answer, node_id=1) as dead, Script(answer, node_id=1) as alive:
            await scenario(dead, alive)

    run(both())


def test_refused_credentials_are_told_at_once() -> None:
    def answer(node: int, request: Any) -> Any:
        raise AuthenticationFailed("no")

    engine, cluster = engine_of(answer)

    with pytest.raises(AuthenticationFailed):
        run(list_topics(engine))
    assert len(cluster.asked) == 1


def test_a_call_that_runs_out_of_time_says_what_it_saw_last() -> None:
    def answer(node: int, request: Any) -> Any:
        raise LinkLost("host0:9092 closed the connection.")

    engine, _ = engine_of(answer)

    with pytest.raises(TimedOut, match=r"list_topics did not succeed within 30 ms .* closed the connection"):
        run(list_topics(engine, timeout_ms=30))


def test_retries_bound_the_number_of_tries() -> None:
    def answer(node: int, request: Any) -> Any:
        raise LinkLost("gone")

    engine, cluster = engine_of(answer, retries=2)

    with pytest.raises(TimedOut, match="after 3 attempt"):
        run(list_topics(engine))
    assert len(cluster.asked) == 3


def test_an_api_that_no_broker_serves_is_told_as_unsupported() -> None:
    def answer(node: int, request: Any) -> Any:
        raise UnsupportedVersion("host0:9092 supports no version of Metadata.")

    engine, _ = engine_of(answer)

    with pytest.raises(UnsupportedVersion, match="host0:9092 supports no version of Metadata"):
        run(list_topics(engine))


def test_items_go_to_the_nodes_that_know_them_and_fail_alone() -> None:
    one = DescribeConfigsResponse.DescribeConfigsResult

    def answer(node: int, request: Any) -> DescribeConfigsResponse:
        if node == 1:
            raise AuthenticationFailed("not there")
        return DescribeConfigsResponse(
            results=[
                one(resource_type=asked.resource_type, resource_name=asked.resource_name, configs=[])
                for asked in request.resources
            ]
        )

    engine, cluster = engine_of(answer)
    wanted = [topic_resource("t"), broker_resource(1), broker_resource(2), broker_resource()]

    results = run(describe_configs(engine, wanted))

    assert sorted(node for node, _ in cluster.names()) == [ANY, 1, 2]
    assert list(results) == wanted
    assert list(results.failed) == [broker_resource(1)]
    assert results.result(broker_resource()) == {}


def test_what_an_answer_leaves_out_has_failed() -> None:
    engine, _ = engine_of(lambda node, request: CreateTopicsResponse(topics=[]))

    results = run(create_topics(engine, ["t"]))

    assert isinstance(results["t"], UnknownServerError)


def test_partitions_are_asked_for_at_their_leaders_in_one_request_each() -> None:
    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {"t": [0, 1, 0, 2]})
        return offsets_of(request, {})

    engine, cluster = engine_of(answer)
    keys = [TopicPartition("t", index) for index in range(4)]

    results = run(list_offsets(engine, dict.fromkeys(keys, OffsetSpec.LATEST)))

    assert [results.result(key).offset for key in keys] == [100, 101, 102, 103]
    assert sorted(cluster.names()) == [
        (ANY, "Metadata"),
        (0, "ListOffsets"),
        (1, "ListOffsets"),
        (2, "ListOffsets"),
    ]


def test_a_leader_that_moves_or_dies_is_found_again_and_the_others_are_not_asked_twice() -> None:
    leaders = [{"t": [0, 1, 2]}, {"t": [0, 2, 2]}]
    seen = 0

    def answer(node: int, request: Any) -> Any:
        nonlocal seen
        if request.NAME == "MetadataRequest":
            found = leaders[min(seen, 1)]
            seen += 1
            return metadata_of(request, found)
        if node == 1:
            raise LinkLost("broker 1 died")
        codes = {TopicPartition("t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER} if seen == 1 else {}
        return offsets_of(request, codes)

    engine, cluster = engine_of(answer)
    keys = [TopicPartition("t", index) for index in range(3)]

    results = run(list_offsets(engine, dict.fromkeys(keys, OffsetSpec.LATEST)))

    assert results.all().keys() == set(keys)
    assert sum(1 for node, name in cluster.names() if node == 2 and name == "ListOffsets") >= 1
    asked_for_last = [
        part.partition_index
        for node, request in cluster.asked
        if request.NAME == "ListOffsetsRequest"
        for topic in request.topics
        for part in topic.partitions
    ]
    assert asked_for_last.count(2) == 1


def test_a_retriable_error_is_asked_again_of_the_same_leader() -> None:
    loading = [ErrorCode.OFFSET_NOT_AVAILABLE, 0]

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {"t": [1]})
        return offsets_of(request, {TopicPartition("t", 0): loading.pop(0)})

    engine, cluster = engine_of(answer)

    results = run(list_offsets(engine, {TopicPartition("t", 0): OffsetSpec.EARLIEST}))

    assert results.result(TopicPartition("t", 0)).offset == 100
    assert cluster.names() == [(ANY, "Metadata"), (1, "ListOffsets"), (1, "ListOffsets")]


def test_a_partition_without_a_leader_is_waited_for() -> None:
    leaders = [{"t": [-1]}, {"t": [-1]}, {"t": [2]}]

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, leaders.pop(0))
        return offsets_of(request, {})

    engine, _ = engine_of(answer)

    assert run(list_offsets(engine, {TopicPartition("t", 0): 5})).result(TopicPartition("t", 0)).offset == 100


def test_an_unknown_topic_is_told_at_once_for_offsets_and_waited_for_before_records_are_deleted() -> None:
    engine, _ = engine_of(lambda node, request: metadata_of(request, {}))
    key = TopicPartition("none", 0)

    assert isinstance(run(list_offsets(engine, {key: -1}))[key], UnknownTopicOrPartition)
    assert isinstance(run(delete_records(engine, {key: -1}, timeout_ms=20))[key], TimedOut)


def test_errors_of_partitions_stay_with_them() -> None:
    topic, one = (
        DeleteRecordsResponse.DeleteRecordsTopicResult,
        DeleteRecordsResponse.DeleteRecordsPartitionResult,
    )

    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {"t": [0, 0]})
        parts = [
            one(partition_index=0, low_watermark=7),
            one(partition_index=1, error_code=ErrorCode.OFFSET_OUT_OF_RANGE),
        ]
        return DeleteRecordsResponse(topics=[topic(name="t", partitions=parts)])

    engine, _ = engine_of(answer)

    results = run(delete_records(engine, {TopicPartition("t", 0): 7, TopicPartition("t", 1): 900}))

    assert results.succeeded == {TopicPartition("t", 0): 7}
    assert isinstance(results[TopicPartition("t", 1)], OffsetOutOfRange)
    with pytest.raises(OffsetOutOfRange):
        results.all()


def test_what_a_leader_is_too_old_for_names_it_and_the_version() -> None:
    engine, cluster = engine_of(lambda node, request: metadata_of(request, {"t": [1]}))
    cluster.served[ListOffsetsRequest.API_KEY] = range(1, 7)
    key = TopicPartition("t", 0)

    outcome = run(list_offsets(engine, {key: OffsetSpec.MAX_TIMESTAMP}))[key]

    assert isinstance(outcome, UnsupportedVersion)
    assert "host1:9092 (node 1) supports ListOffsets up to version 6, but this call needs version 7" in str(
        outcome
    )


def test_a_time_before_all_times_is_asked_for_like_any_other() -> None:
    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {"t": [1]})
        return offsets_of(request, {})

    engine, cluster = engine_of(answer)
    key = TopicPartition("t", 0)

    assert run(list_offsets(engine, {key: -6_000_000_000_000})).result(key).offset == 100
    assert cluster.asked[-1][1].topics[0].partitions[0].timestamp == -6_000_000_000_000


def test_an_admin_of_controllers_refuses_what_only_brokers_serve() -> None:
    engine, cluster = engine_of(lambda node, request: None, bootstrap_controllers="host0:9093")

    with pytest.raises(UnsupportedEndpointType, match=r"bootstrap\.servers"):
        run(list_topics(engine))
    with pytest.raises(ValueError, match="fenced"):
        run(describe_cluster(engine, include_fenced_brokers=True))
    assert cluster.asked == []


def test_an_admin_of_controllers_asks_the_active_one_what_it_may() -> None:
    engine, cluster = engine_of(
        lambda node, request: UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED),
        bootstrap_controllers="host0:9093",
    )

    with pytest.raises(BrokerIdNotRegistered):
        run(unregister_broker(engine, 7))
    assert cluster.names() == [(CONTROLLER, "UnregisterBroker")]
