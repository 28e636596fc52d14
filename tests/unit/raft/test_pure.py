"""The small pure parts of the quorum: voters, the election file, histories, snapshots, retention."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.raft import election_state, snapshots
from ottla.raft.election_state import ElectionFileDamaged, ElectionState
from ottla.raft.log_history import LogHistory
from ottla.raft.retention import StoredSnapshot, new_start
from ottla.raft.snapshots import SnapshotDamaged, SnapshotId
from ottla.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet, parse_initial_controllers
from ottla.wire import uuid

DIRECTORY = bytes(range(16))


class TestVoters:
    def test_a_majority_is_more_than_half(self) -> None:
        sizes = [VoterSet(Voter(ReplicaKey(n)) for n in range(size)).majority for size in (1, 2, 3, 4, 5)]
        assert sizes == [1, 2, 2, 3, 3]

    def test_a_voter_with_another_directory_is_another_voter(self) -> None:
        voters = VoterSet([Voter(ReplicaKey(1, DIRECTORY))])
        assert voters.is_voter(ReplicaKey(1, DIRECTORY))
        assert voters.is_voter(ReplicaKey(1))
        assert not voters.is_voter(ReplicaKey(1, b"x" * 16))
        assert voters.is_only_voter(ReplicaKey(1, DIRECTORY))

    def test_a_static_voter_may_have_any_directory(self) -> None:
        voters = VoterSet.static({1: ("localhost", 9093), 2: None}, "CONTROLLER")
        assert voters.is_voter(ReplicaKey(1, DIRECTORY))
        assert not voters.is_only_voter(ReplicaKey(1, DIRECTORY))

    def test_a_voter_set_survives_its_record(self) -> None:
        voters = VoterSet([Voter(ReplicaKey(3, DIRECTORY), (VoterEndpoint("C", "h", 1),), (0, 1))])
        assert VoterSet.from_record(voters.to_record()) == voters

    def test_initial_controllers_are_parsed_as_kafka_does(self) -> None:
        text = uuid.to_text(DIRECTORY)
        voters = parse_initial_controllers(f"2@[::1]:9094:{text},1@host:9093:{text}", "CONTROLLER")
        assert voters.ids == [1, 2]
        found = voters.get(2)
        assert found is not None
        assert found.endpoints == (VoterEndpoint("CONTROLLER", "::1", 9094),)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "No voters given."),
            ("1host", "No @ found"),
            ("@host", "Invalid @ at beginning"),
            ("x@host:1:a", "Failed to parse node id"),
            ("-1@host:1:a", "Invalid negative node id -1"),
            ("1@", "No hostname found"),
            ("1@[::1:1:a", "no right bracket"),
            ("1@host", "No colon following hostname"),
            ("1@host:1", "No colon following port"),
            ("1@host:x:a", "Failed to parse port"),
            ("1@host:70000:a", "Invalid port 70000"),
            ("1@host:1:a", "Failed to parse directory ID"),
            (
                f"1@h:1:{uuid.to_text(DIRECTORY)},1@h:1:{uuid.to_text(DIRECTORY)}",
                "Node id 1 was specified more",
            ),
        ],
    )
    def test_wrong_initial_controllers_are_rejected(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            parse_initial_controllers(text, "CONTROLLER")


class TestElectionFile:
    def test_the_content_is_that_of_kafka_for_a_static_quorum(self) -> None:
        content = election_state.to_json(ElectionState(1, 1), 0, [1])
        assert content == (
            b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
            b'"currentVoters":[{"voterId":1}],"data_version":0}'
        )

    def test_the_content_is_that_of_kafka_for_a_dynamic_quorum(self) -> None:
        content = election_state.to_json(ElectionState(1, 1), 1, [1])
        assert content == (
            b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
            b'"data_version":1}'
        )

    @given(st.integers(0, 2**31 - 1), st.integers(-1, 99), st.none() | st.integers(0, 99))
    def test_a_state_reads_back_as_it_was_written(
        self, epoch: int, leader_id: int, voted_id: int | None
    ) -> None:
        voted = None if voted_id is None else ReplicaKey(voted_id, DIRECTORY)
        state = ElectionState(epoch, leader_id, voted)
        assert election_state.from_json(election_state.to_json(state, 1, []), "f") == state

    @pytest.mark.parametrize(
        "content",
        [b"", b"[]", b"{}", b'{"data_version":7}', b'{"data_version":0,"leaderId":"x"}', b"\xff\xfe"],
    )
    def test_a_damaged_file_is_not_treated_as_missing(self, content: bytes) -> None:
        with pytest.raises(ElectionFileDamaged, match=r"^/data/quorum-state"):
            election_state.from_json(content, "/data/quorum-state")


class TestHistory:
    def test_every_offset_has_a_value(self) -> None:
        history = LogHistory("static")
        assert (history.last, history.last_offset) == ("static", None)
        history.add(5, "a")
        history.add(9, "b")
        assert [history.at(offset) for offset in (4, 5, 8, 9, 20)] == ["static", "a", "a", "b", "b"]

    def test_a_truncated_record_takes_its_value_with_it(self) -> None:
        history = LogHistory("static")
        history.add(5, "a")
        history.add(9, "b")
        history.truncate_to(9)
        assert (history.last, history.last_offset) == ("a", 5)

    def test_values_that_a_snapshot_covers_are_removed(self) -> None:
        history = LogHistory("static")
        for offset in (1, 5, 9):
            history.add(offset, str(offset))
        history.forget_before(6)
        assert [history.at(offset) for offset in (6, 9)] == ["5", "9"]
        assert history.at(4) == "static"


class TestSnapshots:
    def test_names_sort_and_parse(self) -> None:
        assert SnapshotId(50, 1).file_name == "00000000000000000050-0000000001.checkpoint"
        for suffix in (".checkpoint", ".checkpoint.part", ".checkpoint.deleted"):
            assert snapshots.parse_name(f"00000000000000000050-0000000001{suffix}") == ((50, 1), suffix)
        for other in ("quorum-state", "bootstrap.checkpoint", "50-1.checkpoint", "leader-epoch-checkpoint"):
            assert snapshots.parse_name(other) is None

    @given(st.lists(st.binary(max_size=40), max_size=30), st.booleans())
    def test_a_snapshot_reads_back_as_it_was_written(self, values: list[bytes], is_dynamic: bool) -> None:
        voters = VoterSet([Voter(ReplicaKey(1, DIRECTORY))]) if is_dynamic else None
        content = b"".join(
            snapshots.build(
                values, epoch=3, now_ms=9, last_contained_ms=7, kraft_version=int(is_dynamic), voters=voters
            )
        )
        snapshot = snapshots.read(content, "f")
        assert (snapshot.values, snapshot.voters, snapshot.last_contained_ms) == (values, voters, 7)

    def test_many_records_are_split_into_batches(self) -> None:
        values = [b"x" * 1000] * 2500
        batches = list(snapshots.build(values, epoch=0, now_ms=1, last_contained_ms=1))
        assert len(batches) == 5
        assert max(map(len, batches)) < 1_100_000
        assert snapshots.read(b"".join(batches), "f").values == values

    @given(st.data())
    def test_every_flipped_bit_and_every_truncation_is_detected(self, data: st.DataObject) -> None:
        content = bytearray().join(snapshots.build([b"abc", b"de"], epoch=3, now_ms=9, last_contained_ms=7))
        position = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            with pytest.raises(SnapshotDamaged):
                snapshots.read(bytes(content[:position]), "f")
            return
        content[position] ^= 1 << data.draw(st.integers(0, 7))
        try:
            snapshot = snapshots.read(bytes(content), "f")
        except SnapshotDamaged:
            return
        assert snapshot.values == [
            b"abc",
            b"de",
        ]  # the checksum of a batch does not cover its offset and epoch


class TestRetention:
    old, middle, new = (
        StoredSnapshot(SnapshotId(10, 1), 100, 1_000),
        StoredSnapshot(SnapshotId(20, 1), 100, 2_000),
        StoredSnapshot(SnapshotId(30, 2), 100, 3_000),
    )

    def start(self, **limits: int) -> SnapshotId | None:
        given_limits = {"retention_bytes": -1, "retention_ms": -1, **limits}
        return new_start([self.old, self.middle, self.new], 500, 4_000, **given_limits)

    def test_without_limits_everything_is_kept(self) -> None:
        assert self.start() is None

    def test_size_counts_the_log_and_all_snapshots(self) -> None:
        assert self.start(retention_bytes=800) is None
        assert self.start(retention_bytes=799) == SnapshotId(20, 1)
        assert self.start(retention_bytes=0) == SnapshotId(30, 2)

    def test_the_age_of_a_snapshot_is_that_of_its_last_record(self) -> None:
        assert self.start(retention_ms=3_000) is None
        assert self.start(retention_ms=2_500) == SnapshotId(20, 1)
        assert self.start(retention_ms=0) == SnapshotId(30, 2)

    def test_the_last_snapshot_is_always_kept(self) -> None:
        assert new_start([self.new], 10**12, 10**12, retention_bytes=0, retention_ms=0) is None
