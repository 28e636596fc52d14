"""The reference deployment as seen by Kafka's tools: its quorum, its topics, and its errors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.interop import peers
from tests.interop.cluster.nodes import BROKERS, CONTROLLERS, SECONDS_MAX, Five
from tests.interop.groups_tool.runner import Tools

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module", params=[False, True], ids=["voters", "bootstrap-servers"])
def five(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Five]:
    # Nobody fails here, so nobody need be quick to find out.
    patient = {"broker.session.timeout.ms": "18000", "controller.quorum.fetch.timeout.ms": "6000"}
    with Five(tmp_path_factory.mktemp("five"), is_dynamic=request.param, settings=patient) as made:
        yield made


@pytest.fixture(scope="module")
def tools() -> Iterator[Tools]:
    with Tools() as made:
        yield made


def places(five: Five) -> list[list[str]]:
    """A broker alone, one that is a controller too, and a controller, as a tool is told of them."""
    return [
        ["--bootstrap-server", five.nodes[5].bootstrap],
        ["--bootstrap-server", five.nodes[1].bootstrap],
        ["--bootstrap-controller", f"127.0.0.1:{five.nodes[2].controller_port}"],
    ]


def described(tools: Tools, place: list[str]) -> tuple[dict[str, str], dict[int, str]]:
    """The status of the quorum, and what each node is in it; once one leader tells both, with all nodes."""
    status: dict[str, str] = {}
    standing: dict[int, str] = {}

    def is_described() -> bool:
        first = tools.run(QUORUM, *place, "describe", "--status")
        second = tools.run(QUORUM, *place, "describe", "--replication")
        if first.exit or second.exit:
            return False
        status.clear()
        status.update(re.findall(r"^(\w+):\s+(.*)$", first.out, re.MULTILINE))
        rows = [line.split() for line in second.out.splitlines() if line.strip()]
        assert rows[0][:4] == ["NodeId", "DirectoryId", "LogEndOffset", "Lag"]
        standing.clear()
        standing.update({int(row[0]): row[-1] for row in rows[1:]})
        return standing.get(int(status["LeaderId"])) == "Leader" and len(standing) == len(BROKERS)

    try:
        peers.wait_until(is_described, SECONDS_MAX, "the quorum to be described")
    except AssertionError as error:
        raise AssertionError(f"{error}: {status}, {standing}") from None
    return status, standing


def test_kafkas_tool_shows_the_quorum_and_who_follows_it(five: Five, tools: Tools) -> None:
    for place in places(five):
        status, standing = described(tools, place)
        assert status["ClusterId"] == five.nodes[1].cluster_id
        assert int(status["LeaderEpoch"]) >= 1
        assert int(status["HighWatermark"]) > 0
        voters = ast.literal_eval(status["CurrentVoters"].replace("null", "None"))
        observers = ast.literal_eval(status["CurrentObservers"].replace("null", "None"))
        assert sorted(voter["id"] for voter in voters) == list(CONTROLLERS)
        assert sorted(observer["id"] for observer in observers) == [4, 5]
        for voter in voters:
            assert voter["endpoints"] == [f"CONTROLLER://127.0.0.1:{five.nodes[voter['id']].controller_port}"]
        assert sorted(standing.values()) == ["Follower", "Follower", "Leader", "Observer", "Observer"]
        assert (standing[4], standing[5]) == ("Observer", "Observer")


def test_topics_of_every_replication_factor(five: Five, tools: Tools) -> None:
    bootstrap = ["--bootstrap-server", five.bootstrap]
    names = {f"on-{count}": 3 for count in BROKERS}
    for count in BROKERS:
        words = ["--create", "--topic", f"on-{count}", "--partitions", "3", "--replication-factor"]
        made = tools.run(TOPICS, *bootstrap, *words, str(count))
        assert (made.exit, made.out.strip()) == (0, f"Created topic on-{count}.")
    five.wait_until_in_sync(names)
    for node_id in BROKERS:
        for (topic, _), partition in five.partitions(names, at=node_id).items():
            count = int(topic.removeprefix("on-"))
            assert len(set(partition.replica_nodes)) == len(partition.replica_nodes) == count
            assert set(partition.replica_nodes) <= set(BROKERS)
            assert partition.leader_id == partition.replica_nodes[0]
    shown = tools.run(TOPICS, *bootstrap, "--describe", "--topic", "on-5")
    assert re.search(r"Topic: on-5\s+TopicId: \S+\s+PartitionCount: 3\s+ReplicationFactor: 5\s", shown.out)
    leaders = [int(found) for found in re.findall(r"Leader: (\d+)", shown.out)]
    assert len(leaders) == len(set(leaders)) == 3  # spread over the brokers


def test_more_replicas_than_brokers_and_fewer_partitions_are_refused_in_kafkas_words(
    five: Five, tools: Tools
) -> None:
    bootstrap = ["--bootstrap-server", five.bootstrap]
    words = ["--create", "--topic", "six", "--partitions", "1", "--replication-factor", "6"]
    refused = tools.run(TOPICS, *bootstrap, *words)
    assert (refused.exit, refused.out.strip()) == (
        1,
        "Error while executing topic command : Unable to replicate the partition 6 time(s): The target "
        "replication factor of 6 cannot be reached because only 5 broker(s) are registered or some brokers "
        "have all their log directories cordoned.",
    )
    words = ["--create", "--topic", "shrinking", "--partitions", "4", "--replication-factor", "3"]
    assert tools.run(TOPICS, *bootstrap, *words).exit == 0
    for count, why in (
        (3, "The topic shrinking currently has 4 partition(s); 3 would not be an increase."),
        (4, "Topic already has 4 partition(s)."),
    ):
        refused = tools.run(TOPICS, *bootstrap, "--alter", "--topic", "shrinking", "--partitions", str(count))
        expected = f"Error while executing topic command : {why}"
        assert (refused.exit, refused.out.strip()) == (1, expected)
    grown = tools.run(TOPICS, *bootstrap, "--alter", "--topic", "shrinking", "--partitions", "6")
    assert grown.exit == 0
    peers.wait_until(
        lambda: len(five.partitions(["shrinking"], at=4)) == 6, SECONDS_MAX, "six partitions", 0.1
    )
