"""Partitions shared out among the members of a classic group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.core.assignors import assignors_of
from ottla.client.core.assignors.sticky import decode_claim, encode_claim
from ottla.client.core.metadata import ClusterView, Node, PartitionView, TopicView
from ottla.client.core.subscription import MemberSubscription
from ottla.client.errors import ConfigError
from ottla.client.values import TopicPartition

RACKS = ("a", "b", "c")


def view(topics: Mapping[str, Iterable[str]]) -> ClusterView:
    """Topics whose partitions are told as the racks of their replicas."""
    brokers = {number: Node(number, "h", 1, rack) for number, rack in enumerate(RACKS)}
    views = {}
    for name, partitions in topics.items():
        listed = [
            PartitionView(index, 0, 0, tuple(map(RACKS.index, racks)), (), ())
            for index, racks in enumerate(partitions)
        ]
        views[name] = TopicView(name, bytes(16), None, False, tuple(listed))
    return ClusterView(brokers, topics=views)


def partitions(topic: str, *indexes: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in indexes]


def one(name: Any) -> Any:
    (assignor,) = assignors_of([name])
    return assignor


def test_range_gives_neighbours_and_the_rest_to_the_first_members() -> None:
    members = {name: MemberSubscription(("t", "u")) for name in ("m2", "m1")}
    assigned = one("range").assign(view({"t": [""] * 3, "u": [""] * 2}), members)
    assert assigned["m1"] == [*partitions("t", 0, 1), *partitions("u", 0)]
    assert assigned["m2"] == [*partitions("t", 2), *partitions("u", 1)]


def test_range_prefers_members_in_the_rack_of_a_replica() -> None:
    members = {"m1": MemberSubscription(("t",), rack="b"), "m2": MemberSubscription(("t",), rack="a")}
    assigned = one("range").assign(view({"t": ["a", "b", "a", "b"]}), members)
    assert assigned == {"m1": partitions("t", 1, 3), "m2": partitions("t", 0, 2)}


def test_round_robin_takes_turns_over_all_topics_with_static_members_first() -> None:
    members = {
        "a": MemberSubscription(("t", "u")),
        "b": MemberSubscription(("t",)),
        "z": MemberSubscription(("t", "u"), instance_id="i"),
    }
    assigned = one("roundrobin").assign(view({"t": [""] * 4, "u": [""] * 2}), members)
    assert assigned["z"] == [*partitions("t", 0, 3), *partitions("u", 1)]
    assert assigned["a"] == [*partitions("t", 1), *partitions("u", 0)]
    assert assigned["b"] == partitions("t", 2)


def test_sticky_members_keep_what_they_had() -> None:
    topics = view({"t": [""] * 6})
    data = encode_claim(partitions("t", 5, 4, 3), 1)
    members = {"old": MemberSubscription(("t",), user_data=data), "new": MemberSubscription(("t",))}
    assigned = one("sticky").assign(topics, members)
    assert {name: sorted(found) for name, found in assigned.items()} == {
        "old": partitions("t", 3, 4, 5),
        "new": partitions("t", 0, 1, 2),
    }


def test_what_moves_between_cooperative_members_is_given_back_first() -> None:
    topics = view({"t": [""] * 4})
    owned = tuple(partitions("t", 0, 1, 2, 3))
    members = {
        "old": MemberSubscription(("t",), owned=owned, generation=3),
        "new": MemberSubscription(("t",)),
    }
    assignor = one("cooperative-sticky")
    first = assignor.assign(topics, members)
    assert first == {"old": partitions("t", 0, 1), "new": []}
    members["old"] = MemberSubscription(("t",), owned=tuple(first["old"]), generation=4)
    members["new"] = MemberSubscription(("t",), generation=4)
    assert assignor.assign(topics, members) == {"old": partitions("t", 0, 1), "new": partitions("t", 2, 3)}


def test_two_claims_of_one_generation_count_for_nobody() -> None:
    topics = view({"t": [""] * 2})
    claim = MemberSubscription(("t",), owned=tuple(partitions("t", 0)), generation=1)
    assigned = one("cooperative-sticky").assign(topics, {"a": claim, "b": claim})
    assert [*assigned["a"], *assigned["b"]] == partitions("t", 1)


def test_owned_partitions_that_do_not_exist_are_forgotten() -> None:
    owned = tuple(partitions("t", 7, 0)) + tuple(partitions("gone", 0))
    for other in ("t", "u"):
        members = {
            "a": MemberSubscription(("t",), owned=owned, generation=1),
            "b": MemberSubscription((other,)),
        }
        assigned = one("cooperative-sticky").assign(view({"t": [""] * 2, "u": [""]}), members)
        assert "gone" not in {partition.topic for found in assigned.values() for partition in found}
        assert TopicPartition("t", 7) not in assigned["a"]


@st.composite
def groups(draw: st.DrawFn) -> tuple[ClusterView, dict[str, MemberSubscription]]:
    counts = draw(st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 7), min_size=1))
    racks = st.sampled_from([None, *RACKS])
    topics = {
        name: draw(st.lists(st.sampled_from(["", "a", "b", "ab", "abc"]), min_size=count, max_size=count))
        for name, count in counts.items()
    }
    members = draw(
        st.dictionaries(
            st.text(min_size=1, max_size=3),
            st.builds(
                MemberSubscription,
                st.lists(st.sampled_from(sorted(counts)), unique=True).map(tuple),
                owned=st.lists(
                    st.builds(TopicPartition, st.sampled_from("tuvwx"), st.integers(0, 8)), unique=True
                ).map(tuple),
                generation=st.integers(-1, 3),
                rack=racks,
            ),
            min_size=1,
            max_size=6,
        )
    )
    return view(topics), members


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
@settings(max_examples=60, deadline=None)
@given(group=groups())
def test_whatever_members_say_each_wanted_partition_has_one_owner_that_wants_it(
    name: str, group: tuple[ClusterView, dict[str, MemberSubscription]]
) -> None:
    cluster, members = group
    if name == "sticky":
        members = {
            who: MemberSubscription(
                member.topics, encode_claim(member.owned, member.generation), rack=member.rack
            )
            for who, member in members.items()
        }
    assigned = one(name).assign(cluster, members)
    given_out = [partition for found in assigned.values() for partition in found]
    assert set(assigned) == set(members)
    assert len(given_out) == len(set(given_out))
    assert all(
        partition.topic in members[who].topics for who, found in assigned.items() for partition in found
    )
    wanted = {
        TopicPartition(topic, partition.index)
        for member in members.values()
        for topic in member.topics
        for partition in cluster.topics[topic].partitions
    }
    assert set(given_out) <= wanted
    owned = {partition for member in members.values() for partition in member.owned}
    if name != "cooperative-sticky" or wanted.isdisjoint(owned):
        assert set(given_out) == wanted


@given(st.binary(max_size=60))
def test_user_data_that_is_nonsense_is_read_without_an_error(data: bytes) -> None:
    decode_claim(data)


def test_user_data_is_read_back_in_both_versions() -> None:
    data = encode_claim(partitions("t", 2, 1), 9)
    assert decode_claim(data) == (tuple(partitions("t", 2, 1)), 9)
    assert decode_claim(data[:-4]) == (tuple(partitions("t", 2, 1)), None)


def test_assignors_are_named_by_kafkas_names_classes_and_objects() -> None:
    names = ["org.apache.kafka.clients.consumer.StickyAssignor", "range"]
    assert [assignor.name for assignor in assignors_of(names)] == ["sticky", "range"]
    own = one("range")
    own.name = "mine"
    assert assignors_of([own, type(own)])[0] is own
    for wrong in (["x.Y"], ["range", "range"], [5]):
        with pytest.raises(ConfigError):
            assignors_of(wrong)
