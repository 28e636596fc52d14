"""The sliced codecs match the plain ones, a few elements at a time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from tests.unit.wire.instances import CLASS_VERSIONS, Instances

from ottla.wire import codec
from ottla.wire.decoder import ROOM_BYTES
from ottla.wire.errors import MalformedMessage
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.source import ELEMENTS_IN_STEP, NUMBERS_IN_STEP

COUNT = 10 * ELEMENTS_IN_STEP


def _run(steps: Generator[None, None, Any]) -> tuple[int, Any]:
    """The number of yields of a generator, and its result."""
    stops = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return stops, end.value
        stops += 1


def test_sliced_codecs_match_for_every_version() -> None:
    for cls, version in CLASS_VERSIONS:
        message = Instances(("sliced", cls.NAME, version)).message(cls, version)
        encoded = codec.encode(message, version)
        plain = codec.decoder(cls, version)(encoded, 0)
        assert _run(codec.sliced_decoder(cls, version)(encoded, 0))[1] == plain, (cls.NAME, version)
        _, parts = _run(codec.sliced_encoder(cls, version)(message))
        assert b"".join(parts) == encoded, (cls.NAME, version)


@pytest.mark.parametrize("version", [1, ListOffsetsRequest.VERSIONS[-1]])
def test_nested_structs_are_processed_in_steps(version: int) -> None:
    asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index) for index in range(COUNT)]
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(partitions=asked)])
    stops, (decoded, _) = _run(
        codec.sliced_decoder(ListOffsetsRequest, version)(codec.encode(request, version), 0)
    )
    assert stops >= 10
    assert decoded == request
    found = [ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=one) for one in range(COUNT)]
    response = ListOffsetsResponse(topics=[ListOffsetsResponse.ListOffsetsTopicResponse(partitions=found)])
    stops, parts = _run(codec.sliced_encoder(ListOffsetsResponse, version)(response))
    assert stops >= 10
    assert len(parts) >= 10, "the pieces of a step are joined in it, and not all at the end"
    assert b"".join(parts) == codec.encode(response, version)


def test_strings_and_numbers_are_decoded_in_steps() -> None:
    named = codec.encode(DeleteGroupsRequest(groups_names=["g"] * COUNT), 2)
    stops, (decoded, _) = _run(codec.sliced_decoder(DeleteGroupsRequest, 2)(named, 0))
    assert stops >= 10
    assert decoded.groups_names == ["g"] * COUNT
    indexes = list(range(3 * NUMBERS_IN_STEP + 1))
    asked = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name="t", partition_indexes=indexes)]
    )
    stops, (numbered, _) = _run(codec.sliced_decoder(DescribeProducersRequest, 0)(codec.encode(asked, 0), 0))
    assert stops >= 3
    assert numbered == asked


def test_input_over_the_memory_limit_is_refused() -> None:
    encoded = codec.encode(DeleteGroupsRequest(groups_names=[""] * (ROOM_BYTES // 50)), 2)
    with pytest.raises(MalformedMessage, match="more elements than the memory limit allows"):
        _run(codec.sliced_decoder(DeleteGroupsRequest, 2)(encoded, 0))
