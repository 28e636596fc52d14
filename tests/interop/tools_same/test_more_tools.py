"""Our features, log-dirs, delete-records, leader-election and broker-api-versions beside Kafka's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.tools import broker_api_versions, delete_records, features, leader_election, log_dirs
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.tools_same.conftest import Main, ours

PACKAGE = "org.apache.kafka.tools"
TOOLS: dict[str, tuple[str, Main]] = {
    "features": (f"{PACKAGE}.FeatureCommand", features.main),
    "log-dirs": (f"{PACKAGE}.LogDirsCommand", log_dirs.main),
    "delete-records": (f"{PACKAGE}.DeleteRecordsCommand", delete_records.main),
    "leader-election": (f"{PACKAGE}.LeaderElectionCommand", leader_election.main),
    "api-versions": (f"{PACKAGE}.BrokerApiVersionsCommand", broker_api_versions.main),
}
FILES = {
    "CLIENT": "client.id=mine\n",
    "DELETE": '{"partitions": [{"topic": "words", "partition": 0, "offset": 4},'
    ' {"topic": "words", "partition": 1, "offset": -1}], "version": 1}',
    "DELETE_TOO_MUCH": '{"partitions": [{"topic": "words", "partition": 2, "offset": 4000}]}',
    "ELECT": '{"partitions": [{"topic": "words", "partition": 0}, {"topic": "words", "partition": 2}]}',
    "ELECT_UNKNOWN": '{"partitions": [{"topic": "nothing", "partition": 0}]}',
    "TWICE": '{"partitions": [{"topic": "words", "partition": 0, "offset": 1},'
    ' {"topic": "words", "partition": 0, "offset": 2}]}',
    "HALF": '{"partitions": [{"topic": "wor',
    "OTHER_VERSION": '{"partitions": [], "version": 2}',
    "NO_PARTITIONS": "{}",
    "NO_OFFSET": '{"partitions": [{"topic": "words", "partition": 0}], "version": 1}',
    "NO_OBJECT": "7",
}
SAME = [
    ("features", "--bootstrap-server BROKER describe"),
    ("features", "--bootstrap-controller CONTROLLER describe"),
    ("features", "--bootstrap-server BROKER --command-config CLIENT describe --node-id 1"),
    ("features", "--bootstrap-server BROKER upgrade --feature group.version=1 --dry-run"),
    ("features", "--bootstrap-server BROKER upgrade --release-version 4.3-IV0 --dry-run"),
    ("features", "--bootstrap-server BROKER upgrade --metadata 4.3-IV0 --dry-run"),
    ("features", "--bootstrap-server BROKER downgrade --feature group.version=0 --dry-run"),
    ("features", "--bootstrap-server BROKER disable --feature group.version --dry-run"),
    ("features", "version-mapping"),
    ("features", "version-mapping --release-version 3.9-IV0"),
    ("features", "feature-dependencies --feature transaction.version=2 --feature metadata.version=20"),
    ("log-dirs", "--bootstrap-server BROKER --describe"),
    ("log-dirs", "--bootstrap-server BROKER --describe --topic-list words --broker-list 1"),
    ("log-dirs", "--bootstrap-server BROKER --describe --topic-list nothing --command-config CLIENT"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file DELETE"),
    ("leader-election", "--bootstrap-server BROKER --election-type preferred --all-topic-partitions"),
    ("leader-election", "--bootstrap-server BROKER --election-type PREFERRED --topic words --partition 1"),
    ("leader-election", "--bootstrap-server BROKER --election-type unclean --path-to-json-file ELECT"),
    (
        "leader-election",
        "--bootstrap-server BROKER --election-type preferred --topic words --partition 0"
        " --admin.config CLIENT",
    ),
    ("api-versions", "--bootstrap-server BROKER"),
]
FAILING_ALIKE = [
    ("features", "--bootstrap-server BROKER upgrade --feature group.version=99"),
    ("features", "--bootstrap-server BROKER upgrade --feature nothing.version=1"),
    ("features", "--bootstrap-server BROKER downgrade --feature metadata.version=1"),
    ("features", "--bootstrap-server BROKER disable --feature metadata.version"),
    (
        "leader-election",
        "--bootstrap-server BROKER --election-type preferred --path-to-json-file ELECT_UNKNOWN",
    ),
    ("leader-election", "--bootstrap-server BROKER --election-type preferred --topic words --partition 9"),
]
REFUSED = [
    ("features", ""),
    ("features", "describe"),
    ("features", "--bootstrap-server BROKER"),
    ("features", "--bootstrap-server BROKER upgrade"),
    ("features", "--bootstrap-server BROKER upgrade --feature group.version"),
    ("features", "--bootstrap-server BROKER upgrade --feature group.version=many"),
    ("features", "--bootstrap-server BROKER upgrade --feature group.version=1 --feature group.version=1"),
    ("features", "--bootstrap-server BROKER upgrade --release-version 4.3-IV0 --metadata 4.3-IV0"),
    ("features", "--bootstrap-server BROKER upgrade --release-version 9.9"),
    ("features", "--bootstrap-server BROKER describe --node-id -1"),
    ("features", "--bootstrap-server BROKER describe --nothing"),
    ("features", "version-mapping --release-version 1.0"),
    ("features", "feature-dependencies --feature nothing.version=1"),
    ("features", "feature-dependencies --feature metadata.version=1000"),
    ("features", "feature-dependencies"),
    ("log-dirs", ""),
    ("log-dirs", "--describe"),
    ("log-dirs", "--bootstrap-server BROKER"),
    ("log-dirs", "--bootstrap-server BROKER --describe --broker-list 4,7"),
    ("log-dirs", "--bootstrap-server BROKER --describe --broker-list one"),
    ("log-dirs", "--bootstrap-server BROKER --describe --nothing"),
    ("delete-records", ""),
    ("delete-records", "--bootstrap-server BROKER"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file /nowhere"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file TWICE"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file HALF"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file OTHER_VERSION"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file NO_PARTITIONS"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file NO_OFFSET"),
    ("delete-records", "--bootstrap-server BROKER --offset-json-file NO_OBJECT"),
    ("leader-election", ""),
    ("leader-election", "--bootstrap-server BROKER"),
    ("leader-election", "--bootstrap-server BROKER --election-type preferred"),
    ("leader-election", "--bootstrap-server BROKER --election-type any --all-topic-partitions"),
    ("leader-election", "--bootstrap-server BROKER --election-type preferred --topic words"),
    ("leader-election", "--bootstrap-server BROKER --election-type preferred --topic words --partition one"),
    (
        "leader-election",
        "--bootstrap-server BROKER --election-type preferred --all-topic-partitions --partition 1",
    ),
    (
        "leader-election",
        "--bootstrap-server BROKER --election-type preferred --topic words --all-topic-partitions",
    ),
    ("leader-election", "--bootstrap-server BROKER --election-type preferred --path-to-json-file HALF"),
    ("leader-election", "--bootstrap-server BROKER --election-type preferred --path-to-json-file TWICE"),
    (
        "leader-election",
        "--bootstrap-server BROKER --election-type preferred --path-to-json-file NO_PARTITIONS",
    ),
    ("api-versions", ""),
    ("api-versions", "--command-config CLIENT"),
]


def both(tools: Tools, broker: peers.BrokerProcess, directory: Path, tool: str, line: str) -> tuple[Ran, Ran]:
    places = {"BROKER": broker.bootstrap, "CONTROLLER": f"127.0.0.1:{broker.controller_port}"}
    for name, text in FILES.items():
        (directory / name).write_text(text)
        places[name] = str(directory / name)
    arguments = [places.get(word, word) for word in line.split()]
    kafkas, main = TOOLS[tool]
    return tools.run(kafkas, *arguments), ours(main, arguments)


def shown(ran: Ran) -> list[Any]:
    """What was printed: JSON as values in an order of their own, lists of partitions sorted."""
    lines: list[Any] = []
    for line in ran.out.splitlines():
        if line.startswith("{"):
            lines.append(_sorted(json.loads(line)))
        else:
            line = re.sub(r"Epoch: \d+", "Epoch: N", line)
            # Sentences that the client has for codes without one are its own.
            line = re.sub(r"(?<=OffsetOutOfRangeException: ).*", "...", line)
            lines.append(sorted(line.replace(",", "").split()))
    return sorted(lines, key=str)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(one) for key, one in value.items()}
    return sorted(map(_sorted, value), key=str) if isinstance(value, list) else value


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(("tool", "line"), SAME)
def test_both_print_the_same(
    tools: Tools, broker: peers.BrokerProcess, tmp_path: Path, tool: str, line: str
) -> None:
    theirs, mine = both(tools, broker, tmp_path, tool, line)
    assert (mine.exit, mine.err) == (0, "")
    assert theirs.exit == 0
    assert shown(mine) == shown(theirs)


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(("tool", "line"), FAILING_ALIKE)
def test_both_tell_the_same_failures(
    tools: Tools, broker: peers.BrokerProcess, tmp_path: Path, tool: str, line: str
) -> None:
    theirs, mine = both(tools, broker, tmp_path, tool, line)
    assert mine.exit == theirs.exit == 1
    assert shown(mine) == shown(theirs)
    assert mine.err.splitlines()[0] == theirs.err.splitlines()[0]


@pytest.mark.usefixtures("topics")
def test_both_tell_of_an_offset_that_is_not_there(
    tools: Tools, broker: peers.BrokerProcess, tmp_path: Path
) -> None:
    theirs, mine = both(
        tools,
        broker,
        tmp_path,
        "delete-records",
        "--bootstrap-server BROKER --offset-json-file DELETE_TOO_MUCH",
    )
    assert mine.exit == theirs.exit == 0
    assert shown(mine) == shown(theirs)


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(("tool", "line"), REFUSED)
def test_both_refuse_the_same(
    tools: Tools, broker: peers.BrokerProcess, tmp_path: Path, tool: str, line: str
) -> None:
    theirs, mine = both(tools, broker, tmp_path, tool, line)
    assert mine.exit == theirs.exit == 1
    assert mine.err
    assert theirs.err
    assert "Traceback" not in mine.err
