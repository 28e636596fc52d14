"""How the leader of a quorum judges a fetch: by epoch, position and snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.unit.raft.scenario import Scenario

from ottla.raft.election_state import ElectionState
from ottla.raft.fetch_validation import READABLE, Position, judge_fetch
from ottla.raft.metadata_log import EpochEnd
from ottla.raft.replica import Replica
from ottla.raft.snapshots import BOOTSTRAP_ID, SnapshotId
from ottla.wire.errors import ErrorCode


@dataclass
class Log:
    """A log of epochs (epoch -> end), from `start_offset` on."""

    epochs: dict[int, int]
    start_offset: int = 0
    snapshots: list[SnapshotId] = field(default_factory=list)

    @property
    def earliest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[0] if self.snapshots else None

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return self.snapshots[-1] if self.snapshots else None

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        known = [one for one in self.epochs if one <= epoch]
        return EpochEnd(known[-1], self.epochs[known[-1]]) if known else EpochEnd(0, 0)


def leader() -> Replica:
    """The only voter leads epoch 5 on a log of 100 records."""
    return Scenario(1, election=ElectionState(4, 1), end=(100, 4)).replica


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_in_another_epoch_fails(epoch: int, error: ErrorCode) -> None:
    log = Log({3: 50, 5: 100})
    assert judge_fetch(leader(), log, Position(100, 3, epoch)) is error


def test_a_fetch_from_a_replica_that_does_not_lead_fails() -> None:
    replica = Scenario().replica
    verdict = judge_fetch(replica, Log({0: 0}), Position(0, 0, replica.epoch))
    assert verdict is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_position_in_the_log_is_readable() -> None:
    log = Log({3: 50, 5: 100})
    assert judge_fetch(leader(), log, Position(0, 0, 5)) is READABLE
    assert judge_fetch(leader(), log, Position(20, 3, 5)) is READABLE
    assert judge_fetch(leader(), log, Position(50, 3, 5)) is READABLE
    assert judge_fetch(leader(), log, Position(100, 5, 5)) is READABLE


def test_a_diverging_log_gets_the_end_of_the_epoch_where_it_diverges() -> None:
    log = Log({3: 50, 5: 100})
    assert judge_fetch(leader(), log, Position(60, 3, 5)) == EpochEnd(3, 50)
    assert judge_fetch(leader(), log, Position(60, 4, 5)) == EpochEnd(3, 50)
    assert judge_fetch(leader(), log, Position(101, 5, 5)) == EpochEnd(5, 100)


def test_a_position_before_the_start_of_the_log_gets_the_latest_snapshot() -> None:
    first, latest = SnapshotId(50, 3), SnapshotId(80, 5)
    log = Log({3: 50, 5: 100}, start_offset=50, snapshots=[first, latest])
    assert judge_fetch(leader(), log, Position(20, 3, 5)) == latest
    assert judge_fetch(leader(), log, Position(50, 2, 5)) == latest
    assert judge_fetch(leader(), log, Position(60, 2, 5)) == latest
    assert judge_fetch(leader(), log, Position(50, 3, 5)) is READABLE


def test_an_empty_replica_gets_the_latest_snapshot_unless_that_is_the_bootstrap_snapshot() -> None:
    log = Log({3: 50, 5: 100}, snapshots=[BOOTSTRAP_ID])
    assert judge_fetch(leader(), log, Position(0, 0, 5)) is READABLE
    log.snapshots.append(SnapshotId(80, 5))
    assert judge_fetch(leader(), log, Position(0, 0, 5)) == SnapshotId(80, 5)
