"""How transactions end, and what is told to those who ask twice or too late."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.transactions.coordinator import IN_A, Coordinator
from tests.unit.coordinator.transactions.test_init_producer_id import with_epoch

from ottla.coordinator.transactions.states import EPOCH_MAX
from ottla.wire.errors import ErrorCode

OK = ErrorCode.NONE


def begun(version: int = 2) -> tuple[Coordinator, tuple[int, int]]:
    coordinator = Coordinator(version=version)
    _, producer = coordinator.init()
    assert coordinator.add(producer, version=version) == OK
    return coordinator, producer


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_decided_then_marked_then_complete(commit: bool) -> None:
    coordinator, producer = begun()
    error, following = coordinator.end(producer, commit=commit)
    assert (error, following) == (OK, (producer[0], producer[1] + 1))
    assert coordinator.state() == ("PrepareCommit" if commit else "PrepareAbort")
    (markers,) = coordinator.effects
    assert markers.partitions == IN_A
    assert (markers.producer_id, markers.producer_epoch) == following
    assert markers.is_commit is commit
    assert markers.transaction_version == 2
    coordinator.write_markers()
    assert coordinator.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert coordinator.of().partitions == frozenset()


def test_a_transaction_is_complete_only_with_its_last_marker() -> None:
    coordinator, producer = begun()
    coordinator.end(producer, commit=True)
    (markers,) = coordinator.effects
    coordinator.run(coordinator.shard.markers_written(markers, [("a", 0)]))
    assert coordinator.state() == "PrepareCommit"
    described = coordinator.shard.describe("t")
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [1])]
    coordinator.run(coordinator.shard.markers_written(markers, [("a", 1)]))
    assert coordinator.state() == "CompleteCommit"


@pytest.mark.parametrize("version", [0, 2])
def test_while_markers_are_missing_requests_fail_with_concurrent_transactions(version: int) -> None:
    coordinator, producer = begun(version)
    _, following = coordinator.end(producer, commit=True, version=version)
    current = following if version == 2 else producer
    later = ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.end(producer, commit=True, version=version)[0] == later
    assert coordinator.add(current) == later
    assert coordinator.init()[0] == later
    assert coordinator.verify(current) == {later}


@pytest.mark.parametrize("commit", [True, False])
def test_protocol_2_answers_a_repeated_end_alike(commit: bool) -> None:
    coordinator, producer = begun()
    first = coordinator.end(producer, commit=commit)
    coordinator.write_markers()
    count = len(coordinator.log)
    assert coordinator.end(producer, commit=commit) == first
    assert coordinator.end(producer, commit=not commit)[0] == ErrorCode.INVALID_TXN_STATE
    assert len(coordinator.log) == count


def test_a_late_end_cannot_hit_the_next_transaction() -> None:
    coordinator, producer = begun()
    _, following = coordinator.end(producer, commit=True)
    coordinator.write_markers()
    coordinator.add(following)
    for commit in (True, False):
        assert coordinator.end(producer, commit=commit)[0] == ErrorCode.PRODUCER_FENCED
    assert coordinator.state() == "Ongoing"


def test_protocol_2_does_not_commit_what_is_not_open() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    assert coordinator.end(producer, commit=True)[0] == ErrorCode.INVALID_TXN_STATE
    coordinator.add(producer)
    _, following = coordinator.end(producer, commit=True)
    coordinator.write_markers()
    assert coordinator.end(following, commit=True)[0] == ErrorCode.INVALID_TXN_STATE


def test_protocol_2_aborts_what_is_not_open_at_once_and_bumps_the_epoch() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    assert coordinator.end((producer[0], -1), commit=False)[0] == ErrorCode.PRODUCER_FENCED
    error, following = coordinator.end(producer, commit=False)
    assert (error, following) == (OK, (producer[0], 1))
    assert coordinator.effects == []
    assert coordinator.logged_states() == [0, 3, 5]
    assert coordinator.of().start_ms == coordinator.clock.now_ms()
    assert coordinator.end(producer, commit=False) == (OK, following)
    assert coordinator.end(following, commit=False) == (OK, (producer[0], 2))


def test_protocol_1_keeps_the_epoch_and_repeats_an_end_while_it_stands() -> None:
    coordinator, producer = begun(version=0)
    assert coordinator.end(producer, commit=True, version=0) == (OK, (-1, -1))
    assert coordinator.effects[0].producer_epoch == producer[1]
    assert coordinator.effects[0].transaction_version == 0
    coordinator.write_markers()
    assert coordinator.end(producer, commit=True, version=0) == (OK, (-1, -1))
    assert coordinator.end(producer, commit=False, version=0)[0] == ErrorCode.INVALID_TXN_STATE
    assert coordinator.add(producer, version=0) == OK


def test_protocol_1_ends_nothing_that_is_not_open() -> None:
    coordinator = Coordinator(version=0)
    _, producer = coordinator.init()
    for commit in (True, False):
        assert coordinator.end(producer, commit=commit, version=0)[0] == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 2])
def test_only_the_producer_that_has_the_id_may_end_it(version: int) -> None:
    coordinator, producer = begun(version)
    mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end((producer[0] + 1, 0), commit=True, version=version)[0] == mapping
    assert coordinator.end(producer, commit=True, transactional_id="?", version=version)[0] == mapping
    for epoch in (producer[1] - 1, producer[1] + 1):
        fenced = coordinator.end((producer[0], epoch), commit=True, version=version)[0]
        assert fenced == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(producer, commit=True, transactional_id="", version=version)[0] == (
        ErrorCode.INVALID_REQUEST
    )


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    coordinator = Coordinator()
    producer = with_epoch(coordinator, EPOCH_MAX - 1)
    coordinator.add(producer)
    error, following = coordinator.end(producer, commit=True)
    assert (error, following[1]) == (OK, 0)
    assert following[0] != producer[0]
    (markers,) = coordinator.effects
    assert (markers.producer_id, markers.producer_epoch) == (producer[0], EPOCH_MAX)
    assert coordinator.add(following) == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.end(producer, commit=True) == (OK, following)
    assert coordinator.add(following) == OK
    assert coordinator.end(producer, commit=True)[0] == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_new_producer_id_is_not_lost_when_the_coordinator_moves() -> None:
    coordinator = Coordinator()
    producer = with_epoch(coordinator, EPOCH_MAX - 1)
    coordinator.add(producer)
    _, following = coordinator.end(producer, commit=True)
    coordinator.reload()
    coordinator.write_markers()
    assert coordinator.of().client == following
    coordinator.reload()
    assert coordinator.end(producer, commit=True) == (OK, following)


def test_without_producer_ids_the_last_epoch_cannot_end_yet() -> None:
    coordinator = Coordinator()
    producer = with_epoch(coordinator, EPOCH_MAX - 1)
    coordinator.add(producer)
    coordinator.has_producer_ids = False
    assert coordinator.end(producer, commit=True)[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.clock.value_ms += 10**9
    coordinator.run(coordinator.shard.abort_timed_out())
    assert coordinator.state() == "Ongoing"


@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(version: int) -> None:
    coordinator, producer = begun(version)
    coordinator.run(coordinator.shard.on_loaded())
    coordinator.clock.value_ms += 60_000
    coordinator.fire("timeouts")
    assert coordinator.state() == "Ongoing"
    coordinator.clock.value_ms += 1
    coordinator.fire("timeouts")
    assert coordinator.state() == "PrepareAbort"
    (markers,) = coordinator.effects
    assert (markers.producer_epoch, markers.is_commit) == (producer[1] + 1, False)
    coordinator.write_markers()
    assert coordinator.add(producer, version=version) == ErrorCode.PRODUCER_FENCED
    assert coordinator.verify(producer) == {ErrorCode.PRODUCER_FENCED}
    end = coordinator.end(producer, commit=True, version=version)[0]
    # By protocol 2 an epoch one below means "the end that was": it was another one.
    assert end == (ErrorCode.INVALID_TXN_STATE if version == 2 else ErrorCode.PRODUCER_FENCED)


def test_a_sweep_of_very_many_timeouts_goes_in_steps() -> None:
    coordinator = Coordinator()
    many = frozenset(("a-topic", index) for index in range(3000))
    for number in range(6):
        name = f"t{number}"
        _, producer = coordinator.init(name)
        coordinator.add(producer, many, name)
    coordinator.clock.value_ms += 10**6
    result = coordinator.shard.abort_timed_out()
    assert 0 < len(result.records) < 6
    coordinator.run(result)
    assert coordinator.timers[("timeouts",)].delay_ms == 0
    while coordinator.timers[("timeouts",)].delay_ms == 0:
        coordinator.fire("timeouts")
    assert {coordinator.state(f"t{number}") for number in range(6)} == {"PrepareAbort"}


def test_a_report_about_another_transaction_is_ignored() -> None:
    coordinator, producer = begun()
    _, following = coordinator.end(producer, commit=True)
    (old,) = coordinator.effects
    coordinator.write_markers()
    coordinator.add(following)
    coordinator.end(following, commit=False)
    coordinator.run(coordinator.shard.markers_written(old, old.partitions))
    assert coordinator.state() == "PrepareAbort"


def test_a_report_to_the_coordinator_before_is_ignored() -> None:
    coordinator, producer = begun()
    coordinator.end(producer, commit=True)
    (old,) = coordinator.effects
    coordinator.reload()
    coordinator.run(coordinator.shard.markers_written(old, old.partitions))
    assert coordinator.state() == "PrepareCommit"


def test_a_fenced_producer_is_not_taken_for_one_that_repeats_an_end_of_protocol_1() -> None:
    coordinator = Coordinator()
    _, fenced = coordinator.init()
    _, producer = coordinator.init()
    coordinator.add(producer, version=0)
    assert coordinator.end(producer, commit=True, version=0)[0] == OK
    coordinator.write_markers()
    assert coordinator.end(fenced, commit=True) == (ErrorCode.PRODUCER_FENCED, (-1, -1))
