"""`ottla doctor` on Kafka and on Ottla, on healthy and on broken clusters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.client.admin import Admin, NewTopic
from ottla.testing import Cluster
from tests.interop import peers
from tests.interop.cli.conftest import NewTopicNamed, Run

Findings = list[dict[str, str]]


def examined(capsys: pytest.CaptureFixture[str], servers: str, *more: str) -> tuple[int, Findings]:
    code = main(["doctor", "-b", servers, "-o", "json", "--timeout", "30", *more])
    findings: Findings = json.loads(capsys.readouterr().out)["findings"]
    return code, findings


def bad(findings: Findings, check: str) -> str:
    return " ".join(
        f"{one['cause']} {one['cure']}" for one in findings if one["check"] == check and one["state"] != "ok"
    )


def test_a_sound_node_is_in_order_but_for_a_group_left_alone(ottla: Run, new_topic: NewTopicNamed) -> None:
    topic = new_topic()
    assert ottla("record", "produce", topic, "a", "b", "c").code == 0
    assert ottla("record", "consume", topic, "-g", f"{topic}-g", "-c", "1").code == 0
    ran = ottla("doctor", "--timeout", "30")

    # How full the disk is, and what other tests have left, is not for this one to say.
    assert "PROBLEM" not in re.sub("PROBLEM  disk", "", ran.text)
    assert f"Group {topic}-g has no members and 2 records of lag." in ran.text
    for check in ("connection", "listeners", "versions", "quorum", "clock", "partitions", "transactions"):
        assert f"OK       {check}" in ran.text
    assert re.search(r"^\w+ +disk ", ran.text, re.MULTILINE)
    assert f"ottla group delete {topic}-g" in ran.text


def test_settings_that_cannot_work_are_named(ottla: Run, new_topic: NewTopicNamed) -> None:
    topic = new_topic(min_insync_replicas="2")
    words = f"min.insync.replicas exceeds the replication factor of {topic}"
    seen: list[str] = []

    def is_named() -> bool:
        seen.append(ottla("doctor", "--quiet", "--timeout", "30").text)
        return words in seen[-1]

    peers.wait_until(is_named, 60, lambda: f"the topic is not named: {seen[-1]}")
    assert f"ottla topic alter {topic} --set min.insync.replicas=1" in seen[-1]
    assert ottla("topic", "alter", topic, "--set", "min.insync.replicas=1").code == 0
    peers.wait_until(lambda: not is_named(), 60, lambda: f"the cure does not help: {seen[-1]}")


@pytest.mark.parametrize("kind", ["kafka", "ottla"])
def test_wrong_advertised_listeners_are_named(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {"advertised.listeners": "PLAINTEXT://kafka-1.invalid:9092"}
    with peers.running(kind, tmp_path, properties=wrong) as broker:
        code, findings = examined(capsys, broker.bootstrap)

    assert code == 1
    assert "Broker 1 advertises kafka-1.invalid:9092" in bad(findings, "listeners")
    assert f"such as PLAINTEXT://127.0.0.1:{broker.port}" in bad(findings, "listeners")


def test_a_dead_broker_is_found_by_all_that_it_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=3) as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.create_topics(
                [
                    NewTopic("plain", assignments={0: [1, 2, 3]}),
                    NewTopic("strict", assignments={0: [1, 3]}, configs={"min.insync.replicas": "2"}),
                    NewTopic("lost", assignments={0: [3]}),
                ]
            ).all()
        cluster.kill(3)
        alive = ",".join(cluster.bootstrap_servers.split(",")[:2])

        def is_seen() -> bool:
            code, findings = examined(capsys, alive)
            seen.append(bad(findings, "partitions") + bad(findings, "brokers"))
            return code == 1 and "without a leader" in seen[-1] and "fenced" in seen[-1]

        seen: list[str] = []
        peers.wait_until(is_seen, 120, lambda: f"the broker's death is not seen: {seen[-1]}")

    assert "lost-0" in seen[-1]
    assert "strict-0" in seen[-1]
    assert "under-replicated: plain-0" in seen[-1]
    assert "Start broker 3" in seen[-1]


def test_a_cluster_that_is_not_there_is_one_problem(capsys: pytest.CaptureFixture[str]) -> None:
    code, findings = examined(capsys, f"127.0.0.1:{peers.free_port()}")

    assert code == 1
    assert [one["check"] for one in findings] == ["connection"]
    assert "was refused" in findings[0]["cause"]
