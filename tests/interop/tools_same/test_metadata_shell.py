"""Our metadata shell beside Kafka's, on the same files: everything there is, and what brokers wrote."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.controller.records import encode_record
from ottla.raft import snapshots
from ottla.tools import metadata_shell
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools
from tests.interop.tools_same.same import Tool, ours, theirs

SHELL = Tool("org.apache.kafka.shell.MetadataShell", metadata_shell.main)
LEVEL = 30
LINES = [
    "ls",
    "ls /",
    "ls /image",
    "ls image/cluster image/topics",
    "ls /image/* /local",
    "ls /image/provenance /image/features",
    "ls /image/topics/byName/o*",
    "ls /image/topics/byName/{orders,clicks}/?",
    "ls /image/topics/byName/{orders,nothing",
    "ls /nothing /image/acls",
    "ls /image/../image/./cluster//brokers",
    "cat /image/provenance",
    "cat /image/features/metadataVersion /image/features/finalized_group.version",
    "cat /image/features/finalized_nothing",
    "cat /image/cluster/brokers/1 /image/cluster/brokers/2 /image/cluster/controllers/3000",
    "cat /image/cluster/brokers/9 /image/cluster/brokers/one",
    "cat /image/cluster",
    "cat /image/topics/byName/orders/0 image/topics/byName/orders/id",
    "cat /image/topics/byName/*/1",
    "cat /image/configs/*/*",
    "cat /image/configs/BROKER/nothing /image/configs/NOTHING:1",
    "cat /image/acls/byId/*",
    "cat /image/scram/SCRAM-SHA-256/ann /image/scram/SCRAM-SHA-512/*",
    "cat /image/delegationToken/token",
    "cat /image/producerIds/nextProducerId",
    "cat image/provenance/below",
    "find /image/topics",
    "find /image/clientQuotas image/scram",
    "find",
    "find nothing",
    "tree /image",
    "tree image/clientQuotas",
    "tree image/nothing image/topics/byId/*",
    "nothing",
    "cd /image",
    "c",
    "cat",
    "tree",
]
SESSION = """\
help
man cat
man cd
man find
man history
man tree
man nothing
man
pwd
cd image
pwd
ls
cd topics/byName
ls orders clicks
cd ../..
pwd
cd image/provenance
cd nothing
cd
h
he
nothing
help me
cd a b
history nothing
history 4
cat "image/topics/byName/orders/name" image/topics/byName/clicks/na\\me

exit
"""


def everything() -> list[Message]:
    """Records of every kind."""
    endpoint = RegisterBrokerRecord.BrokerEndpoint
    feature = RegisterBrokerRecord.BrokerFeature
    quota = ClientQuotaRecord.EntityData
    orders, clicks = b"o" * 16, b"c" * 16
    return [
        FeatureLevelRecord(name="metadata.version", feature_level=LEVEL),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        RegisterControllerRecord(
            controller_id=3000,
            incarnation_id=b"i" * 16,
            end_points=[
                RegisterControllerRecord.ControllerEndpoint(name="CONTROLLER", host="::1", port=9093)
            ],
            features=[
                RegisterControllerRecord.ControllerFeature(
                    name="metadata.version", min_supported_version=7, max_supported_version=30
                )
            ],
        ),
        RegisterBrokerRecord(
            broker_id=1,
            broker_epoch=77,
            incarnation_id=b"1" * 16,
            end_points=[
                endpoint(name="OUT", host="broker.example", port=9092, security_protocol=3),
                endpoint(name="IN", host="10.0.0.1", port=9094, security_protocol=1),
            ],
            features=[
                feature(name="one", min_supported_version=1, max_supported_version=1),
                feature(name="any", min_supported_version=0, max_supported_version=2**15 - 1),
            ],
            rack="r1",
            fenced=False,
            log_dirs=[b"d" * 16, b"e" * 16],
        ),
        RegisterBrokerRecord(broker_id=2, incarnation_id=b"2" * 16, cordoned_log_dirs=[b"d" * 16]),
        TopicRecord(name="orders", topic_id=orders),
        PartitionRecord(
            topic_id=orders,
            partition_id=0,
            replicas=[1, 2, 3],
            directories=[b"d" * 16, b"e" * 16, b"f" * 16],
            isr=[1],
            eligible_leader_replicas=[2],
            last_known_elr=[3],
            adding_replicas=[3],
            removing_replicas=[1],
            leader=1,
            leader_epoch=4,
            partition_epoch=9,
        ),
        PartitionRecord(
            topic_id=orders,
            partition_id=1,
            replicas=[2],
            directories=[b"d" * 16],
            isr=[2],
            leader=-1,
            leader_recovery_state=1,
        ),
        PartitionChangeRecord(topic_id=orders, partition_id=1, leader=2),
        TopicRecord(name="clicks", topic_id=clicks),
        PartitionRecord(
            topic_id=clicks, partition_id=0, replicas=[1], directories=[b"d" * 16], isr=[1], leader=1
        ),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1000"),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2"),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="secret"),
        ConfigRecord(resource_type=16, resource_name="metrics", name="interval.ms", value="100"),
        ConfigRecord(
            resource_type=32, resource_name="group", name="consumer.heartbeat.interval.ms", value="9"
        ),
        ClientQuotaRecord(
            entity=[
                quota(entity_type="user", entity_name="an(n)\\"),
                quota(entity_type="client-id", entity_name="a"),
            ],
            key="producer_byte_rate",
            value=1e9,
        ),
        ClientQuotaRecord(
            entity=[quota(entity_type="ip", entity_name="10.0.0.1")], key="connection_creation_rate", value=10
        ),
        ClientQuotaRecord(
            entity=[quota(entity_type="user", entity_name="ben")], key="request_percentage", value=0.5
        ),
        ProducerIdsRecord(broker_id=1, broker_epoch=77, next_producer_id=5000),
        AccessControlEntryRecord(
            id=b"a" * 16,
            resource_type=2,
            resource_name="ord",
            pattern_type=4,
            principal="User:ann",
            host="*",
            operation=12,
            permission_type=3,
        ),
        UserScramCredentialRecord(
            name="ann", mechanism=1, salt=b"\0\1", stored_key=b"\xff", server_key=b"key", iterations=4096
        ),
        DelegationTokenRecord(
            owner="User:ann",
            requester="User:ben",
            renewers=["User:cat", "User:dan"],
            issue_timestamp=1,
            max_timestamp=2,
            expiration_timestamp=3,
            token_id="token",
        ),
    ]


@pytest.fixture(scope="module")
def shell() -> Iterator[Tools]:
    with Tools(peers.kafka_shell_class_path()) as running:
        yield running


def batches() -> list[bytearray]:
    values = [encode_record(record, LEVEL) for record in everything()]
    return list(
        snapshots.build(values, epoch=7, now_ms=1_700_000_000_120, last_contained_ms=1_600_000_000_000)
    )


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A snapshot without the footer: Kafka's shell may wait for ever on a file that ends with one.

    It waits for an offset that its loader sets only if the end of the file is known before the last records.
    """
    path = tmp_path_factory.mktemp("metadata") / "00000000000000000100-0000000007.checkpoint"
    path.write_bytes(b"".join(batches()[:-1]))
    return path


def shown(text: str) -> list[str]:
    """Lines without what differs: Kafka's version, and how wide its help is."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line not in ("4.3.1", "26b251a451ce941d", "unknown", "0.1.0")]


def check_same(shell: Tools, path: Path, line: str) -> None:
    """Kafka's shell may begin before it has loaded everything: then it is run again."""
    arguments = ["--snapshot", str(path), *line.split()]
    our = ours(SHELL, arguments)
    assert (our.exit, our.err) == (0, ""), line

    def is_same() -> bool:
        their = theirs(shell, SHELL, arguments)
        seen[:] = [their]
        return their.exit == 0 and shown(our.out) == shown(their.out)

    seen: list[Ran] = []
    if not is_same():
        peers.wait_until(is_same, 30, f"both to print the same for {line}; ours: {our}, theirs: {seen}")


def test_both_show_the_same_of_everything_there_is(shell: Tools, snapshot: Path) -> None:
    for line in LINES:
        check_same(shell, snapshot, line)


def test_a_whole_snapshot_says_the_same_as_one_without_footer(snapshot: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.checkpoint"
    whole.write_bytes(b"".join(batches()))
    shown_of_both = [ours(SHELL, ["-s", str(path), "tree", "/"]) for path in (snapshot, whole)]
    assert shown_of_both[0] == shown_of_both[1]


def test_both_show_the_same_of_what_a_broker_wrote(
    shell: Tools, broker: peers.BrokerProcess, topics: None, tmp_path: Path
) -> None:
    copy = tmp_path / "00000000000000000000.log"
    shutil.copy(broker.data / "__cluster_metadata-0" / copy.name, copy)
    for line in ("tree /", "find", "ls /image/topics/byName/*", "tree /local"):
        check_same(shell, copy, line)


def test_both_leave_a_data_directory_alone_that_is_in_use(shell: Tools, broker: peers.BrokerProcess) -> None:
    arguments = ["-s", str(broker.data / "__cluster_metadata-0" / "00000000000000000000.log"), "ls"]
    their, our = theirs(shell, SHELL, arguments), ours(SHELL, arguments)
    assert our.exit == their.exit == 1
    assert our.out == their.out == ""
    assert our.err.startswith(f"Unexpected error: Unable to lock {broker.data}.")
    assert our.err.strip() in their.err.splitlines()


def test_both_refuse_a_file_that_is_not_there(shell: Tools) -> None:
    arguments = ["-s", "/nowhere/nothing", "ls"]
    their, our = theirs(shell, SHELL, arguments), ours(SHELL, arguments)
    assert our.exit == their.exit == 1
    assert our.err == "Unexpected error: /nowhere/nothing: No such file or directory\n"
    assert "Unexpected error: java.nio.file.NoSuchFileException: /nowhere/nothing" in their.err


def test_both_talk_alike(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's reads the process's own input, so it gets a JVM of its own."""
    command = peers.java_command(
        SHELL.main_class, "-s", str(snapshot), class_path=[peers.kafka_shell_class_path()]
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO(SESSION))
    our = ours(SHELL, ["-s", str(snapshot)])
    assert (our.exit, our.err) == (0, "")

    def is_same() -> bool:
        their = subprocess.run(
            command, input=SESSION, capture_output=True, text=True, timeout=300, check=False
        )
        seen[:] = [their]
        return their.returncode == 0 and shown(our.out) == shown(their.stdout)

    seen: list[object] = []
    if not is_same():
        peers.wait_until(is_same, 30, f"both to talk alike; ours: {our}, theirs: {seen}")
