"""A member that its group puts out in the middle of a transaction is fenced, whichever client it is.

Its user does not poll for too long, and another member takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.interop import peers
from tests.interop.transactions.agents import AGENTS
from tests.interop.transactions.conftest import World
from tests.interop.transactions.ottla_agent import zombie

COUNT = 20

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
    source, topic = world.new_topic(), world.new_topic()
    producer = Producer({"bootstrap.servers": world.bootstrap})
    for number in range(COUNT):
        producer.produce(source, value=f"{number:02}", partition=0)
    assert producer.flush(20) == 0
    answer = CLIENTS[client](
        bootstrap=world.bootstrap,
        id=f"id-{topic}",
        topic=topic,
        source=source,
        group=f"group-{topic}",
        protocol=protocol,
        count=COUNT,
        poll_interval_ms=2000,
    )
    assert answer.get("refused"), answer
    peers.wait_until(lambda: world.is_settled(topic), 20, f"the markers in {topic}")
    assert world.committed_values(topic) == ["of the new one"]
    assert world.committed_offset(f"group-{topic}", source) == COUNT
