"""Plans for reassignments: valid files, and the replicas that a throttle covers."""

from __future__ import annotations

import json

import pytest

from ottla.client.admin.replicas import Reassignment
from ottla.client.values import TopicPartition
from ottla.operations.failure import Failure
from ottla.operations.reassignment_files import check_plan, plan_text, read_brokers, read_plan, read_topics
from ottla.operations.reassignments import Move, moves_of, throttled_replicas

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def test_a_plan_survives_a_round_trip() -> None:
    text = plan_text({A1: [2, 3], A0: [1]}, {(A1, 3): "/data/3"})
    assert [row["partition"] for row in json.loads(text)["partitions"]] == [0, 1]
    plan = read_plan(text)
    check_plan(plan)
    assert plan.replicas == {A0: [1], A1: [2, 3]}
    assert plan.directories == {(A1, 3): "/data/3"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"partitions": [', "not valid JSON"),
        ('{"partitions": []}', "cannot be empty"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}', "replica list cannot be empty"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}', "multiple entries for 1"),
        ('{"partitions": [{"topic": "a", "partition": true, "replicas": [1]}]}', "`Integer` value"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": []}]}', "Size of"),
        ('{"partitions": [{"topic": "a", "partition": 0}]}', "No such field exists: `replicas`"),
        ('{"version": 2}', "Not supported version"),
    ],
)
def test_an_invalid_plan_is_refused(text: str, told: str) -> None:
    with pytest.raises(Failure, match=told):
        check_plan(read_plan(text))


def test_topics_and_brokers_must_be_unique() -> None:
    assert read_topics('{"topics": [{"topic": "b"}, {"topic": "a"}]}') == ["b", "a"]
    assert read_brokers("3,1") == [3, 1]
    with pytest.raises(Failure, match=r"\[a\]"):
        read_topics('{"topics": [{"topic": "a"}, {"topic": "a"}]}')
    with pytest.raises(Failure, match=r"\[1\]"):
        read_brokers("1,2,1")
    with pytest.raises(Failure, match="one"):
        read_brokers("1,one")


def test_a_reassignment_in_progress_keeps_its_sources() -> None:
    under_way = {
        A0: Reassignment(replicas=(1, 2, 3), adding=(3,), removing=(1,)),
        B0: Reassignment(replicas=(1, 2), adding=(2,), removing=(1,)),
    }
    moves = moves_of(under_way, {A0: [2, 4], A1: [2, 1]}, {A0: [1, 2, 3], A1: [1]})
    assert moves == {
        A0: Move(frozenset({1, 2}), frozenset({4})),
        A1: Move(frozenset({1}), frozenset({2})),
        B0: Move(frozenset({1}), frozenset({2})),
    }
    assert throttled_replicas(moves) == {"a": ("0:1,0:2,1:1", "0:4,1:2"), "b": ("0:1", "0:2")}
