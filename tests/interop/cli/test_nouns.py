"""`ottla topic`, `group`, `config`, `cluster`, `quorum`, `txn` and completion on Kafka and on Ottla.

Answers are read as JSON, and the Kafka-named tools are asked for the same as second witnesses.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import ottla as library
from ottla.client.admin import Admin
from ottla.client.values import TopicPartition
from ottla.tools import consumer_groups, topics
from tests.interop import peers
from tests.interop.cli.conftest import NewTopicNamed, Ran, Run
from tests.interop.groups_raw.conversation import Talk
from tests.interop.transactions_tool.producers import Producer as RawProducer

SECONDS_MAX = 60.0
RECORDS = 20


def ask(ottla: Run, *words: str) -> Any:
    """The JSON output of a command."""
    ran = ottla(*words, "-o", "json")
    assert ran.code == 0, ran.err
    return json.loads(ran.text)


def ask_until(ottla: Run, condition: Callable[[Any], object], *words: str) -> Any:
    """Retry until the answer is as expected: a change reaches a Kafka broker a little later."""
    seen: list[Ran] = []

    def is_so() -> bool:
        ran = ottla(*words, "-o", "json")
        seen[:] = [ran]
        return ran.code == 0 and bool(condition(json.loads(ran.text)))

    peers.wait_until(is_so, SECONDS_MAX, lambda: f"ottla {' '.join(words)}; it said {seen}", pause_s=0.1)
    return json.loads(seen[0].text)


def refused(ottla: Run, *words: str) -> str:
    """The error line of a failing command."""
    ran = ottla(*words)
    assert ran.code == 1, ran
    assert ran.err.startswith("ottla: ")
    assert ran.err.count("\n") == 1, ran.err
    return ran.err


def new_name(kind: str) -> str:
    return f"{kind}-{uuid4().hex[:10]}"


def produce(broker: peers.BrokerProcess, topic: str, partitions: int, age_ms: int = 0) -> None:
    timestamp = int(time.time() * 1000) - age_ms
    with library.Producer(broker.bootstrap) as producer:
        for number in range(RECORDS * partitions):
            producer.send(topic, b"%d" % number, partition=number % partitions, timestamp=timestamp)


def test_topics_are_made_described_altered_and_deleted(
    ottla: Run, broker: peers.BrokerProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    name = new_name("orders")
    made = ottla(
        "topic", "create", name, "-n", "2", "-r", "1", "--retention", "7d", "-s", "segment.bytes=1048576"
    )
    assert made == (0, f"Topic {name} created, 2 partitions, replication factor 1.\n".encode(), "")
    produce(broker, name, 2)

    found = ask(ottla, "topic", "describe", name)
    assert found["configs"] == {"retention.ms": "604800000", "segment.bytes": "1048576"}
    assert found["retention"] == {
        "cleanup_policy": "delete",
        "retention_ms": 604_800_000,
        "retention_bytes": None,
    }
    assert (found["records"], found["replication_factor"]) == (2 * RECORDS, 1)
    for at, partition in enumerate(found["partitions"]):
        assert partition["partition"] == at
        assert (partition["leader"], partition["replicas"], partition["isr"]) == (1, [1], [1])
        assert (partition["earliest"], partition["latest"], partition["state"]) == (0, RECORDS, "ok")
        assert partition["size_bytes"] > 0
    shown = ottla("topic", "describe", name).text
    assert re.search(r"retention +delete after 7d", shown)
    assert re.search(r"^ +1 +1 +1 +1 +ok +0 +20 +20 ", shown, re.MULTILINE)

    assert topics.main(["--bootstrap-server", broker.bootstrap, "--describe", "--topic", name]) == 0
    witness = capfd.readouterr().out
    assert f"TopicId: {found['topic_id']}\tPartitionCount: 2\tReplicationFactor: 1" in witness

    altered = ottla("topic", "alter", name, "-n", "3", "-s", "cleanup.policy=compact", "-u", "retention.ms")
    assert altered.text == (
        f"Topic {name} changed: 2 to 3 partitions, cleanup.policy=compact, "
        "retention.ms reset to its default.\n"
    )
    ask_until(
        ottla,
        lambda found: (
            len(found["partitions"]) == 3
            and found["configs"] == {"cleanup.policy": "compact", "segment.bytes": "1048576"}
        ),
        "topic",
        "describe",
        name,
    )
    listed = {row["topic"]: row for row in ask(ottla, "topic", "list", name)}
    assert listed[name]["partitions"] == 3
    assert listed[name]["size_bytes"] > 0
    assert (listed[name]["under_replicated"], listed[name]["offline"]) == (0, 0)
    assert ottla("topic", "list", "-q", name).text == f"{name}\n"
    assert name not in ottla("topic", "list", "--unhealthy", "-q").text

    assert ottla("topic", "delete", name).code == 2
    assert ottla("topic", "delete", name, "--yes") == (0, f"Topic {name} deleted.\n".encode(), "")
    ask_until(ottla, lambda found: found == [], "topic", "list", name)
    assert ottla("topic", "delete", name, "--yes", "--if-exists").text == "Nothing to delete.\n"


def test_what_is_wrong_with_a_topic_is_said_in_one_line(ottla: Run, new_topic: NewTopicNamed) -> None:
    name = new_topic(2)
    ask_until(ottla, lambda found: found["topic"] == name, "topic", "describe", name)
    assert f"There is no topic {name}s. Did you mean {name}?" in refused(
        ottla, "topic", "describe", f"{name}s"
    )
    assert f"Did you mean {name}?" in refused(ottla, "topic", "delete", f"{name}s", "--yes")
    assert "already exists. Change it with: ottla topic alter" in refused(ottla, "topic", "create", name)
    assert "List brokers with: ottla cluster describe" in refused(ottla, "topic", "create", "x", "-r", "3")
    assert "has 2 partitions; the number cannot shrink" in refused(ottla, "topic", "alter", name, "-n", "1")
    assert "Did you mean retention.ms?" in refused(ottla, "topic", "alter", name, "-s", "retention.mss=1")
    assert ottla("topic", "create", name, "--if-not-exists").code == 0
    assert ask(ottla, "topic", "create", f"{name}-not", "--dry-run")[0]["created"] is False
    assert ask(ottla, "topic", "list", f"{name}-not") == []


@pytest.fixture
def behind(broker: peers.BrokerProcess, new_topic: NewTopicNamed) -> tuple[str, str]:
    """A topic of two partitions with hour-old records, and a group that has read 5 of one and all of the
    other."""
    topic, group = new_topic(2), new_name("group")
    produce(broker, topic, 2, age_ms=3_600_000)
    with Admin(broker.bootstrap) as admin:
        offsets = {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): RECORDS}
        admin.alter_consumer_group_offsets(group, offsets).all()
    return topic, group


def test_groups_are_described_with_their_lag_and_reset(
    ottla: Run, broker: peers.BrokerProcess, behind: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    topic, group = behind
    listed = {row["group"]: row for row in ask(ottla, "group", "list", "--lag")}
    assert (listed[group]["state"], listed[group]["lag"]) == ("Empty", RECORDS - 5)
    found = ask(ottla, "group", "describe", group)
    assert (found["group"], found["state"], found["members"]) == (group, "Empty", [])
    assert found["lag"] == RECORDS - 5
    first, second = found["partitions"]
    assert (first["topic"], first["current_offset"], first["log_end_offset"]) == (topic, 5, RECORDS)
    assert 3600 <= first["lag_seconds"] < 7200
    assert (second["lag"], second["lag_seconds"]) == (0, 0.0)
    assert re.search(rf"{topic} +0 +5 +20 +15 +1h", ottla("group", "describe", group).text)

    planned = ottla("group", "reset", group, "--topic", topic, "--to", "earliest")
    assert "nothing was changed. Add --execute" in planned.text
    assert re.search(rf"{topic} +0 +5 +0 +-5 +0 +20", planned.text)
    assert ask(ottla, "group", "describe", group)["lag"] == RECORDS - 5
    rows = ask(ottla, "group", "reset", group, "--all-topics", "--shift-by", "-100", "--execute")
    assert [(row["new_offset"], row["executed"]) for row in rows] == [(0, True), (0, True)]
    assert ask(ottla, "group", "describe", group, "--no-time")["lag"] == 2 * RECORDS
    assert [
        row["new_offset"] for row in ask(ottla, "group", "reset", group, "-t", topic, "--back", "30m")
    ] == [
        RECORDS,
        RECORDS,
    ]
    assert [
        row["new_offset"] for row in ask(ottla, "group", "reset", group, "-t", topic, "--back", "2h")
    ] == [0, 0]
    ask(ottla, "group", "reset", group, "--topic", f"{topic}:1", "--to", "7", "--execute")

    arguments = ["--bootstrap-server", broker.bootstrap, "--describe", "--group", group]
    assert consumer_groups.main(arguments) == 0
    witness = capfd.readouterr().out
    assert re.search(rf"{group} +{topic} +1 +7 +20 +13", witness)

    assert "has no partition 9" in refused(
        ottla, "group", "reset", group, "-t", f"{topic}:9", "--to", "latest"
    )
    assert f"Did you mean {group}?" in refused(ottla, "group", "describe", f"{group}x")
    assert ottla("group", "delete", group, "--yes").text == f"Group {group} deleted.\n"
    assert group not in [row["group"] for row in ask(ottla, "group", "list")]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_a_group_are_shown_and_protected(
    ottla: Run, broker: peers.BrokerProcess, behind: tuple[str, str], protocol: str
) -> None:
    topic, _ = behind
    group = new_name("live")
    with library.Consumer[bytes, bytes](
        broker.bootstrap,
        group_id=group,
        topics=[topic],
        group_protocol=protocol,
        auto_offset_reset="earliest",
        client_id="reader-1",
    ) as consumer:
        taken: list[object] = []

        def has_all() -> bool:
            taken.extend(consumer.poll(timeout=1.0))
            return len(taken) >= 2 * RECORDS

        peers.wait_until(has_all, SECONDS_MAX, lambda: f"all records; {len(taken)} came")
        consumer.commit()
        found = ask_until(
            ottla,
            lambda found: (found["state"], found["lag"]) == ("Stable", 0),
            *("group", "describe", group),
        )
        assert found["type"] == protocol.capitalize()
        (member,) = found["members"]
        assert (member["client_id"], member["host"]) == ("reader-1", "127.0.0.1")
        assert member["partitions"] == [f"{topic}-0", f"{topic}-1"]
        assert {row["client_id"] for row in found["partitions"]} == {"reader-1"}
        assert "reader-1" in ottla("group", "describe", group, "--members").text
        reset = refused(ottla, "group", "reset", group, "-t", topic, "--to", "earliest", "--execute")
        assert "Stop them first" in reset
        assert "Stop its members first" in refused(ottla, "group", "delete", group, "--yes")


def test_settings_are_read_and_changed(ottla: Run, new_topic: NewTopicNamed) -> None:
    topic, user, group = new_topic(1), new_name("user"), new_name("group")
    ask_until(ottla, lambda found: found["topic"] == topic, "topic", "describe", topic)
    changed = ottla("config", "set", "topic", topic, "retention.ms=1000", "cleanup.policy+=compact")
    assert changed.text == f"Topic {topic} changed: retention.ms=1000, cleanup.policy+=compact.\n"
    rows = ask_until(ottla, lambda rows: len(rows) == 2, "config", "describe", "topic", topic)
    assert {row["name"]: row["value"] for row in rows} == {
        "retention.ms": "1000",
        "cleanup.policy": "delete,compact",
    }
    assert ottla("config", "get", "topic", topic, "retention.ms").text == "1000\n"
    assert ottla("config", "unset", "topic", topic, "retention.ms").code == 0
    ask_until(ottla, lambda row: row["is_default"], "config", "get", "topic", topic, "retention.ms")
    every = ask(ottla, "config", "describe", "topic", topic, "--all")
    assert {"segment.bytes", "cleanup.policy"} <= {row["name"] for row in every}
    assert "Did you mean retention.ms?" in refused(ottla, "config", "get", "topic", topic, "retention.m")
    assert f"Did you mean {topic}?" in refused(ottla, "config", "describe", "topic", f"{topic}x")

    assert ottla("config", "set", "broker", "default", "log.cleaner.threads=2").code == 0
    ask_until(ottla, lambda row: row["value"] == "2", "config", "get", "broker", "1", "log.cleaner.threads")
    assert ottla("config", "unset", "broker", "default", "log.cleaner.threads").code == 0
    assert "Unknown broker 9. The cluster has 1." in refused(ottla, "config", "describe", "broker", "9")

    assert ottla("config", "set", "user", user, "producer_byte_rate=1000").code == 0
    assert ottla("config", "set", "user", user, "--client", "app", "consumer_byte_rate=7").code == 0
    ask_until(
        ottla,
        lambda rows: [(row["name"], row["value"]) for row in rows] == [("producer_byte_rate", "1000")],
        *("config", "describe", "user", user),
    )
    ask_until(
        ottla,
        lambda rows: [row["value"] for row in rows] == ["7"],
        *("config", "describe", "user", user, "--client", "app"),
    )
    assert ottla("config", "unset", "user", user, "producer_byte_rate").code == 0
    assert ottla("config", "set", "group", group, "consumer.session.timeout.ms=50000").code == 0
    ask_until(
        ottla,
        lambda rows: [row["name"] for row in rows] == ["consumer.session.timeout.ms"],
        *("config", "describe", "group", group),
    )


def test_credentials_of_users_are_set_and_never_shown(ottla: Run) -> None:
    user = new_name("user")
    changed = ottla("config", "set", "user", user, "SCRAM-SHA-512=-", stdin=b"geheim\n")
    assert changed.text == f"User {user} changed: SCRAM-SHA-512=(hidden).\n"
    ask_until(
        ottla,
        lambda rows: [(row["name"], row["value"]) for row in rows] == [("SCRAM-SHA-512", "iterations=4096")],
        *("config", "describe", "user", user),
    )
    assert ottla("config", "unset", "user", user, "SCRAM-SHA-512").code == 0


def test_the_cluster_and_its_quorum_are_described(ottla: Run, broker: peers.BrokerProcess) -> None:
    found = ask(ottla, "cluster", "describe")
    assert found["cluster_id"] == broker.cluster_id
    assert (found["controller"], found["metadata_version"], found["offline"]) == (1, "4.3-IV0", 0)
    (node,) = found["nodes"]
    assert node["address"] == broker.bootstrap
    assert node["roles"] == ["broker", "controller", "leader"]
    assert (node["state"], node["version"], node["log_dirs"]) == ("running", "4.3-IV0", [str(broker.data)])
    assert "FEATURE" in ottla("cluster", "describe", "-o", "wide").text
    quorum = ask(ottla, "quorum", "status")
    assert (quorum["leader_id"], quorum["voters"], quorum["observers"]) == (1, [1], [])
    assert quorum["endpoints"]["1"] == [f"CONTROLLER://127.0.0.1:{broker.controller_port}"]
    (replica,) = ask(ottla, "quorum", "replicas")
    assert (replica["node"], replica["role"], replica["lag"]) == (1, "leader", 0)
    assert replica["log_end_offset"] >= quorum["high_watermark"] > 0


def test_open_transactions_are_shown_and_aborted(
    ottla: Run, broker: peers.BrokerProcess, new_topic: NewTopicNamed
) -> None:
    topic, name = new_topic(1), new_name("txn")
    producer = library.Producer(broker.bootstrap, transactional_id=name)
    try:
        producer.begin_transaction()
        producer.send(topic, b"x")
        producer.flush()
        found = ask_until(ottla, lambda found: found["partitions"] == [f"{topic}-0"], "txn", "describe", name)
        assert (found["state"], found["timeout_seconds"]) == ("Ongoing", 60.0)
        assert name in [row["transactional_id"] for row in ask(ottla, "txn", "list", "--state", "ongoing")]
        assert ask(ottla, "txn", "list", name, "--longer-than", "1h") == []
        assert ask(ottla, "txn", "hanging", "-t", topic, "--longer-than", "0s") == []
        assert f"Did you mean {name}?" in refused(ottla, "txn", "describe", f"{name}x")
        assert ottla("txn", "abort", name).code == 2
        assert ask(ottla, "txn", "abort", name, "--yes") == {"transactional_id": name, "aborted": True}
        ended = ("CompleteAbort", "Empty")
        ask_until(ottla, lambda found: found["state"] in ended, "txn", "describe", name)
        assert "There is nothing to abort" in refused(ottla, "txn", "abort", name, "--yes")
    finally:
        producer.close(timeout=0)


@pytest.fixture
def unverified(ottla: Run) -> Iterator[None]:
    """The broker accepts unverified transactional records, as old ones do, so transactions can hang."""
    setting = "transaction.partition.verification.enable"
    assert ottla("config", "set", "broker", "default", f"{setting}=false").code == 0
    ask_until(ottla, lambda row: row["value"] == "false", "config", "get", "broker", "1", setting)
    yield
    assert ottla("config", "unset", "broker", "default", setting).code == 0


@pytest.mark.usefixtures("unverified")
def test_hanging_transactions_are_found_and_ended(
    ottla: Run, broker: peers.BrokerProcess, new_topic: NewTopicNamed
) -> None:
    topic = new_topic(1)
    ask_until(ottla, lambda found: found["topic"] == topic, "topic", "describe", topic)
    producer = RawProducer(Talk(broker, 1, {}), new_name("gone"), is_new=False)
    producer.producer_id, producer.epoch = 4_712, 3
    offset = producer.write(topic, 0)
    (row,) = ask(ottla, "txn", "hanging", "--topic", topic, "--longer-than", "30m")
    assert (row["topic"], row["partition"], row["start_offset"]) == (topic, 0, offset)
    assert (row["producer_id"], row["producer_epoch"]) == (4_712, 3)
    place = ("--topic", topic, "--partition", "0", "--start-offset", str(offset))
    assert f"Abort one with: ottla txn abort {' '.join(place)}" in ottla("txn", "hanging", "-t", topic).text
    assert ottla("txn", "abort", *place, "--yes").text == "Transaction aborted.\n"
    ask_until(ottla, lambda rows: rows == [], "txn", "hanging", "--topic", topic)
    assert "No open transaction starts at offset" in refused(ottla, "txn", "abort", *place, "--yes")


def test_a_real_bash_completes_what_the_cluster_has(
    broker: peers.BrokerProcess,
    behind: tuple[str, str],
    command: list[str],
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    topic, group = behind
    script = tmp_path / "ottla"
    script.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    script.chmod(0o755)
    path = f"{tmp_path}:{environment['PATH']}"

    lines = {
        f"ottla topic describe {topic[:-2]}": [topic],
        f"ottla group describe {group[:-2]}": [group],
        "ottla config describe broker ": ["1", "default"],
        f"ottla -b {broker.bootstrap} group reset {group} --topic {topic[:-2]}": [topic],
    }
    program = 'eval "$(ottla completion bash)"; COMP_WORDS=(ottla); COMP_CWORD=1\n'
    for line in lines:
        program += f"COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; _ottla; echo \"${{COMPREPLY[@]}}\"\n"
    ran = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", program],
        env=environment | {"PATH": path, "OTTLA_COMPLETION_SECONDS": "30"},
        capture_output=True,
        text=True,
        timeout=5 * SECONDS_MAX,
        check=True,
    )
    assert ran.stderr == ""
    assert [line.split() for line in ran.stdout.splitlines()] == list(lines.values())


def test_a_profile_leads_to_its_cluster(
    ottla: Run, broker: peers.BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert ottla("profile", "set", "here", f"bootstrap.servers={broker.bootstrap}", "output=json").code == 0
    assert "No broker is reachable (127.0.0.1:1: connection refused)" in refused(ottla, "cluster", "describe")
    assert json.loads(ottla("-p", "here", "cluster", "describe").text)["cluster_id"] == broker.cluster_id
    assert json.loads(ottla("cluster", "describe", "-p", "here").text)["cluster_id"] == broker.cluster_id
