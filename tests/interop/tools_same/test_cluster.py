"""Our metadata-quorum and cluster tools say what Kafka's say, of Kafka and of Ottla."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ottla.tools import cluster, metadata_quorum
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.tools_same.conftest import Main, ours

QUORUM = ("org.apache.kafka.tools.MetadataQuorumCommand", metadata_quorum.main)
CLUSTER = ("org.apache.kafka.tools.ClusterTool", cluster.main)
TOOLS: dict[str, tuple[str, Main]] = {"quorum": QUORUM, "cluster": CLUSTER}
MOVING = re.compile(r"\b\d+\b(?=.*(Leader|Observer|Follower))|(?<=HighWatermark:).*")
DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAQ"


def shown(ran: Ran) -> list[str]:
    """What was printed, without offsets and times, which move on."""
    return [MOVING.sub("N", re.sub(r"\s+", " ", line)) for line in ran.out.splitlines()]


def fill(arguments: Sequence[str], broker: peers.BrokerProcess, config: Path) -> list[str]:
    places = {
        "BROKER": broker.bootstrap,
        "CONTROLLER": f"127.0.0.1:{broker.controller_port}",
        "CONFIG": str(config),
        "SERVER": str(broker.properties_file),
    }
    return [places.get(word, word) for word in arguments]


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("quorum", "--bootstrap-server BROKER describe --status"),
        ("quorum", "--bootstrap-controller CONTROLLER describe --status"),
        ("quorum", "--bootstrap-server=BROKER describe --replication"),
        ("quorum", "--bootstrap-server BROKER --command-config CONFIG describe --replication"),
        ("quorum", "--bootstrap-server BROKER describe --replication --human-readable"),
        ("quorum", "--bootstrap-server BROKER --command-config SERVER add-controller --dry-run"),
        ("quorum", f"--bootstrap-server BROKER remove-controller -i 7 -d {DIRECTORY} --dry-run"),
        ("cluster", "cluster-id --bootstrap-server BROKER"),
        ("cluster", "cluster-id -b BROKER --config CONFIG"),
        ("cluster", "cluster-id --bootstrap-controller CONTROLLER -c CONFIG"),
        ("cluster", "list-endpoints --bootstrap-server BROKER"),
        ("cluster", "list-endpoints --bootstrap-server BROKER --include-fenced-brokers"),
        ("cluster", "list-endpoints --bootstrap-controller CONTROLLER"),
    ],
)
def test_both_print_the_same(
    tools: Tools, broker: peers.BrokerProcess, tmp_path: Path, tool: str, line: str
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=mine\n")
    arguments = [
        word.replace("BROKER", broker.bootstrap) if "=BROKER" in word else word for word in line.split()
    ]
    arguments = fill(arguments, broker, config)
    kafkas, main = TOOLS[tool]
    theirs, mine = tools.run(kafkas, *arguments), ours(main, arguments)
    assert (mine.exit, mine.err) == (0, "")
    assert theirs.exit == 0
    assert shown(mine) == shown(theirs)


@pytest.mark.parametrize(
    ("tool", "line"),
    [
        ("quorum", ""),
        ("quorum", "describe --status"),
        ("quorum", "--bootstrap-server BROKER"),
        ("quorum", "--bootstrap-server BROKER describe"),
        ("quorum", "--bootstrap-server BROKER describe --status --replication"),
        ("quorum", "--bootstrap-server BROKER describe --status --human-readable"),
        ("quorum", "--bootstrap-server BROKER --bootstrap-controller CONTROLLER describe --status"),
        ("quorum", "--bootstrap-server BROKER --command-config /nowhere describe --status"),
        ("quorum", "--bootstrap-server BROKER add-controller"),
        ("quorum", "--bootstrap-server BROKER --command-config CONFIG add-controller"),
        ("quorum", "--bootstrap-server BROKER remove-controller -i 7"),
        ("quorum", "--bootstrap-server BROKER remove-controller -i 7 -d short --dry-run"),
        ("quorum", f"--bootstrap-server BROKER remove-controller -i -7 -d {DIRECTORY} --dry-run"),
        ("quorum", f"--bootstrap-server BROKER remove-controller -i 7 -d {DIRECTORY}"),
        ("cluster", "unregister -b BROKER --id 4711"),
        ("cluster", "list-endpoints --bootstrap-controller CONTROLLER --include-fenced-brokers"),
        ("cluster", "cluster-id -b BROKER -c CONFIG --config CONFIG"),
    ],
)
def test_both_refuse_the_same(
    tools: Tools, broker: peers.BrokerProcess, tmp_path: Path, tool: str, line: str
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=mine\n")
    kafkas, main = TOOLS[tool]
    arguments = fill(line.split(), broker, config)
    theirs, mine = tools.run(kafkas, *arguments), ours(main, arguments)
    assert mine.exit == theirs.exit == 1
    assert mine.err
    assert theirs.err
    assert "Traceback" not in mine.err


@pytest.mark.parametrize("line", ["", "nothing", "cluster-id", "unregister -b localhost:1"])
def test_a_bad_command_line_shows_the_usage(line: str) -> None:
    """Kafka's tool does so too, and ends its whole JVM: it is not asked."""
    ran = ours(cluster.main, line.split())
    assert ran.exit == 1
    assert ran.err.startswith("usage: kafka-cluster")
    assert "error: " in ran.err
