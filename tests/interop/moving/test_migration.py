"""A whole Kafka cluster becomes an Ottla cluster under load, by the commands of docs/migration.md.

What the page says is what runs: the commands in its `sh` blocks, section by section, through Kafka's tools.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

from tests.interop import peers
from tests.interop.groups_tool.runner import Tools
from tests.interop.mixed.nodes import (
    CONTROLLER_ID,
    BrokerOnly,
    DynamicOttlaVoter,
    DynamicVoter,
    KafkaData,
    OttlaData,
)
from tests.interop.moving.load import Load, Transactions, commit, committed, read_values
from tests.interop.moving.moves import PATIENCE_MS, SECONDS_MAX, Reassigning, contents

PAGE = peers.ROOT / "docs" / "migration.md"
CLASSES = {
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-log-dirs.sh": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
}


class Page:
    """The commands of the page, each of which is run once, in order."""

    def __init__(self, tools: Tools, directory: Path) -> None:
        sections = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
        self._left = {
            title: [
                line
                for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
                for line in block.splitlines()
            ]
            for title, text in zip(sections[1::2], sections[2::2], strict=True)
        }
        self._tools = tools
        self._directory = directory
        self.variables: dict[str, str] = {}

    def run_next(self, title: str) -> str:
        """The next command of a section; what it printed."""
        return self._run(self._left[title].pop(0))

    def run_until(self, title: str, wanted: str) -> str:
        """Run the next command again and again, until it prints this."""
        command = self._left[title].pop(0)
        said = [""]

        def is_there() -> bool:
            said[0] = self._run(command)
            return re.search(wanted, said[0], re.MULTILINE) is not None

        peers.wait_until(
            is_there, SECONDS_MAX, lambda: f"{command} to print {wanted}; it printed {said[0]}", pause_s=0.2
        )
        return said[0]

    def file(self, name: str, content: object) -> None:
        (self._directory / name).write_text(json.dumps(content))

    def assert_all_done(self) -> None:
        assert not any(self._left.values()), self._left

    def _run(self, line: str) -> str:
        tool, *words = shlex.split(line)
        words = [self.variables[word[1:]] if word.startswith("$") else word for word in words]
        words = [
            str(self._directory / word) if word.endswith((".json", ".properties")) else word for word in words
        ]
        ran = self._tools.run(CLASSES[tool], *words)
        assert ran.exit == 0, f"{line}: exit {ran.exit}\n{ran.out}\n{ran.err}"
        return ran.out


def directory_id(node: peers.BrokerProcess) -> str:
    (text,) = re.findall(r"directory\.id=(\S+)", (node.data / "meta.properties").read_text())
    return str(text)


def test_a_kafka_cluster_becomes_an_ottla_cluster_under_load(tmp_path: Path) -> None:
    ports = [peers.free_port(), peers.free_port()]
    controllers = ",".join(f"127.0.0.1:{port}" for port in ports)
    kafka_controller = DynamicVoter(tmp_path / "kafka-controller", CONTROLLER_ID, ports, is_first=True)
    ottla_controller = DynamicOttlaVoter(
        tmp_path / "ottla-controller", CONTROLLER_ID + 1, ports, is_first=False
    )
    for controller in (kafka_controller, ottla_controller):
        controller.extra_properties["broker.session.timeout.ms"] = PATIENCE_MS
        controller.extra_properties["controller.quorum.fetch.timeout.ms"] = PATIENCE_MS
    brokers: dict[int, BrokerOnly] = {}
    for node_id, kind in ((1, KafkaData), (2, OttlaData), (3, OttlaData)):
        broker = kind(tmp_path / f"broker-{node_id}").follow(node_id, kafka_controller)
        broker.extra_properties["controller.quorum.bootstrap.servers"] = controllers
        brokers[node_id] = broker
    try:
        with Tools() as tools:
            kafka_controller.start()
            brokers[1].start()
            page = Page(tools, tmp_path)
            page.variables = {
                "SERVERS": brokers[1].bootstrap,
                "CONTROLLERS": f"127.0.0.1:{ports[0]}",
                "OTTLA_BROKERS": "2,3",
                "KAFKA_BROKER": "1",
                "BYTES_PER_SECOND": "50000000",
                "KAFKA_CONTROLLER": str(CONTROLLER_ID),
                "KAFKA_DIRECTORY": directory_id(kafka_controller),
            }
            tool = Reassigning(tools, brokers[1].bootstrap, tmp_path)
            tool.create("orders", [[1], [1], [1]])
            tool.create("paid", [[1]])
            with (
                Load(brokers[1].bootstrap, {"orders": 3}) as load,
                Transactions(brokers[1].bootstrap, "paid") as transactions,
            ):
                load.wait_for_more(20)
                transactions.wait_for_more()
                marks = {("orders", index): 5 + index for index in range(3)}
                commit(brokers[1].bootstrap, "shop", marks)
                before = contents(brokers[1], ("orders", 1))

                assert re.search(r"kraft\.version.*FinalizedVersionLevel: 1", page.run_next("Before"))
                assert kafka_controller.cluster_id in page.run_next("Before")
                topics = page.run_next("Before").split()
                assert set(topics) == {"orders", "paid", "__consumer_offsets", "__transaction_state"}

                for node_id in (2, 3):
                    brokers[node_id].start()
                page.run_until("Add Ottla brokers", rf"{brokers[3].port}")

                page.file("topics.json", {"version": 1, "topics": [{"topic": topic} for topic in topics]})
                proposed = page.run_next("Move the partitions").split("configuration\n")[-1]
                page.file("plan.json", json.loads(proposed))
                page.run_next("Move the partitions")
                page.run_next("Move the partitions")
                # A broker that is asked may be behind the controller, which knows that all moves have ended.
                page.run_until("Move the partitions", r"\A(?!(?s:.*)(?:in progress|rather than))")
                load.wait_for_more(20)
                transactions.wait_for_more()

                page.run_until("Take the Kafka brokers away", r'"partitions":\[\]')
                page.variables["SERVERS"] = brokers[2].bootstrap
                brokers[1].stop()
                page.run_next("Take the Kafka brokers away")
                shutil.rmtree(brokers[1].directory)
                load.wait_for_more(20)
                transactions.wait_for_more()

                ottla_controller.start()
                shutil.copy(ottla_controller.properties_file, tmp_path / "controller.properties")
                page.run_until(
                    "Move the controllers", rf"^{CONTROLLER_ID + 1}\s+\S+\s+\d+\s+0\s+\d+\s+\d+\s+Observer"
                )
                page.run_next("Move the controllers")
                page.run_next("Move the controllers")
                page.variables["CONTROLLERS"] = f"127.0.0.1:{ports[1]}"
                kafka_controller.stop()
                page.run_until("Move the controllers", rf"LeaderId:\s+{CONTROLLER_ID + 1}\b")
                page.assert_all_done()

                tool = Reassigning(tools, brokers[2].bootstrap, tmp_path)
                tool.create("afterwards", [[2, 3]])
                load.wait_for_more(20)
                transactions.wait_for_more()
                load.stop()
                transactions.stop()
            assert set(tool.admin.list_topics(timeout=SECONDS_MAX).brokers) == {2, 3}
            for place in load.places:
                assert read_values(brokers[2].bootstrap, place) == load.written[place]
            assert read_values(brokers[2].bootstrap, ("paid", 0)) == transactions.committed
            assert committed(brokers[2].bootstrap, "shop", list(marks)) == marks
            place = ("orders", 1)
            (home,) = tool.placement(place)[1]
            assert contents(brokers[home], place).startswith(before)
    finally:
        for node in (*brokers.values(), kafka_controller, ottla_controller):
            node.close()
