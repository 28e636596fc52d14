"""`ottla reassign` on three nodes: plan, start, status, throttle, cancel."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.asking import Asking
from tests.unit.server.nodes import wait_until

from ottla import Producer
from ottla.cli import main
from ottla.cli.reassignment import monitor
from ottla.client.admin import Admin, NewTopic
from ottla.testing import Cluster
from ottla.wire.messages.metadata import MetadataRequest

SECONDS_MAX = 120
_BROKERS = [["1", "3", "1"], ["2", "0", "1"], ["3", "0", "1"]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, controllers=1, overrides={"broker.session.timeout.ms": "60000"}) as running:
        yield running


@pytest.fixture(autouse=True)
def addressed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(monitor, "LOOK_SECONDS", 0.05)


class Ottla:
    """Run the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str, code: int = 0) -> str:
        self._capsys.readouterr()
        ended = main(["reassign", *words])
        printed = self._capsys.readouterr()
        assert ended == code, printed
        assert "Traceback" not in printed.err
        return printed.out if code == 0 else printed.err

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "-o", "json"))


@pytest.fixture
def ottla(capsys: pytest.CaptureFixture[str]) -> Ottla:
    return Ottla(capsys)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap_servers) as made:
        yield made


def create(cluster: Cluster, admin: Admin, name: str, assignments: list[list[int]]) -> None:
    admin.create_topics([NewTopic(name, assignments=dict(enumerate(assignments)))]).all()
    wait_for(cluster, name, assignments)


def wait_for(cluster: Cluster, name: str, assignments: list[list[int]]) -> None:
    """Wait until every broker reports it, since the command may ask any of them."""
    for port in map(cluster.port, cluster.node_ids):
        wait_until(
            lambda port=port: replicas(port, name) == assignments,  # type: ignore[misc]
            f"the broker on port {port} to know the replicas {assignments} of {name}",
            seconds_max=SECONDS_MAX,
        )


def replicas(port: int, name: str) -> list[list[int]]:
    """The replicas of a topic if all are in sync, according to one broker."""
    topic = MetadataRequest.MetadataRequestTopic(name=name)
    with Asking(port) as client:
        (found,) = client.ask(MetadataRequest(topics=[topic], allow_auto_topic_creation=False), 12).topics
    rows = sorted(found.partitions, key=lambda one: one.partition_index)
    return [list(one.replica_nodes) if set(one.isr_nodes) == set(one.replica_nodes) else [] for one in rows]


def fill(cluster: Cluster, topic: str) -> None:
    """Enough data that a throttle of a thousand bytes keeps the move in progress."""
    with Producer({"bootstrap.servers": cluster.bootstrap_servers}) as producer:
        for _ in range(4):
            producer.send(topic, b"x" * 900_000, partition=0)
        producer.flush()


def test_a_plan_is_shown_saved_and_executed(
    cluster: Cluster, admin: Admin, ottla: Ottla, tmp_path: Path
) -> None:
    create(cluster, admin, "spread", [[1], [1], [1]])
    plan, before = tmp_path / "plan.json", tmp_path / "before.json"
    shown = ottla.run("plan", "spread", "--save", str(plan), "--save-current", str(before))
    assert [line.split()[:4] for line in shown.splitlines()[:3]] == [
        ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
        ["spread", "0", "1", "2"],
        ["spread", "1", "1", "3"],
    ]
    assert "2 partitions change, 2 replicas will be copied" in shown
    brokers = [line.split() for line in shown.splitlines()[4:8]]
    assert brokers == [["BROKER", "REPLICAS", "BEFORE", "REPLICAS", "AFTER"], *_BROKERS]
    assert replicas(cluster.port(1), "spread") == [[1], [1], [1]], "a plan moves nothing"
    assert "use --yes" in ottla.run("start", "--file", str(plan), code=2)
    told = ottla.run("start", "--file", str(plan), "--yes", "--wait")
    assert "2 partitions started moving." in told
    wait_for(cluster, "spread", [[2], [3], [1]])
    assert "No replicas need to move." in ottla.run("plan", "spread")
    assert "No reassignment is in progress." in ottla.run("status", "--watch")
    back = ottla.json("start", "--file", str(before), "--yes", "--no-wait")
    assert back["started"]
    assert [row["after"] for row in back["partitions"]] == [[1], [1]]
    wait_for(cluster, "spread", [[1], [1], [1]])


def test_a_throttled_move_is_shown_and_cancelled(cluster: Cluster, admin: Admin, ottla: Ottla) -> None:
    create(cluster, admin, "large", [[1]])
    fill(cluster, "large")
    planned = ottla.json("plan", "large", "--replication-factor", "2", "--to", "1,2")
    assert planned["partitions"][0]["before"] == [1]
    assert planned["partitions"][0]["after"] == [1, 2]
    assert planned["copied_bytes"] > 3_000_000
    told = ottla.run("start", "large", "-r", "2", "--to", "1,2", "--throttle", "1kB", "--yes", "--no-wait")
    assert "ottla reassign throttle off" in told

    def throttles() -> dict[int, int]:
        return {one["broker"]: one["bytes_per_second"] for one in ottla.json("status")["throttles"]}

    wait_until(
        lambda: throttles() == {1: 1000, 2: 1000}, "both brokers to be limited", seconds_max=SECONDS_MAX
    )
    found = ottla.json("status")
    assert [row["adding"] for row in found["partitions"]] == [[2]]
    assert found["total_bytes"] > 3_000_000
    assert found["copied_bytes"] < found["total_bytes"]
    assert ottla.run("status").splitlines()[1].split()[:4] == ["large", "0", "1,2", "2"]
    assert "1 partition throttled to 2.0 KiB/s." in ottla.run("throttle", "2KiB")
    assert "No partition of other is being reassigned." in ottla.run("cancel", "other", "--yes", code=1)
    assert "use --yes" in ottla.run("cancel", code=2)
    assert "1 partition cancelled. Throttle removed." in ottla.run("cancel", "large", "--yes")
    assert ottla.json("status")["partitions"] == []
    wait_until(lambda: throttles() == {}, "the limits to be gone", seconds_max=SECONDS_MAX)
    wait_for(cluster, "large", [[1]])
    assert "No reassignment is in progress." in ottla.run("cancel", "--yes")
    told = ottla.run("start", "large", "-r", "2", "--to", "1,2", "--throttle", "50MB", "--yes", "--wait")
    assert "Reassignment complete. Throttle removed." in told
    wait_for(cluster, "large", [[1, 2]])
    wait_until(lambda: throttles() == {}, "the limits to be gone again", seconds_max=SECONDS_MAX)
    wait_until(
        lambda: "No throttle is set." in ottla.run("throttle", "off"),
        "every broker to know that no limit is left",
        seconds_max=SECONDS_MAX,
    )


def test_a_broker_is_drained(cluster: Cluster, admin: Admin, ottla: Ottla) -> None:
    create(cluster, admin, "drained", [[1, 2], [2, 3], [3, 1]])
    ottla.run("start", "drained", "--drain", "3", "--yes", "--wait")
    wait_for(cluster, "drained", [[1, 2], [2, 1], [2, 1]])
    whole = ottla.json("plan", "--drain", "3")
    assert all(3 in row["before"] and 3 not in row["after"] for row in whole["partitions"])


@pytest.fixture(scope="module")
def words_topic(cluster: Cluster) -> None:
    with Admin(cluster.bootstrap_servers) as admin:
        create(cluster, admin, "words", [[1, 2]])


@pytest.mark.usefixtures("words_topic")
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["plan"], 2, "Specify topics, --all, or a broker to --drain."),
        (["plan", "words", "--all"], 2, "not both"),
        (["plan", "nothing"], 1, "There is no topic nothing."),
        (["plan", "nothing-*"], 1, "No topic matches nothing-*."),
        (["plan", "--all", "--to", "1,9"], 1, "Unknown broker 9. The brokers are 1,2,3."),
        (["plan", "--all", "--to", "one"], 2, "--to one: use comma-separated broker ids"),
        (
            ["plan", "words", "-r", "4"],
            1,
            "words-0 needs 4 replicas, but the available brokers are 1, 2, 3.",
        ),
        (["start", "--file", "/nowhere"], 1, "Cannot use /nowhere: No such file or directory."),
        (["start", "--file", "HALF"], 1, "The reassignment is not valid JSON"),
        (["start", "--file", "UNKNOWN"], 1, "There is no topic nothing."),
        (["start", "--file", "PARTITION"], 1, "topic words has no partition 7."),
        (["start", "--file", "BROKER"], 1, "unknown broker 9. The brokers are 1,2,3."),
        (["start", "--file", "DISK"], 1, "specifies log directories"),
        (
            ["start", "words", "--file", "HALF"],
            2,
            "--file contains the whole plan and cannot be combined with other selections.",
        ),
        (["start", "words", "--throttle", "fast"], 2, "--throttle fast is not a size"),
        (["start", "words", "--throttle", "0"], 2, "would stop replication"),
        (["throttle", "5MB"], 1, "No reassignment is in progress, so there is nothing to throttle."),
    ],
)
def test_an_impossible_request_is_one_line(
    ottla: Ottla, tmp_path: Path, words: list[str], code: int, told: str
) -> None:
    row = {"topic": "words", "partition": 0, "replicas": [1, 2]}
    rows = {
        "UNKNOWN": {**row, "topic": "nothing"},
        "PARTITION": {**row, "partition": 7},
        "BROKER": {**row, "replicas": [9]},
        "DISK": {**row, "log_dirs": ["/d", "any"]},
    }
    for name, one in rows.items():
        (tmp_path / name).write_text(json.dumps({"version": 1, "partitions": [one]}))
    (tmp_path / "HALF").write_text('{"version": 1, "partitions": [{"top')
    said = ottla.run(
        *(str(tmp_path / word) if word in (*rows, "HALF") else word for word in words), code=code
    )
    assert told in said
    assert len(said.splitlines()) == 1
