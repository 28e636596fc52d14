"""A new cluster starts with what it was formatted with, once."""

from __future__ import annotations

import base64

import pytest

from ottla.controller.bootstrap import (
    activation_records,
    bootstrap_checkpoint,
    bootstrap_records,
    parse_scram,
    read_bootstrap,
    voters_checkpoint,
)
from ottla.controller.feature_levels import resolve_features
from ottla.controller.image import ClusterImage
from ottla.raft import snapshots
from ottla.raft.snapshots import SnapshotDamaged
from ottla.raft.voters import parse_initial_controllers
from ottla.wire.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

LEVELS = resolve_features(release=None, features={})


def test_the_file_holds_what_was_asked_for() -> None:
    scram = parse_scram("SCRAM-SHA-256=[name=alice,password=alice-secret]", bytes)
    records = bootstrap_records(LEVELS, [scram])
    assert [record.name for record in records if isinstance(record, FeatureLevelRecord)] == [
        "metadata.version", "eligible.leader.replicas.version", "group.version", "share.version",
        "streams.version", "transaction.version",
    ]  # fmt: skip
    content = bootstrap_checkpoint(records, 1794743572931)
    assert read_bootstrap(content, "bootstrap.checkpoint") == records


def test_a_damaged_or_empty_file_is_not_taken_for_no_file() -> None:
    content = bytearray(bootstrap_checkpoint(bootstrap_records(LEVELS), 1))
    with pytest.raises(SnapshotDamaged, match="does not begin"):
        read_bootstrap(b"", "f")
    with pytest.raises(SnapshotDamaged, match="truncated"):
        read_bootstrap(bytes(content[:-1]), "f")
    with pytest.raises(SnapshotDamaged, match="does not contain a metadata"):
        read_bootstrap(bootstrap_checkpoint([], 1), "f")
    content[150] ^= 1
    with pytest.raises(SnapshotDamaged, match="damaged at byte 83"):
        read_bootstrap(bytes(content), "f")


def test_an_empty_log_gets_the_bootstrap_records_in_one_transaction() -> None:
    records = activation_records(ClusterImage(), bootstrap_records(LEVELS), 2)
    assert records[0] == BeginTransactionRecord(name="Bootstrap records")
    assert records[-2:] == [
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="2"),
        EndTransactionRecord(),
    ]
    image = ClusterImage()
    for record in records:
        image.replay(record)
    assert image.metadata_version == 30
    assert activation_records(image, bootstrap_records(LEVELS), 2) == []


def test_a_bootstrap_that_broke_off_is_aborted_and_done_again() -> None:
    image = ClusterImage()
    image.replay(BeginTransactionRecord(name="Bootstrap records"))
    records = activation_records(image, bootstrap_records(LEVELS), 1)
    assert isinstance(records[0], AbortTransactionRecord)
    for record in records:
        image.replay(record)
    assert image.metadata_version == 30


def test_old_levels_know_no_transactions() -> None:
    levels = resolve_features(release="3.5", features={})
    records = activation_records(ClusterImage(), bootstrap_records(levels), 1)
    assert records == [FeatureLevelRecord(name="metadata.version", feature_level=11)]


class TestScram:
    def test_the_keys_are_those_of_the_standard(self) -> None:
        """The example of RFC 7677."""
        salt = "W22ZaJ0SNY7soEsUEjb6gQ=="
        record = parse_scram(f"SCRAM-SHA-256=[name=user,password=pencil,salt={salt},iterations=4096]", bytes)
        assert (record.name, record.mechanism, record.iterations) == ("user", 1, 4096)
        assert base64.b64encode(record.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
        assert base64.b64encode(record.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="

    def test_a_password_may_come_salted_and_in_quotes(self) -> None:
        salted = base64.b64encode(b"x" * 64).decode()
        record = parse_scram(f'SCRAM-SHA-512=[name="a b",saltedpassword={salted},salt=AAAA]', bytes)
        assert (record.name, record.mechanism, len(record.stored_key)) == ("a b", 2, 64)

    @pytest.mark.parametrize(
        ("argument", "message"),
        [
            ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument"),
            ("MD5=[name=a]", "The add-scram mechanism MD5 is not supported."),
            ("SCRAM-SHA-256=name=a", "Expected configuration string to start with"),
            ("SCRAM-SHA-256=[password=a]", "You must supply 'name' to add-scram"),
            ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword'"),
            ("SCRAM-SHA-256=[name=a,saltedpassword=AAAA]", "You must supply 'salt' with 'saltedpassword'"),
            (
                "SCRAM-SHA-256=[name=a,password=b,iterations=5]",
                "must be >= 4096 for add-scram using SCRAM_SHA_256",
            ),
            ("SCRAM-SHA-256=[name=a,password=b,iterations=x]", "Failed to parse iterations count: x"),
            ("SCRAM-SHA-256=[name=a,password=b,salt=!]", "Failed to decode given salt: !"),
            ("SCRAM-SHA-256=[name=a,password=b,colour=red]", "Unknown SCRAM configurations: colour"),
            ("SCRAM-SHA-256=[name]", "No equals sign found in SCRAM component: name"),
        ],
    )
    def test_a_wrong_argument_is_refused(self, argument: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parse_scram(argument, bytes)


def test_the_first_voters_stand_in_a_checkpoint_of_their_own() -> None:
    voters = parse_initial_controllers("1@localhost:9093:n1ga9a0ATuO6CEJAJDTj1g", "CONTROLLER")
    snapshot = snapshots.read(voters_checkpoint(voters, 5), "f")
    assert snapshot.voters == voters
    assert (snapshot.kraft_version, snapshot.last_contained_ms, snapshot.values) == (1, 5, [])
