"""How much of the work on a large request is done in one turn of the event loop.

Work is counted in calls of functions, so that it is the same on every machine. A slice is as short as can be:
what a turn has beside it is done at once whatever it takes.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from tests.unit.server.handlers.support import RunningNode, as_sent, start
from tests.unit.server.turns import Work

from ottla.coordinator import slices
from ottla.server.handlers import produce
from ottla.server.metadata import active_controller
from ottla.server.net import step_runner
from ottla.waiting.pending_response import PendingResponse
from ottla.waiting.tasks import completion_of
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

COUNT = 10_500
CALLS_PER_ELEMENT_MAX = 5
"""In one turn."""
SLICE_MS = 0.05
DEADLINE_S = 120

_NAMES = [f"missing-{index}" for index in range(COUNT)]
_IDS = [index.to_bytes(16, "big") for index in range(1, COUNT + 1)]


def _quotas(kind: str) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name)],
                ops=[AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1.0)],
            )
            for name in _NAMES
        ]
    )


def _configs(cls: Any, name: Callable[[int], str]) -> Any:
    return cls(
        validate_only=True,
        resources=[cls.AlterConfigsResource(resource_type=2, resource_name=name(at)) for at in range(COUNT)],
    )


REQUESTS: dict[str, tuple[Message, int]] = {
    "Produce": (
        ProduceRequest(
            acks=1,
            timeout_ms=30_000,
            transactional_id="t",
            topic_data=[
                ProduceRequest.TopicProduceData(
                    topic_id=one,
                    partition_data=[ProduceRequest.PartitionProduceData(records=memoryview(b""))],
                )
                for one in _IDS
            ],
        ),
        13,
    ),
    "Fetch": (
        FetchRequest(
            session_epoch=-1,
            topics=[
                FetchRequest.FetchTopic(topic_id=one, partitions=[FetchRequest.FetchPartition()])
                for one in _IDS
            ],
        ),
        17,
    ),
    "ListOffsets": (
        ListOffsetsRequest(
            topics=[
                ListOffsetsRequest.ListOffsetsTopic(
                    name=name, partitions=[ListOffsetsRequest.ListOffsetsPartition()]
                )
                for name in _NAMES
            ]
        ),
        10,
    ),
    "OffsetFetch": (
        OffsetFetchRequest(
            groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=name, topics=[]) for name in _NAMES]
        ),
        9,
    ),
    "CreateTopics": (
        CreateTopicsRequest(
            timeout_ms=60_000,
            topics=[
                CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in _NAMES
            ],
        ),
        7,
    ),
    "DeleteTopics": (
        DeleteTopicsRequest(
            timeout_ms=60_000, topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in _NAMES]
        ),
        6,
    ),
    "TxnOffsetCommit": (
        TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="g",
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name="a", partitions=[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition()]
                )
            ]
            * COUNT,
        ),
        5,
    ),
    "AlterConfigs of different topics": (_configs(AlterConfigsRequest, lambda at: f"missing-{at}"), 2),
    "AlterConfigs of one topic": (_configs(AlterConfigsRequest, lambda _: "a"), 2),
    "CreatePartitions": (
        CreatePartitionsRequest(
            timeout_ms=60_000,
            topics=[
                CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=2, assignments=None)
                for name in _NAMES
            ],
        ),
        3,
    ),
    "IncrementalAlterConfigs of different topics": (
        _configs(IncrementalAlterConfigsRequest, lambda at: f"missing-{at}"),
        1,
    ),
    "IncrementalAlterConfigs of one topic": (_configs(IncrementalAlterConfigsRequest, lambda _: "a"), 1),
    "AlterClientQuotas": (_quotas("user"), 1),
    "AlterClientQuotas of what has none": (_quotas("nobody"), 1),
}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    monkeypatch.setattr(slices, "SLICE_MS", SLICE_MS)
    monkeypatch.setattr(step_runner, "SLICE_MS", SLICE_MS)
    monkeypatch.setattr(active_controller, "SLICE_MS", SLICE_MS)
    monkeypatch.setattr(produce, "TURN_MS", SLICE_MS)
    yield Work(monkeypatch)
    sys.setprofile(None)


async def _answered(node: RunningNode, request: Message, version: int) -> Any:
    outcome = start(node.broker, request, version, "PLAINTEXT")
    while True:
        if isinstance(outcome, Generator):
            outcome = await node.broker.step_runner.run(outcome)
        elif inspect.iscoroutine(outcome):
            outcome = await outcome
        elif isinstance(outcome, PendingResponse):
            outcome = await completion_of(outcome)
        else:
            return outcome


@pytest.mark.parametrize("name", REQUESTS)
def test_no_turn_of_the_loop_has_much_of_the_work_on_a_large_request(
    start_node: Callable[..., RunningNode], work: Work, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    node = start_node({"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"})
    node.create("a")
    request, version = REQUESTS[name]
    received = as_sent(request, version)
    monkeypatch.setattr("tests.unit.server.handlers.support.as_sent", lambda message, _version: message)

    async def main() -> None:
        for key_type in (0, 1):
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"])
            while (await _answered(node, find, 4)).coordinators[0].error_code:
                await asyncio.sleep(0)
        with work:
            await asyncio.wait_for(_answered(node, received, version), DEADLINE_S)

    node.run(main())
    print(f"{work.most / COUNT:.1f} calls for each element in one turn")
    assert work.most < CALLS_PER_ELEMENT_MAX * COUNT


@pytest.mark.parametrize("name", ["CreateTopics", "CreatePartitions", "AlterClientQuotas"])
def test_what_would_change_more_than_a_request_may_is_refused_as_a_whole(
    node: RunningNode, name: str
) -> None:
    """As Kafka does; before 10,000 changes nothing is too many."""
    request, version = REQUESTS[name]
    answer = node.ask(request, version)
    answers = getattr(answer, {"CreateTopics": "topics", "CreatePartitions": "results"}.get(name, "entries"))
    assert len(answers) == COUNT
    assert {one.error_code for one in answers} == {ErrorCode.POLICY_VIOLATION}
    assert not node.broker.image.client_quotas
