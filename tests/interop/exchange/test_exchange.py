"""What one broker stored the other serves: every record, config, producer and offset, in both directions.

The directory passes from hand to hand, after a clean stop and after a kill, and each broker adds to it.
Kafka's dump tool reads every file in it without a complaint.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop import peers
from tests.interop.clients.admins import ConfluentAdmin, JavaAdmin
from tests.interop.clients.conftest import CLIENTS, broker_kinds
from tests.interop.clients.java import close_agent
from tests.interop.clients.messages import CASES, CODECS, Message, Stored, plain_messages

# A killed broker registers again once its old session has run out; Kafka's default is 9 s.
PROPERTIES = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "log.index.interval.bytes": "1024",
}
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "512"}


@pytest.fixture(autouse=True)
def _java_agent_ends() -> Iterator[None]:
    yield
    close_agent()


@dataclass
class Contents:
    """The expected content of the directory, as read from the broker that wrote it."""

    records: dict[str, list[Stored]] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)


def write(broker: peers.BrokerProcess, round_number: int, contents: Contents) -> None:
    """Add some of everything: codecs, segments, deleted records, tombstones, idempotent producers."""
    admin = ConfluentAdmin(broker.bootstrap)
    java = CLIENTS["java"]
    codecs, segments, deleted, fresh = "codecs", "segments", "deleted", f"fresh-{round_number}"
    if round_number == 0:
        for topic, configs in (
            (codecs, {}),
            (segments, SMALL_SEGMENTS),
            (deleted, {}),
            ("compacted", {"cleanup.policy": "compact", **SMALL_SEGMENTS}),
        ):
            assert admin.create_topic(topic, partitions=1, configs=configs).code == 0
    assert admin.create_topic(fresh, partitions=3, configs={"retention.ms": "86400000"}).code == 0
    for codec in CODECS:
        java.produce(broker.bootstrap, codecs, CASES, codec=codec)
    big = [Message(b"%d" % index, os.urandom(50_000)) for index in range(40)]
    CLIENTS["confluent"].produce(broker.bootstrap, segments, big)
    java.produce(broker.bootstrap, deleted, plain_messages(60), idempotent=True)
    latest = admin.list_offset(deleted, 0, "latest").value
    assert admin.delete_records(deleted, 0, latest - 25).code == 0
    keyed = [Message(b"key-%d" % (index % 5), None if index == 3 else b"value") for index in range(10)]
    java.produce(broker.bootstrap, "compacted", keyed)
    java.produce(broker.bootstrap, fresh, plain_messages(10), partition=2, idempotent=True)
    for topic in (codecs, segments, deleted, "compacted"):
        remember(broker, contents, topic)
    remember(broker, contents, fresh, partition=2)


def remember(broker: peers.BrokerProcess, contents: Contents, topic: str, partition: int = 0) -> None:
    place = f"{topic}-{partition}"
    contents.starts[place], contents.records[place] = read(broker, topic, partition)


def read(broker: peers.BrokerProcess, topic: str, partition: int) -> tuple[int, list[Stored]]:
    admin = ConfluentAdmin(broker.bootstrap)
    earliest = admin.list_offset(topic, partition, "earliest")
    latest = admin.list_offset(topic, partition, "latest")
    assert (earliest.code, latest.code) == (0, 0), (topic, partition, earliest, latest)
    start, end = earliest.value, latest.value
    # The Java client checks every CRC and every bound of a record.
    return start, CLIENTS["java"].consume(
        broker.bootstrap, topic, end - start, partition=partition, offset=start
    )


def assert_serves(broker: peers.BrokerProcess, contents: Contents, *, clean: bool) -> None:
    for place, stored in contents.records.items():
        topic, _, partition = place.rpartition("-")
        start, found = read(broker, topic, int(partition))
        if clean:
            assert start == contents.starts[place], place
        # The log's start is written down once a minute, so a killed broker may show deleted records again.
        assert start <= contents.starts[place], place
        assert [record for record in found if record.offset >= contents.starts[place]] == stored, place
    configs = ConfluentAdmin(broker.bootstrap).describe_configs("topic", "segments").value
    assert configs["segment.bytes"].value == SMALL_SEGMENTS["segment.bytes"]
    assert configs["segment.bytes"].source == "DYNAMIC_TOPIC_CONFIG"
    [producer] = JavaAdmin(broker.bootstrap).describe_producers("fresh-0", 2).value
    assert producer[1:3] == [0, 9]
    by_time = contents.records["codecs-0"][0].timestamp_ms
    assert ConfluentAdmin(broker.bootstrap).list_offset("codecs", 0, by_time).value == 0


def dump(files: list[Path], *options: str) -> str:
    """Run Kafka's dump tool over files; its complaints are errors."""
    names = ",".join(map(str, files))
    result = peers.kafka_tool("org.apache.kafka.tools.DumpLogSegments", "--files", names, *options)
    output = (result.stdout + result.stderr).decode(errors="replace")
    # The tool finds fault with every segment that does not start at offset 0; that one is its own.
    output = re.sub(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n", "", output)
    complaints = [
        line
        for line in output.splitlines()
        if re.search(
            r"(?i)mismatch|corrupt|invalid|exception|error|non-?consecutive|not found|could not", line
        )
        and not line.startswith(("| offset:", "baseOffset:"))
    ]
    assert not complaints, "\n".join(complaints[:20])
    return output


def assert_dumps(data: Path, contents: Contents) -> None:
    """Every file of every partition is read by Kafka's dump tool, and the records in it are counted."""
    logs = sorted(data.glob("*-[0-9]*/*.log"))
    partitions = [path for path in logs if not path.parent.name.startswith("__cluster_metadata")]
    for place, stored in contents.records.items():
        if place == "compacted-0":
            continue  # compaction may have taken some away by now
        files = [path for path in partitions if path.parent.name == place]
        output = dump(files, "--deep-iteration", "--print-data-log", "--max-message-size", "16000000")
        offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
        assert offsets == sorted(offsets)
        assert [record.offset for record in stored] == [
            offset for offset in offsets if offset >= contents.starts[place]
        ], place
    for pattern in ("*.index", "*.timeindex", "*.txnindex", "*.snapshot"):
        files = sorted(data.glob(f"*-[0-9]*/{pattern}"))
        if files:
            dump(files, "--verify-index-only") if "index" in pattern else dump(files)
    metadata = sorted((data / "__cluster_metadata-0").glob("*.log"))
    output = dump(metadata, "--cluster-metadata-decoder", "--skip-record-metadata")
    assert "TOPIC_RECORD" in output
    assert "payload" in output
    checkpoints = sorted((data / "__cluster_metadata-0").glob("*.checkpoint"))
    dump(checkpoints, "--cluster-metadata-decoder")


def relay(directory: Path, kinds: list[str], *, clean: bool) -> None:
    """Run the brokers on the directory in turn; each serves the existing data and adds to it."""
    port, controller_port = peers.free_port(), peers.free_port()
    contents = Contents()
    for number, kind in enumerate(kinds):
        with peers.running(
            kind, directory, port=port, controller_port=controller_port, properties=PROPERTIES
        ) as broker:
            if number:
                assert_serves(broker, contents, clean=clean)
            write(broker, number, contents)
            if clean:
                broker.stop()
            else:
                broker.kill()
        if clean:
            assert_dumps(directory / "data", contents)
    with peers.running(
        kinds[0], directory, port=port, controller_port=controller_port, properties=PROPERTIES
    ) as broker:
        assert_serves(broker, contents, clean=clean)


def relays() -> list[list[str]]:
    """The sequence of brokers; with Kafka alone it validates the test itself."""
    kinds = broker_kinds()
    if kinds == ["kafka"]:
        return [["kafka", "kafka"]]
    return [list(pair) for pair in itertools.permutations(["ottla", "kafka"])]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("kinds", relays(), ids="-to-".join)
def test_a_data_directory_changes_hands(tmp_path: Path, kinds: list[str], clean: bool) -> None:
    relay(tmp_path, kinds, clean=clean)
