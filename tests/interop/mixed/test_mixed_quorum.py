"""Controllers of Kafka and of Ottla in one quorum: each is elected, follows the others, and has their log."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import peers
from tests.interop.mixed.nodes import (
    CONTROLLER_ID,
    AnyDynamicVoter,
    AnyStaticVoter,
    BrokerOnly,
    DynamicOttlaVoter,
    DynamicVoter,
    OttlaData,
    StaticFollower,
    StaticOttlaVoter,
    StaticVoter,
)
from tests.interop.peers import BrokerProcess

SECONDS_MAX = 60.0
ROUNDS_MAX = 12


def create(broker: BrokerOnly, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topic = NewTopic(name, num_partitions=1, replication_factor=1)
    admin.create_topics([topic], operation_timeout=SECONDS_MAX)[name].result(SECONDS_MAX)


def leader_of(broker: BrokerOnly) -> int:
    return int(re.findall(r"the leader of the quorum is (\d+)", broker.log_file.read_text())[-1])


def log_bytes(controller: BrokerProcess) -> bytes:
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


def change(via: int, *words: str) -> str:
    """Kafka's tool for the quorum, at a controller's port; what it printed."""
    command = peers.java_command(
        "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-controller", f"127.0.0.1:{via}", *words
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def directory_id(controller: BrokerProcess) -> str:
    (text,) = re.findall(r"directory\.id=(\S+)", (controller.data / "meta.properties").read_text())
    return str(text)


@pytest.mark.parametrize("kinds", [("kafka", "ottla"), ("ottla", "kafka")], ids="-to-".join)
def test_the_controllers_of_a_cluster_move_to_the_other_kind_by_kafkas_tool(
    kinds: tuple[str, str], tmp_path: Path
) -> None:
    ports = [peers.free_port(), peers.free_port()]
    made = [DynamicVoter if kind == "kafka" else DynamicOttlaVoter for kind in kinds]
    first: AnyDynamicVoter = made[0](tmp_path / "first", CONTROLLER_ID, ports, is_first=True)
    second: AnyDynamicVoter = made[1](tmp_path / "second", CONTROLLER_ID + 1, ports, is_first=False)
    broker = OttlaData(tmp_path / "broker").follow(1, first)
    broker.extra_properties["controller.quorum.bootstrap.servers"] = (
        f"127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}"
    )
    try:
        first.start()
        second.start()
        broker.start()
        create(broker, "before")

        def has_joined() -> bool:
            replicas = change(ports[0], "describe", "--replication")
            return re.search(rf"^{CONTROLLER_ID + 1}\s", replicas, re.MULTILINE) is not None

        peers.wait_until(has_joined, SECONDS_MAX, "the second controller to follow the first")
        change(ports[0], "--command-config", str(second.properties_file), "add-controller")
        create(broker, "between")
        arguments = ["--controller-id", str(CONTROLLER_ID), "--controller-directory-id", directory_id(first)]
        change(ports[0], "remove-controller", *arguments)
        create(broker, "after")
        peers.wait_until(lambda: leader_of(broker) == CONTROLLER_ID + 1, SECONDS_MAX, "the second to lead")
        first.stop()
        create(broker, "alone")
        status = change(ports[1], "describe", "--status")
        assert re.search(rf"LeaderId:\s+{CONTROLLER_ID + 1}\b", status)
    finally:
        for node in (broker, first, second):
            node.close()
