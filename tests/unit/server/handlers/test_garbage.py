"""What is refused in large requests leaves nothing in cycles.

An error that is kept in the frame that caught it is such a cycle, through its traceback. With it go the
request and its answer: a collection of hundreds of thousands of objects takes longer than any step.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.wire.message import Message
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.produce import ProduceRequest

COUNT = 300
TIMEOUT_MS = 30_000

_Reassignable = AlterPartitionReassignmentsRequest.ReassignableTopic
_NAMES = [f"missing-{index}" for index in range(COUNT)]

REQUESTS: list[tuple[Message, int]] = [
    (
        ProduceRequest(
            acks=1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=name, partition_data=[ProduceRequest.PartitionProduceData(records=memoryview(b""))]
                )
                for name in _NAMES
            ],
        ),
        12,
    ),
    (
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
    (
        AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=[
                _Reassignable(
                    name=name, partitions=[AlterPartitionReassignmentsRequest.ReassignablePartition()]
                )
                for name in _NAMES
            ],
        ),
        1,
    ),
    (
        CreateTopicsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=[
                CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1_000, replication_factor=1)
                for name in _NAMES
            ],
        ),
        7,
    ),
    (
        CreatePartitionsRequest(
            timeout_ms=TIMEOUT_MS,
            topics=[CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=2) for name in _NAMES],
        ),
        3,
    ),
    (
        ElectLeadersRequest(
            timeout_ms=TIMEOUT_MS,
            topic_partitions=[
                ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0]) for name in _NAMES
            ],
        ),
        2,
    ),
]


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=lambda one: getattr(one, "NAME", None))
def test_what_is_refused_is_no_garbage(
    node: RunningNode, request_: Message, version: int, garbage: Callable[[Callable[[], Any]], int]
) -> None:
    structs: list[Any] = []

    def note(phase: str, _facts: dict[str, int]) -> None:
        if phase == "stop":
            structs.extend(
                one for one in gc.garbage if type(one).__module__.startswith("ottla.wire.messages")
            )
            gc.garbage.clear()

    garbage(lambda: node.ask(request_, version))
    gc.callbacks.append(note)
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        garbage(lambda: node.ask(request_, version))
    finally:
        gc.set_debug(0)
        gc.callbacks.remove(note)
    assert len(structs) < COUNT / 10, structs[:3]
