"""Consumer groups change hands with the data directory: what one broker wrote the other takes over as it is.

A group of members by names, by an expression, static and classic lives on: everyone keeps its epoch and its
partitions, and nobody is assigned anew, which they would be if the two made different hashes of the topics.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.interop import peers
from tests.interop.clients.conftest import broker_kinds
from tests.interop.groups_raw.ask_consumer import Modern
from tests.interop.groups_raw.brokers import PROPERTIES, wait_for_coordinator
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.members import Member, protocols, subscription
from tests.interop.peers import wait_until

SETTINGS = {**PROPERTIES, "broker.rack": "rack-1"}
NUMBER = 7


def described(talk: Talk) -> dict[str, Any]:
    """The group without the order of things."""
    (group,) = talk.hears("ConsumerGroupDescribe", group_ids=[talk.group]).groups
    assert group.error_code == 0, group.error_message

    def owned(assignment: Any) -> set[tuple[str, int]]:
        return {(row.topic_name, index) for row in assignment.topic_partitions for index in row.partitions}

    return {
        "state": group.group_state,
        "epochs": (group.group_epoch, group.assignment_epoch),
        "assignor": group.assignor_name,
        "members": {
            member.member_id: (
                *(member.member_epoch, member.instance_id, member.client_id, member.member_type),
                *(sorted(member.subscribed_topic_names), member.subscribed_topic_regex),
                *(owned(member.assignment), owned(member.target_assignment)),
            )
            for member in group.members
        },
    }


def settle(talk: Talk, modern: list[Modern], classic: Member) -> None:
    def settled() -> bool:
        for member in modern:
            member.acknowledge()
        if classic.heartbeat().error_code == 27:
            classic.join(protocols=_protocols(talk, classic))
            classic.sync()
        return bool(described(talk)["state"] == "Stable")

    wait_until(settled, 30, "the group to be stable")


def _protocols(talk: Talk, classic: Member) -> list[dict[str, Any]]:
    """What it says it owns is what the group gave it last: here it always gives up at once."""
    (group,) = talk.hears("ConsumerGroupDescribe", group_ids=[talk.group]).groups
    targets = [member.target_assignment for member in group.members if member.member_id == classic.id]
    rows = [(row.topic_name, row.partitions) for target in targets for row in target.topic_partitions]
    return protocols(range=subscription("alpha", owned=rows))


def make_group(broker: peers.BrokerProcess) -> tuple[dict[str, Any], list[Modern], Member]:
    wait_for_coordinator(broker)
    with Talk(broker, NUMBER, {}) as talk:
        modern = [
            Modern(talk, "A", subscribed_topic_names=["alpha", "beta"]),
            Modern(talk, "B", instance="static", subscribed_topic_names=["alpha"]),
            Modern(talk, "C", subscribed_topic_names=[], subscribed_topic_regex="ga.*"),
        ]
        for member in modern:
            assert member.join().error_code == 0
        classic = Member(talk, "D")
        classic.fields["protocols"] = protocols(range=subscription("alpha", owned=[]))
        assert classic.join().error_code == 0
        assert classic.sync().error_code == 0
        settle(talk, modern, classic)
        # An expression is resolved in the background: the group has its topic by now.
        wait_until(lambda: _owns_gamma(talk, modern, classic), 30, "the expression to be resolved")
        return described(talk), modern, classic


def _owns_gamma(talk: Talk, modern: list[Modern], classic: Member) -> bool:
    settle(talk, modern, classic)
    return ("gamma", 0) in described(talk)["members"][modern[2].id][-1]


def take_over(
    broker: peers.BrokerProcess, expected: dict[str, Any], modern: list[Modern], classic: Member
) -> None:
    wait_for_coordinator(broker)
    with Talk(broker, NUMBER, {}) as talk:
        assert described(talk) == expected
        classic.talk = talk.another()
        for member in modern:
            member.talk = talk.another()
        for _ in range(2):
            for member in modern:
                epoch = member.epoch
                response = member.acknowledge()
                assert (response.error_code, response.member_epoch) == (0, epoch)
            assert classic.heartbeat().error_code == 0
        assert described(talk) == expected


def relays() -> list[list[str]]:
    kinds = broker_kinds()
    if kinds == ["kafka"]:
        return [["kafka", "kafka"]]
    return [list(pair) for pair in itertools.permutations(["ottla", "kafka"])] + [["ottla", "ottla"]]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("kinds", relays(), ids="-to-".join)
def test_a_consumer_group_changes_hands(tmp_path: Path, kinds: list[str], clean: bool) -> None:
    port, controller_port = peers.free_port(), peers.free_port()
    options: dict[str, Any] = {"port": port, "controller_port": controller_port, "properties": SETTINGS}
    with peers.running(kinds[0], tmp_path, **options) as broker:
        state = make_group(broker)
        if clean:
            broker.stop()
        else:
            broker.kill()
    with peers.running(kinds[1], tmp_path, **options) as broker:
        take_over(broker, *state)
