"""Our kafka-reassign-partitions beside Kafka's, on a Kafka and an Ottla node with two log directories each.

Moves between brokers are compared where the clusters are: tests/interop/cluster_tools.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.tools import reassign_partitions
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.tools_same.same import OURS, THEIRS, Tool, ours, theirs

REASSIGN = Tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", reassign_partitions.main)
SECONDS_MAX = 120.0
LARGE = b"x" * 900_000


@dataclass(frozen=True, slots=True)
class Disks:
    """A node with two log directories."""

    broker: peers.BrokerProcess
    first: Path
    second: Path


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def disks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disks]:
    directory = tmp_path_factory.mktemp(f"disks-{request.param}")
    first, second = directory / "data", directory / "data-2"
    settings = {"log.dirs": f"{first},{second}"}
    with peers.running(request.param, directory, properties=settings) as broker:
        bootstrap = {"bootstrap.servers": broker.bootstrap}
        admin = AdminClient(bootstrap)
        names = ["words", f"far-{THEIRS}", f"far-{OURS}"]
        topics = [NewTopic(name, 3 if name == "words" else 1, 1) for name in names]
        for done in admin.create_topics(topics).values():
            done.result(SECONDS_MAX)
        producer = Producer({**bootstrap, "queue.buffering.max.kbytes": 100_000})
        for name in names[1:]:
            for _ in range(4):
                producer.produce(name, value=LARGE, partition=0)
        assert producer.flush(SECONDS_MAX) == 0
        yield Disks(broker, first, second)


def plan(*wanted: tuple[str, int, list[int]], directories: list[str] | None = None) -> str:
    rows = []
    for topic, partition, replicas in wanted:
        row: dict[str, object] = {"topic": topic, "partition": partition, "replicas": replicas}
        rows.append(row if directories is None else {**row, "log_dirs": directories})
    return json.dumps({"version": 1, "partitions": rows})


FILES = {
    "STAY": plan(("words", 0, [1]), ("words", 2, [1])),
    "STAY_ONE": plan(("words", 1, [1])),
    "ANY": plan(("words", 1, [1]), directories=["any"]),
    "NOWHERE": plan(("words", 1, [1]), directories=["/no/such/place"]),
    "DISKS": plan(("words", 1, [1]), directories=["any", "/data"]),
    "NO_TOPIC": plan(("missing", 0, [1]), ("missing", 1, [1])),
    "NO_PARTITION": plan(("words", 8, [1]), ("words", 9, [1])),
    "NO_BROKER": plan(("words", 0, [9, 33]), ("words", 1, [17])),
    "MORE": plan(("words", 0, [1, 1])),
    "EMPTY": plan(),
    "NO_REPLICAS": plan(("words", 0, [])),
    "TWICE": plan(("words", 0, [1]), ("words", 0, [1]), ("words", 2, [1]), ("words", 2, [1])),
    "NO_FIELDS": '{"version": 1, "partitions": [{"topic": "words"}]}',
    "NO_TEXT": '{"version": 1, "partitions": [{"topic": 7, "partition": 0, "replicas": [1]}]}',
    "NO_NUMBER": '{"partitions": [{"topic": "words", "partition": "0", "replicas": [1]}]}',
    "NO_LIST": '{"partitions": [{"topic": "words", "partition": 0, "replicas": 1}]}',
    "NO_NUMBERS": '{"partitions": [{"topic": "words", "partition": 0, "replicas": [1.5]}]}',
    "NO_PARTITIONS": '{"partitions": {"topic": "words"}}',
    "NO_OBJECT": "[7]",
    "NO_OBJECTS": '{"partitions": [7]}',
    "OTHER_VERSION": '{"version": 2, "partitions": []}',
    "TEXT_VERSION": '{"version": "1", "partitions": []}',
    "NOTHING": "{}",
    "HALF": '{"version": 1, "partitions": [{"topic": "wor',
    "TOPICS": '{"version": 1, "topics": [{"topic": "words"}]}',
    "TOPICS_TWICE": '{"topics": [{"topic": "words"}, {"topic": "sums"}, {"topic": "words"}]}',
    "TOPICS_UNKNOWN": '{"topics": [{"topic": "missing"}]}',
    "TOPICS_HALF": '{"topics": [{"topic": "wor',
    "TOPICS_NONE": '{"topics": []}',
    "TOPICS_NO_FIELD": '{"topics": [{"name": "words"}]}',
    "TOPICS_VERSION": '{"version": 3}',
    "CLIENT": "client.id=mine\n",
}
WRONG = [
    "NO_TOPIC",
    "NO_PARTITION",
    "MORE",
    "EMPTY",
    "NO_REPLICAS",
    "TWICE",
    "NO_FIELDS",
    "NO_TEXT",
    "NO_NUMBER",
    "NO_LIST",
    "NO_NUMBERS",
    "NO_PARTITIONS",
    "NO_OBJECT",
    "NO_OBJECTS",
    "OTHER_VERSION",
    "TEXT_VERSION",
    "NOTHING",
    "DISKS",
]
SAME = [
    "--list",
    "--list --command-config CLIENT",
    "--generate --topics-to-move-json-file TOPICS --broker-list 1",
    "--generate --topics-to-move-json-file TOPICS --broker-list 1,9 --disable-rack-aware",
    "--generate --topics-to-move-json-file TOPICS --broker-list 9",
    "--generate --topics-to-move-json-file TOPICS --broker-list 1,1,4,4",
    "--generate --topics-to-move-json-file TOPICS --broker-list one",
    "--generate --topics-to-move-json-file TOPICS_TWICE --broker-list 1",
    "--generate --topics-to-move-json-file TOPICS_UNKNOWN --broker-list 1",
    "--generate --topics-to-move-json-file TOPICS_HALF --broker-list 1",
    "--generate --topics-to-move-json-file TOPICS_NONE --broker-list 1",
    "--generate --topics-to-move-json-file TOPICS_NO_FIELD --broker-list 1",
    "--generate --topics-to-move-json-file TOPICS_VERSION --broker-list 1",
    "--verify --reassignment-json-file STAY",
    "--verify --reassignment-json-file STAY_ONE --preserve-throttles",
    "--verify --reassignment-json-file ANY",
    "--verify --reassignment-json-file NOWHERE --preserve-throttles",
    "--execute --reassignment-json-file STAY",
    "--execute --reassignment-json-file STAY_ONE --additional --timeout 1",
    "--execute --reassignment-json-file STAY --throttle 100000 --replica-alter-log-dirs-throttle 200000",
    "--execute --reassignment-json-file STAY --throttle many",
    "--execute --reassignment-json-file STAY --disallow-replication-factor-change",
    "--execute --reassignment-json-file NOWHERE --timeout 1",
    "--execute --reassignment-json-file NO_BROKER",
    "--cancel --reassignment-json-file STAY",
    "--cancel --reassignment-json-file STAY_ONE --preserve-throttles",
    "--cancel --reassignment-json-file NOWHERE",
    *(f"--execute --reassignment-json-file {file}" for file in WRONG),
    *(f"--verify --reassignment-json-file {file}" for file in WRONG),
    *(f"--cancel --reassignment-json-file {file}" for file in WRONG),
]
FAILING = [
    # What is wrong with JSON, and with files, is told in our own words.
    "--execute --reassignment-json-file HALF",
    "--verify --reassignment-json-file HALF",
    "--cancel --reassignment-json-file HALF",
    "--verify --reassignment-json-file /nowhere",
    "--generate --topics-to-move-json-file /nowhere --broker-list 1",
    "--list --command-config /nowhere",
]
REFUSED = [
    "",
    "--zookeeper localhost:2181 --list",
    "--bootstrap-server BROKER",
    "--list",
    "--bootstrap-server BROKER --bootstrap-controller CONTROLLER --list",
    "--bootstrap-server BROKER --verify",
    "--bootstrap-server BROKER --execute",
    "--bootstrap-server BROKER --cancel",
    "--bootstrap-server BROKER --generate",
    "--bootstrap-server BROKER --generate --broker-list 1",
    "--bootstrap-server BROKER --generate --topics-to-move-json-file TOPICS",
    "--bootstrap-server BROKER --verify --execute --reassignment-json-file STAY",
    "--bootstrap-server BROKER --verify --additional --reassignment-json-file STAY",
    "--bootstrap-server BROKER --execute --preserve-throttles --reassignment-json-file STAY",
    "--bootstrap-server BROKER --cancel --throttle 7 --reassignment-json-file STAY",
    "--bootstrap-server BROKER --list --timeout 7",
    "--bootstrap-controller CONTROLLER --execute --reassignment-json-file STAY",
    "--bootstrap-controller CONTROLLER --verify --reassignment-json-file STAY",
    "--bootstrap-server BROKER --list --nothing",
    "--bootstrap-server BROKER --execute --reassignment-json-file",
]


def arguments(disks: Disks, directory: Path, line: str) -> list[str]:
    places = {"BROKER": disks.broker.bootstrap, "CONTROLLER": f"127.0.0.1:{disks.broker.controller_port}"}
    for name in {word for word in line.split() if word in FILES}:
        (directory / name).write_text(FILES[name])
        places[name] = str(directory / name)
    return [places.get(word, word) for word in line.split()]


def shown(ran: Ran) -> list[str]:
    """What was printed; of what failed, the line that says so: Kafka's tool prints a stack trace below it."""
    kept: list[str] = []
    for line in ran.out.replace(OURS, "%").replace(THEIRS, "%").splitlines():
        kept.append(line)
        if line.startswith("Error: "):
            break
    return kept


def difference(tools: Tools, words: list[str]) -> str:
    """Where the two differ; empty where they say the same and nothing on standard error."""
    their, our = theirs(tools, REASSIGN, words), ours(REASSIGN, words)
    if (our.exit, shown(our)) == (their.exit, shown(their)) and not our.err and not their.err:
        return ""
    return f"{' '.join(words)}\n  ours:   {our}\n  theirs: {their}"


def test_both_say_the_same(tools: Tools, disks: Disks, tmp_path: Path) -> None:
    lines = [f"--bootstrap-server BROKER {line}" for line in SAME]
    lines += [
        "--bootstrap-controller CONTROLLER --list",
        "--bootstrap-controller CONTROLLER --cancel --preserve-throttles --reassignment-json-file STAY",
    ]
    found = [difference(tools, arguments(disks, tmp_path, line)) for line in lines]
    assert not any(found), "\n".join(filter(None, found))


def test_both_fail_on_the_same_files(tools: Tools, disks: Disks, tmp_path: Path) -> None:
    for line in FAILING:
        words = arguments(disks, tmp_path, f"--bootstrap-server BROKER {line}")
        their, our = theirs(tools, REASSIGN, words), ours(REASSIGN, words)
        assert (our.exit, our.err) == (their.exit, their.err) == (1, ""), line
        assert their.out.startswith("Error: "), line
        assert our.out.startswith("Error: "), line
        assert len(our.out.splitlines()) == 1, our.out


def test_both_refuse_the_same_command_lines(tools: Tools, disks: Disks, tmp_path: Path) -> None:
    for line in REFUSED:
        words = arguments(disks, tmp_path, line)
        their, our = theirs(tools, REASSIGN, words), ours(REASSIGN, words)
        assert (our.exit, our.out) == (their.exit, their.out) == (1, ""), line
        assert our.err, line
        assert their.err, line
        assert "Traceback" not in our.err
        if "joptsimple" not in their.err:  # a sentence, not a stack trace
            assert our.err.splitlines()[0] == their.err.splitlines()[0], line


def other_directory(disks: Disks, topic: str) -> str:
    """The log directory that the only partition of a topic is not in."""
    return str(disks.second if (disks.first / f"{topic}-0").exists() else disks.first)


def test_both_move_replicas_between_log_directories(tools: Tools, disks: Disks, tmp_path: Path) -> None:
    files = {}
    for side in (THEIRS, OURS):
        topic = f"far-{side}"
        files[side] = tmp_path / f"move-{side}.json"
        files[side].write_text(plan((topic, 0, [1]), directories=[other_directory(disks, topic)]))
    places = {str(disks.first): "DISK", str(disks.second): "DISK"}
    found = []
    said: list[str] = []

    def both(line: str) -> None:
        said.clear()
        for side, run in ((THEIRS, lambda words: theirs(tools, REASSIGN, words)), (OURS, ours_of)):
            words = f"--bootstrap-server {disks.broker.bootstrap} {line}".replace("FILE", str(files[side]))
            ran = run(words.split())
            text = "\n".join([str(ran.exit), *shown(ran)])
            for path, name in sorted(places.items(), reverse=True):
                text = text.replace(path, name)
            said.append(text)
        if said[0] != said[1]:
            found.append(f"{line}\n  ours:   {said[1]}\n  theirs: {said[0]}")

    def ours_of(words: list[str]) -> Ran:
        return ours(REASSIGN, words)

    # So slow that they are under way until they are cancelled.
    both("--execute --replica-alter-log-dirs-throttle 1000 --reassignment-json-file FILE")
    both("--verify --reassignment-json-file FILE")
    assert "still in progress" in said[-1]
    both("--execute --additional --replica-alter-log-dirs-throttle 1100 --reassignment-json-file FILE")
    both("--cancel --preserve-throttles --reassignment-json-file FILE")
    both("--verify --preserve-throttles --reassignment-json-file FILE")
    both("--cancel --reassignment-json-file FILE")
    # And now as fast as can be.
    both("--execute --reassignment-json-file FILE")
    for side in (THEIRS, OURS):
        words = ["--bootstrap-server", disks.broker.bootstrap, "--verify", "--preserve-throttles"]

        def is_done(words: list[str] = words, side: str = side) -> bool:
            return (
                "completed successfully" in ours_of([*words, f"--reassignment-json-file={files[side]}"]).out
            )

        peers.wait_until(is_done, SECONDS_MAX, f"the replica of far-{side} to be moved", pause_s=0.1)
    both("--verify --reassignment-json-file FILE")
    assert not found, "\n".join(found)
