"""Kafka's tools for a cluster print the same about three Ottla nodes as about three Kafka nodes.

Every command runs on both. What is masked: addresses, paths, ids that are drawn, numbers of epochs and
offsets, who of the three leads the quorum. With OTTLA_TEST_BROKERS=kafka two Kafka clusters are compared,
which proves the test itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ottla.cli import main as ottla
from ottla.server.handlers import HANDLERS
from ottla.tools import reassign_partitions
from ottla.wire.apis import API_BY_NAME
from tests.interop import peers
from tests.interop.cluster_tools.trios import JOINING, MARKED, SECONDS_MAX, Trio, directory_id
from tests.interop.groups_tool.runner import Tools
from tests.interop.tools_same.same import OURS, THEIRS, Tool, ours, theirs

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOOL = Tool(REASSIGN, reassign_partitions.main)
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"
API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"

CHANGING = re.compile(
    r"--alter|--create|--delete |--execute|--verify|--cancel|\b(up|down)grade|\bdisable|-controller --"
)

# Ottla does not advertise the features of groups that it does not serve: see docs/differences.md.
UNSERVED_FEATURE = re.compile(r"Feature: (share|streams)\.version\s")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Trio]]:
    kinds = ("kafka", os.environ.get("OTTLA_TEST_BROKERS", "ottla"))
    with Tools() as tools:
        trios = [
            Trio(kind, tmp_path_factory.mktemp(f"side-{number}"), tools) for number, kind in enumerate(kinds)
        ]
        try:
            for trio in trios:
                trio.start()
                trio.create(MARKED, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
                trio.create("beta", [[1], [2]], retention_ms="1234567")
            yield trios
        finally:
            for trio in trios:
                trio.close()


def difference(sides: list[Trio], main_class: str, command: str, through: str = "server") -> str:
    """Where the two differ; empty where they print the same."""
    theirs, ours = (trio.shown(trio.run(main_class, command, through=through)) for trio in sides)
    if CHANGING.search(command):
        for trio in sides:
            trio.settle()
    theirs = [line for line in theirs if not UNSERVED_FEATURE.match(line)]
    if theirs == ours:
        return ""
    return f"{main_class} at a {through}: {command}\n" + "\n".join(
        [f"  K {line}" for line in theirs if line not in ours]
        + [f"  O {line}" for line in ours if line not in theirs]
    )


def assert_same(sides: list[Trio], main_class: str, command: str, *, through: str = "server") -> None:
    assert_all_same(sides, main_class, [command], through=through)


def assert_all_same(
    sides: list[Trio], main_class: str, commands: Iterable[str], *, through: str = "server"
) -> None:
    """All commands, one after the other, print the same on both sides."""
    differences = [difference(sides, main_class, command, through) for command in commands]
    assert not any(differences), "\n".join(filter(None, differences))


# kafka-cluster


@pytest.mark.parametrize("through", ["server", "controller"])
@pytest.mark.parametrize(
    "command",
    ["cluster-id", "list-endpoints", "list-endpoints --include-fenced-brokers", "unregister --id 77"],
)
def test_the_cluster_is_shown_the_same(sides: list[Trio], through: str, command: str) -> None:
    verb, *rest = command.split(" ")
    for trio in sides:
        assert trio.servers
    shown = []
    for trio in sides:
        servers = trio.servers if through == "server" else trio.controllers
        words = " ".join([verb, f"--bootstrap-{through}", servers, *rest])
        shown.append(trio.shown(trio.run(CLUSTER, words, through="nothing")))
    assert shown[0] == shown[1]


# kafka-features


FEATURE_COMMANDS = (
    "describe",
    "describe --node-id 2",
    "version-mapping",
    "version-mapping --release-version 4.0-IV3",
    "version-mapping --release-version 99.0",
    "feature-dependencies --feature transaction.version=2",
    "feature-dependencies --feature group.version=1 --feature metadata.version=25",
    "feature-dependencies --feature nonsense=1",
    "upgrade",
    "upgrade --feature transaction.version=2 --dry-run",
    "upgrade --feature transaction.version=2",
    "upgrade --feature transaction.version=99",
    "upgrade --feature nonsense=2",
    "upgrade --feature metadata.version=99",
    "upgrade --release-version 4.3-IV0 --dry-run",
    "upgrade --release-version 3.9-IV0 --dry-run",
    "downgrade --feature transaction.version=1 --dry-run",
    "downgrade --feature transaction.version=1",
    "describe",
    "upgrade --feature transaction.version=2",
    "downgrade --feature metadata.version=26 --dry-run",
    "downgrade --feature metadata.version=26 --unsafe --dry-run",
    "downgrade --feature metadata.version=1 --unsafe",
    "downgrade --release-version 4.0-IV3 --dry-run",
    "downgrade --feature kraft.version=0",
    "upgrade --feature kraft.version=1",
    "disable --feature share.version --dry-run",
    "disable --feature streams.version --dry-run",
    "disable --feature group.version",
    "describe",
    "upgrade --feature group.version=1",
    "upgrade --feature eligible.leader.replicas.version=1",
    "disable --feature metadata.version --unsafe",
    "describe",
)


@pytest.mark.parametrize("through", ["server", "controller"])
def test_features_are_shown_and_changed_the_same(sides: list[Trio], through: str) -> None:
    assert_all_same(sides, FEATURES, FEATURE_COMMANDS, through=through)


# kafka-metadata-quorum


def rows(trio: Trio, command: str, through: str) -> dict[str, object]:
    """`describe --replication` as far as it must be the same: who is there, and as what."""
    ran = trio.run(QUORUM, command, through=through)
    assert ran.exit == 0, ran.err
    head, *lines = [line.split("\t") for line in ran.out.splitlines() if line.strip()]
    cells = [[cell.strip() for cell in line] for line in lines]
    return {
        "head": [cell.strip() for cell in head],
        "nodes": sorted((row[0], row[1]) for row in cells),
        "states": sorted(row[-1] for row in cells),
        "kinds": {"ago" if "ms ago" in cell else "number" for row in cells for cell in row[4:6]},
    }


@pytest.mark.parametrize("through", ["server", "controller"])
@pytest.mark.parametrize("command", ["describe --replication", "describe --replication --human-readable"])
def test_the_replicas_of_the_quorum_are_shown_the_same(sides: list[Trio], through: str, command: str) -> None:
    theirs, ours = (rows(trio, command, through) for trio in sides)
    assert ours == theirs


QUORUM_COMMANDS = [
    "describe --status",
    "describe",
    "describe --status --replication",
    "describe --status --human-readable",
    "add-controller",
    "remove-controller --controller-id 9 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
    "remove-controller --controller-id 1 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ",
    f"remove-controller --controller-id 3 --controller-directory-id {directory_id(3)} --dry-run",
    "--command-config {properties1} add-controller --dry-run",
    "--command-config {properties1} add-controller",
]


@pytest.mark.parametrize("through", ["server", "controller"])
def test_the_quorum_is_shown_the_same(sides: list[Trio], through: str) -> None:
    assert_all_same(sides, QUORUM, QUORUM_COMMANDS, through=through)


# kafka-leader-election and kafka-reassign-partitions


def plan(sides: list[Trio], name: str, content: object) -> str:
    for trio in sides:
        (trio.directory / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return f"{{side}}/{name}"


def moves(*wanted: tuple[str, int, list[int]], log_dirs: list[str] | None = None) -> dict[str, object]:
    partitions = []
    for topic, index, replicas in wanted:
        row: dict[str, object] = {"topic": topic, "partition": index, "replicas": replicas}
        if log_dirs is not None:
            row["log_dirs"] = log_dirs
        partitions.append(row)
    return {"version": 1, "partitions": partitions}


def settle(sides: list[Trio], file: str) -> None:
    """Verify until nothing is under way, on both."""
    for trio in sides:

        def is_done(trio: Trio = trio) -> bool:
            out = trio.run(REASSIGN, f"--verify --preserve-throttles --reassignment-json-file {file}").out
            return "in progress" not in out

        peers.wait_until(is_done, SECONDS_MAX, f"the moves of {trio.kind}", pause_s=0.1)


def test_reassignments_are_planned_done_and_verified_the_same(sides: list[Trio]) -> None:
    beta = plan(sides, "topics.json", {"version": 1, "topics": [{"topic": "beta"}]})
    unknown = plan(sides, "unknown.json", {"version": 1, "topics": [{"topic": "missing"}]})
    to_three = plan(sides, "to-three.json", moves(("beta", 0, [3]), ("beta", 1, [3])))
    wrong = [  # None of them moves anything: the two sides would be done at different times.
        plan(sides, "no-topic.json", moves(("missing", 0, [1]))),
        plan(sides, "no-partition.json", moves(("beta", 9, [1]))),
        plan(sides, "none.json", moves(("beta", 0, []))),
        plan(sides, "twice.json", moves(("beta", 0, [1, 1]))),
        plan(sides, "double.json", moves(("beta", 0, [1]), ("beta", 0, [2]))),
        plan(sides, "empty.json", moves()),
        plan(sides, "broken.json", "{nonsense"),
        plan(sides, "no-disk.json", moves(("beta", 0, [3]), log_dirs=["/no/such/place"])),
        plan(sides, "disks.json", moves(("beta", 0, [3]), log_dirs=["any", "any"])),
    ]
    commands = [
        "",
        "--list",
        f"--generate --topics-to-move-json-file {beta} --broker-list 1",
        f"--generate --topics-to-move-json-file {beta} --broker-list 1 --disable-rack-aware",
        f"--generate --topics-to-move-json-file {beta} --broker-list 1,9",
        f"--generate --topics-to-move-json-file {beta} --broker-list 1,1",
        f"--generate --topics-to-move-json-file {unknown} --broker-list 1",
        f"--generate --topics-to-move-json-file {beta}",
        f"--verify --reassignment-json-file {to_three}",
        f"--cancel --reassignment-json-file {to_three}",
        f"--execute --reassignment-json-file {to_three} --throttle 1000000",
    ]
    assert_all_same(sides, REASSIGN, commands)
    settle(sides, to_three)
    throttled = "--entity-type brokers --entity-name 1 --describe"
    pairs = (
        (CONFIGS, throttled),
        (CONFIGS, "--entity-type topics --entity-name beta --describe"),
        (REASSIGN, f"--verify --reassignment-json-file {to_three} --preserve-throttles"),
        (REASSIGN, f"--verify --reassignment-json-file {to_three}"),
        (CONFIGS, throttled),
        (CONFIGS, "--entity-type topics --entity-name beta --describe"),
        (REASSIGN, f"--execute --reassignment-json-file {to_three}"),
        (REASSIGN, "--list"),
    )
    differences = [difference(sides, main_class, command) for main_class, command in pairs]
    # Not verified: the tool would wait for a minute to change the settings of a broker that is not there.
    nowhere = plan(sides, "no-broker.json", moves(("beta", 0, [9])))
    differences.append(difference(sides, REASSIGN, f"--execute --reassignment-json-file {nowhere}"))
    for file in wrong:
        for action in ("--execute --timeout 100", "--verify", "--cancel"):
            differences.append(difference(sides, REASSIGN, f"{action} --reassignment-json-file {file}"))
    assert not any(differences), "\n".join(filter(None, differences))


def beside(trio: Trio, command: str) -> str:
    """Kafka's reassignment tool and ours on one side, each with a topic of its own; where they differ."""
    said = []
    for own in (THEIRS, OURS):
        words = ["--bootstrap-server", trio.servers, *command.format(side=trio.directory, own=own).split(" ")]
        ran = theirs(trio.tools, TOOL, words) if own == THEIRS else ours(TOOL, words)
        said.append([line.replace(own, "%") for line in trio.shown(ran)])
    trio.settle()
    if said[0] == said[1]:
        return ""
    return f"{trio.kind}: {command}\n  theirs: {said[0]}\n  ours:   {said[1]}"


def test_our_reassignment_tool_says_what_kafkas_says(sides: list[Trio]) -> None:
    for own in (THEIRS, OURS):
        plan(sides, f"more-{own}.json", moves((f"large-{own}", 0, [1, 2])))
        plan(sides, f"away-{own}.json", moves((f"large-{own}", 0, [3])))
    throttles = "--entity-type topics --entity-name large-{own} --describe"
    differences = []
    for trio in sides:
        for own in (THEIRS, OURS):
            trio.create(f"large-{own}", [[1]])
            trio.fill(f"large-{own}", 4, 900_000)
        # The throttle keeps both under way until they are cancelled.
        for command in (
            "--execute --additional --throttle 1000 --reassignment-json-file {side}/more-{own}.json",
            "--verify --reassignment-json-file {side}/more-{own}.json",
            "--execute --reassignment-json-file {side}/more-{own}.json",
            "--execute --additional --throttle 1100 --reassignment-json-file {side}/more-{own}.json",
        ):
            differences.append(beside(trio, command))
        both = [
            trio.run(REASSIGN, "--list").out,
            ours(TOOL, ["--bootstrap-server", trio.servers, "--list"]).out,
        ]
        assert both[0] == both[1]
        assert both[0].count(": replicas: 1,2. adding: 2.") == 2
        set_by = [
            trio.run(CONFIGS, throttles.format(own=own)).out.replace(own, "%") for own in (THEIRS, OURS)
        ]
        assert "throttled.replicas=0:1" in set_by[0]
        assert set_by[0] == set_by[1]
        for command in (
            "--cancel --preserve-throttles --reassignment-json-file {side}/more-{own}.json",
            "--cancel --reassignment-json-file {side}/more-{own}.json",
            "--execute --additional --reassignment-json-file {side}/away-{own}.json",
        ):
            differences.append(beside(trio, command))
        for own in (THEIRS, OURS):
            trio.wait_for(f"large-{own}", 0, leader=3, replicas=[3])
        differences.append(beside(trio, "--verify --reassignment-json-file {side}/away-{own}.json"))
        differences.append(beside(trio, "--list"))
    assert not any(differences), "\n".join(filter(None, differences))


def test_ottla_reassign_moves_replicas_of_both(
    sides: list[Trio], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def said(trio: Trio, command: str) -> str:
        capsys.readouterr()
        code = ottla(["-b", trio.servers, "reassign", *command.split()])
        printed = capsys.readouterr()
        assert code == 0, printed
        return printed.out

    for trio in sides:
        trio.create("moved", [[1], [1], [1]])
        trio.fill("moved", 2, 100_000)
        told = said(trio, "start moved --to 1,2,3 --throttle 50MB --yes --wait")
        assert "2 partitions started moving." in told
        assert "Reassignment complete. Throttle removed." in told
        for index, broker in enumerate((1, 2, 3)):  # the one with records stays
            trio.wait_for("moved", index, leader=broker, replicas=[broker])
        assert "No replicas need to move." in said(trio, "plan moved")
        assert json.loads(said(trio, "plan moved -r 2 -o json"))["replicas_added"] == 3
        assert "No reassignment is in progress." in said(trio, "cancel --yes")
        assert not json.loads(said(trio, "status -o json"))["partitions"]


# kafka-replica-verification


def verified(trio: Trio, command: list[str], out: Path) -> list[str]:
    """What the tool prints of three replicas until all is compared; it would go on for ever."""
    words = "--topics-include alpha --time -2 --report-interval-ms 50 --max-wait-ms 50 --broker-list"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with out.open("wb") as file:
        process = peers.start_process(
            [*command, *words.split(), trio.servers], stdout=file, stderr=subprocess.DEVNULL, env=environment
        )
    try:

        def lines() -> list[str]:
            stamped = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: (.*)$")
            whole = out.read_text().rpartition("\n")[0]  # the last line may still be on its way
            return [found[1] for line in whole.splitlines() if (found := stamped.match(line))]

        def is_done() -> bool:
            assert process.poll() is None, out.read_text()
            return "max lag is 0" in lines()[-1] if lines() else False

        peers.wait_until(is_done, SECONDS_MAX, lambda: f"all to be compared: {out.read_text()}", pause_s=0.1)
        return [lines()[0], lines()[-1]]
    finally:
        peers.end_process(process)


def test_replicas_are_compared_the_same(sides: list[Trio], tmp_path: Path) -> None:
    tool = [sys.executable, "-m", "ottla.tools.replica_verification"]
    for trio in sides:
        trio.fill("alpha", 3, 1000)
        theirs = verified(trio, peers.java_command(VERIFICATION, log_level="error"), tmp_path / "theirs")
        ours = verified(trio, tool, tmp_path / "ours")
        assert ours == theirs
        assert ours[0] == "verification process is started"
        assert ours[1].endswith(" among 3 partitions")


def test_preferred_leaders_are_elected_the_same(sides: list[Trio]) -> None:
    turned = plan(sides, "turned.json", moves(("alpha", 0, [2, 1, 3]), ("alpha", 1, [3, 2, 1])))
    assert_same(sides, REASSIGN, f"--execute --reassignment-json-file {turned}")
    settle(sides, turned)
    for trio in sides:
        trio.wait_for("alpha", 0, leader=1, replicas=[2, 1, 3])
        trio.wait_for("alpha", 1, leader=2, replicas=[3, 2, 1])
    chosen = plan(sides, "chosen.json", {"partitions": [{"topic": "alpha", "partition": 1}]})
    unknown = plan(sides, "who.json", {"partitions": [{"topic": "missing", "partition": 1}]})
    commands = (
        "",
        "--election-type preferred",
        "--election-type nonsense --all-topic-partitions",
        "--election-type preferred --topic alpha",
        "--election-type preferred --topic alpha --partition 0",
        "--election-type preferred --topic alpha --partition 0",
        "--election-type preferred --topic missing --partition 0",
        "--election-type unclean --topic alpha --partition 0",
        f"--election-type preferred --path-to-json-file {chosen}",
        f"--election-type preferred --path-to-json-file {unknown}",
        "--election-type preferred --all-topic-partitions",
        "--election-type unclean --all-topic-partitions",
    )
    assert_all_same(sides, ELECT, commands)
    for trio in sides:
        trio.wait_for("alpha", 0, leader=2, replicas=[2, 1, 3])
        trio.wait_for("alpha", 1, leader=3, replicas=[3, 2, 1])


# kafka-configs


@pytest.mark.parametrize("through", ["server", "controller"])
def test_settings_are_shown_and_changed_the_same(sides: list[Trio], through: str) -> None:
    commands = (
        "--describe --entity-type topics",
        "--describe --entity-type topics --entity-name beta",
        "--describe --entity-type topics --entity-name beta --all",
        "--describe --entity-type topics --entity-name missing",
        "--describe --entity-type brokers",
        "--describe --entity-type brokers --entity-default",
        "--describe --entity-type brokers --entity-name 2",
        "--describe --entity-type groups --entity-name g --all",
        "--describe --topic alpha",
        "--describe --broker 2",
        "--describe --broker-defaults",
        "--describe --client-defaults",
        "--describe --ip 127.0.0.1",
        "--describe",
        "",
        "--alter --broker 2 --add-config-file {side}/no-such-file",
        "--alter --entity-type topics --entity-name beta --add-config cleanup.policy=compact,segment.ms=7000",
        "--alter --entity-type topics --entity-name beta --add-config nonsense=1",
        "--alter --entity-type topics --entity-name beta --add-config segment.ms=-7",
        "--alter --entity-type topics --entity-name beta --add-config cleanup.policy=[compact,delete]",
        "--describe --entity-type topics --entity-name beta",
        "--alter --entity-type topics --entity-name beta --delete-config segment.ms",
        "--alter --entity-type topics --entity-name beta --delete-config segment.ms,nonsense",
        "--alter --entity-type topics --entity-name missing --add-config segment.ms=7000",
        "--alter --entity-type brokers --entity-name 2 --add-config log.cleaner.threads=2",
        "--alter --entity-type brokers --entity-default --add-config log.cleaner.threads=2",
        "--alter --entity-type brokers --entity-name 2 --add-config broker.id=9",
        "--alter --entity-type brokers --entity-default --add-config leader.replication.throttled.rate=-1",
        "--describe --entity-type brokers --entity-name 2",
        "--describe --entity-type brokers --entity-default",
        "--alter --entity-type brokers --entity-name 2 --delete-config log.cleaner.threads",
        "--alter --entity-type brokers --entity-default --delete-config log.cleaner.threads",
        "--alter --entity-type brokers --entity-default --delete-config log.cleaner.threads",
        "--alter --entity-type users --entity-name ann --add-config producer_byte_rate=1024",
        "--alter --entity-type clients --entity-default --add-config request_percentage=50",
        "--alter --entity-type ips --entity-name 127.0.0.1 --add-config connection_creation_rate=1000",
        "--alter --entity-type users --entity-name ann --add-config nonsense=1024",
        "--describe --entity-type users --entity-name ann --entity-type clients --entity-name app",
        "--describe --entity-type clients",
        "--describe --entity-type ips",
        "--alter --entity-type users --entity-name ann --delete-config producer_byte_rate",
        "--alter --entity-type clients --entity-default --delete-config request_percentage",
        "--alter --entity-type ips --entity-name 127.0.0.1 --delete-config connection_creation_rate",
        "--alter --entity-type groups --entity-name g --add-config consumer.session.timeout.ms=50000",
        "--describe --entity-type groups --entity-name g",
        "--describe --entity-type groups",
        "--alter --entity-type groups --entity-name g --delete-config consumer.session.timeout.ms",
        "--alter --entity-type client-metrics --entity-name m --add-config metrics=a.b,interval.ms=1000",
        "--describe --entity-type client-metrics",
        "--alter --entity-type client-metrics --entity-name m --delete-config metrics,interval.ms",
    )
    assert_all_same(sides, CONFIGS, commands, through=through)


@pytest.mark.parametrize("through", ["server", "controller"])
def test_a_broker_shows_all_its_settings_as_kafkas_does(sides: list[Trio], through: str) -> None:
    """All but three limits, which are finite here."""
    finite = ("max.connections=", "max.connections.per.ip=", "queued.max.request.bytes=")
    theirs, ours = (
        [
            line
            for line in trio.shown(
                trio.run(CONFIGS, "--describe --entity-type brokers --entity-name 2 --all", through=through)
            )
            if not line.startswith(finite)
        ]
        for trio in sides
    )
    assert ours == theirs


# kafka-topics


def test_topics_with_replicas_are_made_and_shown_the_same(sides: list[Trio]) -> None:
    commands = (
        "--describe --topic alpha",
        "--describe --under-replicated-partitions",
        "--describe --at-min-isr-partitions",
        "--create --topic gamma --partitions 2 --replication-factor 4",
        "--create --topic gamma --partitions 2 --replication-factor 3 --config min.insync.replicas=2",
        "--create --topic gamma --partitions 2 --replication-factor 3",
        "--alter --topic gamma --partitions 1",
        "--alter --topic gamma --partitions 3 --replica-assignment 1:2:3,2:3:1,3:1:2",
        "--alter --topic gamma --partitions 3 --replica-assignment 1:2:3,2:3:1,3:1",
        "--list",
        "--delete --topic gamma",
        "--delete --topic gamma",
        "--list",
    )
    assert_all_same(sides, TOPICS, commands)


# kafka-log-dirs


def directories(trio: Trio, command: str) -> object:
    """The JSON that the tool prints, with paths masked and in order."""
    ran = trio.run(LOG_DIRS, command)
    lines = trio.shown(ran)
    documents = [line for line in lines if line.startswith("{")]
    said = [line for line in lines if not line.startswith("{")]
    known = []
    for document in documents:
        parsed = json.loads(document)
        for broker in parsed["brokers"]:
            for directory in broker["logDirs"]:
                for name in ("totalBytes", "usableBytes"):
                    directory.pop(name, None)
                directory["partitions"].sort(key=lambda row: str(row["partition"]))
        parsed["brokers"].sort(key=lambda row: int(row["broker"]))
        known.append(parsed)
    return said, known


def test_log_directories_are_shown_the_same(sides: list[Trio]) -> None:
    for command in (
        "",
        "--describe",
        "--describe --broker-list 1,2",
        "--describe --topic-list alpha",
        "--describe --broker-list 3 --topic-list alpha,missing",
        "--describe --broker-list 9",
        "--describe --broker-list x",
    ):
        seen: list[object] = []

        def are_same(command: str = command, seen: list[object] = seen) -> bool:
            seen[:] = [directories(trio, command) for trio in sides]
            return seen[0] == seen[1]

        # A broker takes its time to let go of a replica that has moved away.
        with contextlib.suppress(AssertionError):
            peers.wait_until(are_same, SECONDS_MAX, command, pause_s=0.5)
        assert seen[0] == seen[1], command


# kafka-broker-api-versions


def test_nodes_answer_the_versions_that_kafka_answers(sides: list[Trio]) -> None:
    """All but the APIs that have no handler yet."""
    theirs, ours = (trio.shown(trio.run(API_VERSIONS, "")) for trio in sides)

    def served(lines: list[str]) -> dict[str, str]:
        rows = [line.partition("(") for line in lines if "): " in line and "UNSUPPORTED" not in line]
        return {name: versions for name, _, versions in rows}

    shown_by_kafka, shown_by_us = served(theirs), served(ours)
    handled = {api.key for api in HANDLERS}
    missing = {name for name in shown_by_kafka if API_BY_NAME[name].key not in handled}
    if sides[1].kind == "ottla":
        shown_by_kafka = {name: text for name, text in shown_by_kafka.items() if name not in missing}
    assert shown_by_us == shown_by_kafka
    assert shown_by_us["Produce"] == "0): 0 to 13 [usable: 13],"


# Last, because nodes go


def test_a_controller_joins_and_leaves_by_the_tool(sides: list[Trio]) -> None:
    joining = f"remove-controller --controller-id {JOINING} --controller-directory-id "
    for trio in sides:
        trio.nodes[JOINING].start()

        def has_caught_up(trio: Trio = trio) -> bool:
            ran = trio.run(QUORUM, "describe --replication", through="controller")
            # Who has never caught up with the leader has -1 for when.
            return re.search(rf"^{JOINING}\s+\S+\s+\d+\s+\d+\s+\d+\s+\d+\s", ran.out, re.M) is not None

        peers.wait_until(has_caught_up, SECONDS_MAX, "the fourth controller to follow", pause_s=0.2)
        properties = (trio.nodes[JOINING].data / "meta.properties").read_text()
        (own,) = [line.split("=")[1] for line in properties.splitlines() if line.startswith("directory.id=")]
        trio.masks[own.strip()] = "(the fourth)"
    with_config = f"--command-config {{properties{JOINING}}} add-controller"
    assert_same(sides, QUORUM, f"{with_config} --dry-run", through="controller")
    assert_same(sides, QUORUM, with_config, through="controller")
    assert_same(sides, QUORUM, with_config, through="controller")
    assert_same(sides, QUORUM, "describe --status", through="controller")
    theirs, ours = (rows(trio, "describe --replication", "server") for trio in sides)
    assert len(theirs["nodes"]) == len(ours["nodes"]) == 4  # type: ignore[arg-type]
    shown = []
    for trio in sides:
        (own,) = [text for text, mask in trio.masks.items() if mask == "(the fourth)"]
        shown.append(trio.shown(trio.run(QUORUM, joining + own, through="controller")))
        trio.nodes[JOINING].kill()
    assert shown[0] == shown[1]
    voters = []
    for trio in sides:
        trio.settle()
        lines = trio.shown(trio.run(QUORUM, "describe --status"))
        voters.append([line for line in lines if line.startswith("CurrentVoters")])
    assert voters[0] == voters[1]


def test_a_broker_that_has_left_is_unregistered_by_the_tool(sides: list[Trio]) -> None:
    for trio in sides:
        trio.nodes[3].stop()

    def same(command: str) -> None:
        shown = []
        for trio in sides:
            trio.settle()
            verb, *rest = command.split(" ")
            words = " ".join([verb, "--bootstrap-server", trio.servers, *rest])
            shown.append(trio.shown(trio.run(CLUSTER, words, through="nothing")))
        assert shown[0] == shown[1]

    for command in (
        "list-endpoints --include-fenced-brokers",
        "unregister --id 3",
        "list-endpoints --include-fenced-brokers",
        "unregister --id 3",
    ):
        same(command)
