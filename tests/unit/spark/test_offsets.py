"""The offsets of a stream in its checkpoint."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.values import TopicPartition
from ottla.spark.offsets import CheckpointError, StreamOffset

KEYS = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d-e_f"]), st.integers(0, 200))
OFFSETS = st.dictionaries(KEYS, st.integers(0, 2**60), max_size=20)


@given(OFFSETS, OFFSETS, st.binary(min_size=16, max_size=16))
def test_offsets_survive_a_round_trip_and_serialize_equally(
    offsets: dict[TopicPartition, int], starts: dict[TopicPartition, int], topic_id: bytes
) -> None:
    ids = {key.topic: topic_id for key in offsets}
    one = StreamOffset(offsets, ids, starts)
    text = json.dumps(one.to_json())
    again = StreamOffset.from_json(json.loads(text))
    assert again == one
    turned = StreamOffset(dict(reversed(list(offsets.items()))), dict(reversed(list(ids.items()))), starts)
    assert json.dumps(turned.to_json()) == text


def test_the_form_is_that_of_sparks_own_connector() -> None:
    told = {"orders": {"0": 23, "1": 7, "10": 1}}
    offset = StreamOffset.from_json(told)
    assert offset.offsets[TopicPartition("orders", 10)] == 1
    assert offset.to_json() == told


@pytest.mark.parametrize("told", [{"logOffset": 3}, {"orders": [1, 2]}, {"orders": {"zero": 1}}, {"#ids": 7}])
def test_offsets_of_another_source_are_refused_with_a_remedy(told: dict[str, object]) -> None:
    with pytest.raises(CheckpointError, match=r"another source.*checkpointLocation"):
        StreamOffset.from_json(told)
