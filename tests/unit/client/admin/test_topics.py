"""Topics: what is asked, and what is read from answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.client.admin.support import engine_of, metadata_of, run

from ottla.client.admin.permissions import AclOperation
from ottla.client.admin.topics import (
    NewPartitions,
    NewTopic,
    Pages,
    TopicDescription,
    create_partitions,
    create_topics,
    delete_topics,
    delete_topics_by_id,
    describe_topics,
    describe_topics_by_id,
    list_topics,
)
from ottla.client.core.metadata import Node
from ottla.wire import uuid
from ottla.wire.errors import (
    ErrorCode,
    ThrottlingQuotaExceeded,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.wire.messages.create_partitions import CreatePartitionsResponse
from ottla.wire.messages.create_topics import CreateTopicsResponse
from ottla.wire.messages.delete_topics import DeleteTopicsResponse
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.wire.messages.metadata import MetadataResponse

TOPIC_ID = bytes(range(16))


def page_of(
    request: DescribeTopicPartitionsRequest, sizes: dict[str, int]
) -> DescribeTopicPartitionsResponse:
    """What a broker answers whose topics have so many partitions."""
    answer = DescribeTopicPartitionsResponse
    room = request.response_partition_limit
    topics: list[Any] = []
    cursor = request.cursor
    for asked in sorted(one.name for one in request.topics):
        first = 0
        if cursor is not None:
            if asked < cursor.topic_name:
                continue
            first = cursor.partition_index if asked == cursor.topic_name else 0
        if asked not in sizes:
            topics.append(answer.DescribeTopicPartitionsResponseTopic(name=asked, error_code=3))
            continue
        if not room:
            return answer(topics=topics, next_cursor=answer.Cursor(topic_name=asked, partition_index=first))
        taken = min(room, sizes[asked] - first)
        room -= taken
        parts = [
            answer.DescribeTopicPartitionsResponsePartition(
                partition_index=index, leader_id=1, replica_nodes=[1, 9], isr_nodes=[1]
            )
            for index in range(first, first + taken)
        ]
        topics.append(answer.DescribeTopicPartitionsResponseTopic(name=asked, partitions=parts))
        if first + taken < sizes[asked]:
            return answer(
                topics=topics, next_cursor=answer.Cursor(topic_name=asked, partition_index=first + taken)
            )
    return answer(topics=topics)


@given(
    sizes=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 7), min_size=1),
    missing=st.sets(st.sampled_from("bxyz")),
    limit=st.integers(1, 9),
)
def test_pages_of_any_size_make_the_same_topics(sizes: dict[str, int], missing: set[str], limit: int) -> None:
    wanted = set(sizes) | missing
    pages = Pages(wanted, limit)
    asked = 0
    while pages.left:
        pages.take(page_of(pages.request(), sizes), {1: Node(1, "h", 1)})
        asked += 1
        assert asked <= sum(sizes.values()) + len(wanted)

    for name in wanted:
        outcome = pages.outcomes[name]
        if name in sizes:
            assert isinstance(outcome, TopicDescription)
            assert [one.partition for one in outcome.partitions] == list(range(sizes[name]))
        else:
            assert isinstance(outcome, UnknownTopicOrPartition)


def test_a_broker_that_sends_the_same_page_again_does_not_keep_the_client_for_ever() -> None:
    answer = DescribeTopicPartitionsResponse(
        next_cursor=DescribeTopicPartitionsResponse.Cursor(topic_name="a", partition_index=0)
    )
    pages = Pages(["a"], 10)
    pages.take(answer, {})

    with pytest.raises(UnknownServerError, match="same page"):
        pages.take(answer, {})


def test_replicas_on_brokers_that_are_gone_are_shown_without_a_host() -> None:
    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {})
        return page_of(request, {"t": 1})

    engine, _ = engine_of(answer)

    (partition,) = run(describe_topics(engine, ["t"])).result("t").partitions

    assert partition.leader == Node(1, "host1", 9092)
    assert partition.replicas == (Node(1, "host1", 9092), Node(9, "", -1))
    assert partition.elr is None


def test_operations_that_were_not_asked_for_are_not_told() -> None:
    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {})
        page = page_of(request, {"t": 1})
        page.topics[0].topic_authorized_operations = 1 << 3
        return page

    engine, _ = engine_of(answer)

    assert run(describe_topics(engine, ["t"])).result("t").authorized_operations is None
    asked = run(describe_topics(engine, ["t"], include_authorized_operations=True)).result("t")
    assert asked.authorized_operations == frozenset({AclOperation.READ})


def test_brokers_without_pages_are_asked_by_their_metadata() -> None:
    def answer(node: int, request: Any) -> Any:
        if request.NAME == "MetadataRequest":
            return metadata_of(request, {"t": [2, -1]})
        raise UnsupportedVersion("too old")

    engine, _ = engine_of(answer)

    results = run(describe_topics(engine, ["t", "none"]))

    assert [one.leader and one.leader.id for one in results.result("t").partitions] == [2, None]
    assert isinstance(results["none"], UnknownTopicOrPartition)


def test_topics_are_described_by_their_ids() -> None:
    topic = MetadataResponse.MetadataResponseTopic

    def answer(node: int, request: Any) -> MetadataResponse:
        return MetadataResponse(
            topics=[
                topic(name="t", topic_id=one.topic_id)
                if one.topic_id == TOPIC_ID
                else topic(name=None, topic_id=one.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                for one in request.topics
            ]
        )

    engine, _ = engine_of(answer)
    known, unknown = uuid.to_text(TOPIC_ID), uuid.to_text(bytes(reversed(range(16))))

    results = run(describe_topics_by_id(engine, [known, unknown]))

    assert results.result(known).name == "t"
    assert list(results.failed) == [unknown]


def test_internal_topics_and_those_with_errors_are_left_out_of_the_list() -> None:
    topic = MetadataResponse.MetadataResponseTopic
    answer = MetadataResponse(
        topics=[
            topic(name="a", topic_id=TOPIC_ID),
            topic(name="__consumer_offsets", is_internal=True),
            topic(name="hidden", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]
    )
    engine, _ = engine_of(lambda node, request: answer)

    assert list(run(list_topics(engine))) == ["a"]
    listed = run(list_topics(engine, include_internal=True))
    assert list(listed) == ["a", "__consumer_offsets"]
    assert listed["a"].topic_id == uuid.to_text(TOPIC_ID)
    assert listed["__consumer_offsets"].topic_id is None


def test_what_is_not_said_of_a_new_topic_is_left_to_the_broker() -> None:
    one = CreateTopicsResponse.CreatableTopicResult
    engine, cluster = engine_of(lambda node, request: CreateTopicsResponse(topics=[one(name="t")]))

    run(create_topics(engine, [NewTopic("t", configs={"a": "b"})], validate_only=True))
    run(create_topics(engine, [NewTopic("t", assignments={0: [1, 2], 1: [2, 3]})]))

    first, second = (request for _, request in cluster.asked)
    assert (first.topics[0].num_partitions, first.topics[0].replication_factor) == (-1, -1)
    assert first.topics[0].configs[0].value == "b"
    assert first.validate_only
    assert [one.broker_ids for one in second.topics[0].assignments] == [[1, 2], [2, 3]]


def test_a_number_of_partitions_beside_assignments_is_refused() -> None:
    engine, _ = engine_of(lambda node, request: None)

    with pytest.raises(ValueError, match="assignments"):
        run(create_topics(engine, [NewTopic("t", 3, assignments={0: [1]})]))


def test_a_created_topic_tells_what_the_broker_told() -> None:
    one = CreateTopicsResponse.CreatableTopicResult
    config = CreateTopicsResponse.CreatableTopicConfigs(name="a", value="b", config_source=5)
    told = one(name="t", topic_id=TOPIC_ID, num_partitions=3, replication_factor=2, configs=[config])
    engine, _ = engine_of(lambda node, request: CreateTopicsResponse(topics=[told]))

    created = run(create_topics(engine, ["t"])).result("t")

    assert (created.topic_id, created.partitions, created.replication_factor) == (
        uuid.to_text(TOPIC_ID),
        3,
        2,
    )
    assert created.configs["a"].is_default


def test_topics_that_a_quota_holds_back_are_asked_for_again_and_the_others_are_not() -> None:
    one = CreateTopicsResponse.CreatableTopicResult
    held = [True]

    def answer(node: int, request: Any) -> CreateTopicsResponse:
        is_held = bool(held and held.pop())
        code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        return CreateTopicsResponse(
            topics=[
                one(name=topic.name, error_code=code if topic.name == "b" and is_held else 0)
                for topic in request.topics
            ]
        )

    engine, cluster = engine_of(answer)
    assert not run(create_topics(engine, ["a", "b"])).failed
    assert [[topic.name for topic in request.topics] for _, request in cluster.asked] == [["a", "b"], ["b"]]

    held.append(True)
    results = run(create_topics(engine, ["a", "b"], retry_on_quota_violation=False))
    assert isinstance(results["b"], ThrottlingQuotaExceeded)


def test_partitions_are_added_and_errors_stay_with_their_topics() -> None:
    one = CreatePartitionsResponse.CreatePartitionsTopicResult
    told = [one(name="a"), one(name="b", error_code=ErrorCode.INVALID_PARTITIONS, error_message="fewer")]
    engine, cluster = engine_of(lambda node, request: CreatePartitionsResponse(results=told))

    results = run(create_partitions(engine, {"a": NewPartitions(3, [[1, 2]]), "b": 1}))

    assert list(results.failed) == ["b"]
    assert str(results["b"]) == "fewer"
    topics = cluster.asked[0][1].topics
    assert [(topic.name, topic.count) for topic in topics] == [("a", 3), ("b", 1)]
    assert topics[0].assignments[0].broker_ids == [1, 2]
    assert topics[1].assignments is None


def test_topics_are_deleted_by_name_and_by_id() -> None:
    one = DeleteTopicsResponse.DeletableTopicResult

    def answer(node: int, request: Any) -> DeleteTopicsResponse:
        told = [one(name=state.name, topic_id=state.topic_id) for state in request.topics]
        told[-1].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return DeleteTopicsResponse(responses=told)

    engine, _ = engine_of(answer)
    ids = [uuid.to_text(TOPIC_ID), uuid.to_text(bytes(15) + b"\xff")]

    assert list(run(delete_topics(engine, ["a", "b"])).failed) == ["b"]
    assert list(run(delete_topics_by_id(engine, ids)).failed) == [ids[1]]
