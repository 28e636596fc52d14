"""A member that its group puts out in the middle of a transaction is fenced, whichever client it is.

Its user does not poll for too long, its session expires, its process stalls, or another member takes its
instance id; and another member takes over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.interop import peers
from tests.interop.transactions.agents import AGENTS
from tests.interop.transactions.conftest import World
from tests.interop.transactions.ottla_agent import take_over, zombie

COUNT = 20
SESSION_OVER_S = 3.0  # the session timeout of the broker's consumer groups is 2 s

_AGENTS = {agent.name: agent for agent in AGENTS}
CLIENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "ottla": zombie,
    "java": lambda **command: _AGENTS["java"].ask("zombie", **command),
    "confluent": lambda **command: _AGENTS["confluent"].ask("zombie", **command),
}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_member_that_was_put_out_cannot_commit_its_transaction(
    world: World, client: str, protocol: str
) -> None:
    command = new_story(world, protocol, poll_interval_ms=2000)
    answer = CLIENTS[client](**command)
    check_fenced(world, command, answer)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("way", ["session", "stalled process", "static member"])
@pytest.mark.parametrize("client", ["java", "confluent"])
def test_a_member_that_another_one_took_over_from_cannot_commit_its_transaction(
    world: World, client: str, way: str, protocol: str
) -> None:
    agent = _AGENTS[client]
    instance = f"{client}-{protocol}" if way == "static member" else None
    command = new_story(world, protocol, poll_interval_ms=60_000, session_ms=2000, instance=instance)
    assert agent.ask("begin_zombie", member="old-member", **command) == {}
    # In the consumer protocol an instance id is free only when the session of its member has expired.
    is_stopped = way == "stalled process" or (way == "static member" and protocol == "consumer")
    with world.proxy.silence("old-member") if way == "session" else nullcontext():
        with agent.stopped() if is_stopped else nullcontext():
            if is_stopped and instance is not None:
                time.sleep(SESSION_OVER_S)
            take_over(**command)
        answer = agent.ask("end_zombie")
    assert agent.ask("close_zombie") == {}
    check_fenced(world, command, answer)


def new_story(world: World, protocol: str, **more: Any) -> dict[str, Any]:
    """What the members are told; there are records for them to read."""
    source, topic = world.new_topic(), world.new_topic()
    producer = Producer({"bootstrap.servers": world.bootstrap})
    for number in range(COUNT):
        producer.produce(source, value=f"{number:02}", partition=0)
    assert producer.flush(20) == 0
    return {
        "bootstrap": world.bootstrap,
        "id": f"id-{topic}",
        "topic": topic,
        "source": source,
        "group": f"group-{topic}",
        "protocol": protocol,
        "count": COUNT,
        **more,
    }


def check_fenced(world: World, command: dict[str, Any], answer: dict[str, Any]) -> None:
    assert answer.get("refused"), answer
    topic = command["topic"]
    peers.wait_until(lambda: world.is_settled(topic), 20, f"the markers in {topic}")
    assert world.committed_values(topic) == ["of the new one"]
    assert world.committed_offset(command["group"], command["source"]) == COUNT
