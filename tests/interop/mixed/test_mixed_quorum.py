"""Controllers of Kafka and of Ottla in one quorum: each is elected, follows the others, and has their log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import peers
from tests.interop.mixed.nodes import (
    CONTROLLER_ID,
    AnyStaticVoter,
    StaticFollower,
    StaticOttlaVoter,
    StaticVoter,
)

SECONDS_MAX = 60.0
ROUNDS_MAX = 12


def create(broker: StaticFollower, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topic = NewTopic(name, num_partitions=1, replication_factor=1)
    admin.create_topics([topic], operation_timeout=SECONDS_MAX)[name].result(SECONDS_MAX)


def leader_of(broker: StaticFollower) -> int:
    return int(re.findall(r"the leader of the quorum is (\d+)", broker.log_file.read_text())[-1])


def log_bytes(controller: AnyStaticVoter) -> bytes:
    segments = sorted((controller.data / "__cluster_metadata-0").glob("*.log"))
    return b"".join(segment.read_bytes() for segment in segments)


@pytest.mark.parametrize("kinds", [("kafka", "kafka", "ottla"), ("ottla", "ottla", "kafka")], ids="-".join)
def test_each_kind_of_controller_leads_the_other(kinds: tuple[str, ...], tmp_path: Path) -> None:
    voters = {CONTROLLER_ID + number: peers.free_port() for number in range(3)}
    controllers: dict[int, AnyStaticVoter] = {}
    for voter_id, kind in zip(voters, kinds, strict=True):
        made = StaticVoter if kind == "kafka" else StaticOttlaVoter
        controllers[voter_id] = made(tmp_path / f"controller-{voter_id}", voter_id, voters)
    broker = StaticFollower(tmp_path / "broker", 1, voters)
    led: set[str] = set()
    try:
        for controller in controllers.values():
            controller.start(wait=False)
        broker.start()
        create(broker, "first")
        for number in range(ROUNDS_MAX):
            leader = leader_of(broker)
            led.add(controllers[leader].kind)
            if led == set(kinds) and number > 2:
                break
            controllers[leader].kill()
            create(broker, f"topic-{number}")  # waits for the election, and is sent again
            controllers[leader].start(wait=False)
        assert led == set(kinds)
        create(broker, "last")
        for controller in controllers.values():
            controller.wait_ready()
    finally:
        for node in (broker, *controllers.values()):
            node.close()
    logs = [log_bytes(controller) for controller in controllers.values()]
    shortest = min(map(len, logs))
    assert shortest > 0
    assert len({log[:shortest] for log in logs}) == 1
