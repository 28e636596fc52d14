"""Transactions of unmodified clients: committed, aborted, fenced, overdue, and with every connection cut."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Producer

from tests.interop.transactions.agents import AGENTS, Agent
from tests.interop.transactions.conftest import SOURCE, World
from tests.interop.transactions.proxy import Cut

EXPECTED = ["a0", "a1", "a2", "c0", "c1"]
IS_LONG = os.environ.get("OTTLA_TEST_LONG") == "1"


def _flow(
    world: World, agent: Agent, number: int = -1, cut: Cut = Cut.REQUEST, *, has_offsets: bool
) -> tuple[list[str], bool]:
    """Run the flow with a cut at request `number`, and judge what is left.

    The requests of the client, and whether one was cut: some clients send now two batches, now one.
    """
    topic = world.new_topic()
    world.proxy.arm(number, cut, spare=agent.hangs_after if has_offsets else frozenset())
    answer = agent.ask(
        "flow",
        bootstrap=world.bootstrap,
        direct=world.broker.bootstrap,
        id=f"id-{topic}",
        topic=topic,
        source=SOURCE,
        group=f"group-{topic}",
        offsets=has_offsets,
    )
    seen, has_cut = world.proxy.seen, world.proxy.has_cut
    world.proxy.arm(-1)
    where = f"cut of {cut.value} {number} ({seen[number] if 0 <= number < len(seen) else ''}): {answer}"
    assert "error" not in answer, where
    assert world.committed_values(topic) == EXPECTED, where
    if has_offsets:
        assert world.committed_offset(f"group-{topic}", SOURCE) == 7, where
    return seen, has_cut


# The flow with offsets has every step of the one without: where a client can do it all, it is enough.
FLOWS = [
    pytest.param(agent, has_offsets, id=f"{agent.name}-{'offsets' if has_offsets else 'records'}")
    for agent in AGENTS
    for has_offsets in (True, False)
    if (agent.has_offsets if has_offsets else not agent.has_offsets or agent.hangs_after)
]


@pytest.mark.parametrize(("agent", "has_offsets"), FLOWS)
def test_every_cut_connection_leaves_all_of_a_committed_transaction_and_nothing_else(
    world: World, agent: Agent, has_offsets: bool
) -> None:
    _flow(world, agent, has_offsets=has_offsets)  # makes the internal topics
    plain, _ = _flow(world, agent, has_offsets=has_offsets)
    assert plain.count("EndTxn") >= 3
    cuts = 0
    for cut in Cut:
        step = 1 if IS_LONG or cut is Cut.ANSWER else 3
        for number in range(0, len(plain), step):
            _, has_cut = _flow(world, agent, number, cut, has_offsets=has_offsets)
            cuts += has_cut
    print(f"{agent.name}: {cuts} cuts in a flow of {len(plain)} requests: {plain}")
    assert cuts > len(plain) // 2


def test_a_second_producer_with_the_same_id_fences_the_first(world: World, agent: Agent) -> None:
    topic = world.new_topic()
    answer = agent.ask("fence", bootstrap=world.bootstrap, id=f"id-{topic}", topic=topic)
    assert answer.get("refused"), answer
    assert answer["is_fatal"], answer
    assert world.committed_values(topic) == []


def test_a_transaction_that_takes_too_long_is_aborted(world: World, agent: Agent) -> None:
    topic = world.new_topic()
    answer = agent.ask("overstay", bootstrap=world.bootstrap, id=f"id-{topic}", topic=topic, seconds=2.0)
    assert answer.get("refused"), answer
    assert world.committed_values(topic) == []


def test_a_session_of_franz_go_moves_records_and_offsets_together(world: World) -> None:
    source, topic = world.new_topic(), world.new_topic()
    producer = Producer({"bootstrap.servers": world.bootstrap})
    for number in range(20):
        producer.produce(source, value=f"{number:02}", partition=number % 2)
    assert producer.flush(20) == 0
    agent = next(one for one in AGENTS if one.name == "franz-go")
    answer = agent.ask(
        "move", bootstrap=world.bootstrap, id=f"id-{topic}", source=source, topic=topic, group=f"g-{topic}"
    )
    assert answer == {"moved": 20}
    assert world.committed_values(topic) == [f"{number:02}" for number in range(20)]
    assert world.committed_offset(f"g-{topic}", source) == 10
