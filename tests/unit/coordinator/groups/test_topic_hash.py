"""The hash of a group's topics. The expected numbers are those of Kafka 4.3.1's own code."""

from __future__ import annotations

import pytest

from ottla.controller.image import ClusterImage
from ottla.coordinator.groups.topic_hash import group_hash, topic_hash, xxh3
from ottla.wire.messages.metadata_records import PartitionRecord, RegisterBrokerRecord, TopicRecord


def image_of(partitions: int, racks: dict[int, str | None], replicas: list[int]) -> ClusterImage:
    image = ClusterImage()
    for node, rack in racks.items():
        image.replay(RegisterBrokerRecord(broker_id=node, rack=rack))
    topic_id = bytes(range(16))
    image.replay(TopicRecord(name="orders", topic_id=topic_id))
    for index in range(partitions):
        image.replay(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                directories=[bytes(16)] * len(replicas),
            )
        )
    return image


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, 3244421341483603138),
        (1, 14144645293874801883),
        (2, 5809885702975187844),
        (3, 3934096591390385657),
        (4, 3335692817671477244),
        (7, 15000108019369920244),
        (8, 6981066132736680434),
        (9, 11279542561707611851),
        (16, 18013219996421421279),
        (17, 14226646498208936919),
        (32, 8365714523178041689),
        (33, 15567310200752702200),
        (64, 17245451423740058488),
        (65, 13370670688964648640),
        (96, 6472720613537574841),
        (97, 4605630750748152512),
        (128, 3588516638834610229),
        (129, 14351552296700996244),
        (160, 12388897932979153556),
        (239, 10790906249449996659),
        (240, 16363219280451989214),
        (241, 1762944098450311779),
        (256, 14831294255023283801),
        (1024, 5298179418285938630),
        (1025, 8607919572582272872),
        (1088, 16369456361858742640),
        (5000, 6967561952913018863),
    ],
)
def test_all_lengths_of_data_are_hashed_as_xxh3_does(size: int, expected: int) -> None:
    assert xxh3(bytes(i * 31 & 255 for i in range(size))) == expected


@pytest.mark.parametrize(
    ("partitions", "racks", "replicas", "expected"),
    [
        (0, {}, [1], 4864351101063460757),
        (1, {1: None}, [1], 5571354289513992727),
        (100, {1: None}, [1], -8700203414779054322),
        (3, {1: "rack-b", 2: "a", 3: "räck😀"}, [1, 2], -688715381499071503),
        (50, {1: "rack-b", 2: "a", 3: "räck😀"}, [3, 1, 2, 4], -2026143837936946549),
    ],
)
def test_a_topic_is_hashed_with_its_partitions_and_their_racks(
    partitions: int, racks: dict[int, str | None], replicas: list[int], expected: int
) -> None:
    image = image_of(partitions, racks, replicas)
    assert topic_hash(image.topics_by_name["orders"], image) == expected


@pytest.mark.parametrize(
    ("hashes", "expected"),
    [
        ({}, 0),
        ({"a": 5}, -8213464378072455284),
        ({"b": -7, "a": 5}, -4646943608980624969),
        ({f"topic-{i}": i * 1234567891011 * (-1) ** i for i in range(100)}, -4339215690323512632),
    ],
)
def test_the_hashes_of_topics_are_hashed_in_the_order_of_their_names(
    hashes: dict[str, int], expected: int
) -> None:
    assert group_hash(hashes) == expected
