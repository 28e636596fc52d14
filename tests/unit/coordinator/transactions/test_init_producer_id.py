"""Who may use a transactional id."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.transactions.coordinator import FIRST_PRODUCER_ID, Coordinator

from ottla.coordinator.transactions.settings import TransactionSettings
from ottla.coordinator.transactions.states import EPOCH_MAX, NO_TIMEOUT_MS
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.transaction_records import TransactionLogValue

OK = ErrorCode.NONE


def with_epoch(coordinator: Coordinator, epoch: int) -> tuple[int, int]:
    """A producer whose epoch was bumped up to `epoch`."""
    _, (producer_id, _) = coordinator.init()
    transaction = coordinator.of()
    coordinator.shard.replay(
        transaction.initialised(
            producer_id, epoch, last_epoch=-1, timeout_ms=60_000, now_ms=transaction.updated_ms
        ).to_record(2)
    )
    return producer_id, epoch


def test_a_new_transactional_id_gets_a_producer_id_with_epoch_0() -> None:
    coordinator = Coordinator()
    assert coordinator.init() == (OK, (FIRST_PRODUCER_ID, 0))
    assert coordinator.state() == "Empty"
    assert coordinator.init("other") == (OK, (FIRST_PRODUCER_ID + 1, 0))


def test_the_record_is_the_one_that_kafka_writes() -> None:
    coordinator = Coordinator()
    coordinator.init(timeout_ms=5000)
    (record,) = coordinator.logged()
    assert record.version == 1
    value = record.value
    assert isinstance(value, TransactionLogValue)
    assert value.transaction_partitions is None
    assert (value.producer_id, value.previous_producer_id, value.next_producer_id) == (1000, 1000, -1)
    assert (value.transaction_timeout_ms, value.transaction_start_timestamp_ms) == (5000, -1)


def test_version_0_of_the_feature_writes_version_0_of_the_value() -> None:
    coordinator = Coordinator(version=0)
    coordinator.init()
    (record,) = coordinator.logged()
    assert record.version == 0


def test_the_next_producer_gets_the_next_epoch_and_the_older_one_is_fenced() -> None:
    coordinator = Coordinator()
    _, older = coordinator.init()
    assert coordinator.init() == (OK, (older[0], 1))
    assert coordinator.add(older) == ErrorCode.PRODUCER_FENCED
    assert coordinator.end(older, commit=False)[0] == ErrorCode.PRODUCER_FENCED
    assert coordinator.init(expected=older)[0] == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_says_its_epoch_gets_the_next_and_a_retry_the_same() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    assert coordinator.init(expected=producer) == (OK, (producer[0], 1))
    assert coordinator.init(expected=producer) == (OK, (producer[0], 1))
    assert coordinator.init(expected=(producer[0], 1)) == (OK, (producer[0], 2))
    assert coordinator.init(expected=producer)[0] == ErrorCode.PRODUCER_FENCED


def test_a_retry_with_the_epoch_before_is_fenced_once_another_producer_came() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    coordinator.init(expected=producer)
    coordinator.init()
    assert coordinator.init(expected=(producer[0], 1))[0] == ErrorCode.PRODUCER_FENCED


def test_another_producer_id_is_fenced() -> None:
    coordinator = Coordinator()
    coordinator.init()
    assert coordinator.init(expected=(77, 0))[0] == ErrorCode.PRODUCER_FENCED


def test_a_producer_that_is_not_known_any_more_gets_a_new_id() -> None:
    assert Coordinator().init(expected=(77, 3)) == (OK, (FIRST_PRODUCER_ID, 0))


@pytest.mark.parametrize("expected", [(-1, 3), (5, -1)])
def test_half_an_identity_is_refused(expected: tuple[int, int]) -> None:
    assert Coordinator().init(expected=expected)[0] == ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_refused() -> None:
    assert Coordinator().init("")[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds_is_refused(timeout_ms: int) -> None:
    coordinator = Coordinator()
    assert coordinator.init(timeout_ms=timeout_ms)[0] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.log == []


def test_an_exhausted_epoch_gives_a_new_producer_id() -> None:
    coordinator = Coordinator()
    producer_id, _ = with_epoch(coordinator, EPOCH_MAX - 1)
    error, (new_id, epoch) = coordinator.init()
    assert (error, epoch) == (OK, 0)
    assert new_id != producer_id
    assert coordinator.of().previous_producer_id == producer_id


def test_a_retry_of_the_request_that_exhausted_the_epochs_is_answered_alike() -> None:
    coordinator = Coordinator()
    producer = with_epoch(coordinator, EPOCH_MAX - 1)
    first = coordinator.init(expected=producer)
    assert first[1][1] == 0
    for _ in range(3):
        assert coordinator.init(expected=producer) == first


def test_the_last_epoch_that_a_client_gets_may_be_asked_for_again() -> None:
    """Kafka answers this retry with UNKNOWN_SERVER_ERROR, which no producer survives."""
    coordinator = Coordinator()
    producer = with_epoch(coordinator, EPOCH_MAX - 2)
    first = coordinator.init(expected=producer)
    assert first == (OK, (producer[0], EPOCH_MAX - 1))
    assert coordinator.init(expected=producer) == first


def test_without_producer_ids_the_client_has_to_retry() -> None:
    coordinator = Coordinator()
    coordinator.has_producer_ids = False
    assert coordinator.init()[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert coordinator.log == []
    coordinator.has_producer_ids = True
    assert coordinator.init()[0] == OK


def test_an_open_transaction_is_aborted_first_and_its_producer_fenced() -> None:
    coordinator = Coordinator()
    _, older = coordinator.init()
    coordinator.add(older)
    assert coordinator.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, (-1, -1))
    assert coordinator.state() == "PrepareAbort"
    assert coordinator.init()[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = coordinator.effects
    assert (markers.producer_epoch, markers.is_commit) == (older[1] + 1, False)
    coordinator.write_markers()
    assert coordinator.init() == (OK, (older[0], older[1] + 2))
    assert coordinator.add(older) == ErrorCode.PRODUCER_FENCED


def test_an_open_transaction_that_has_the_last_epoch_is_aborted_and_a_new_id_follows() -> None:
    coordinator = Coordinator()
    producer = with_epoch(coordinator, EPOCH_MAX - 1)
    coordinator.add(producer)
    assert coordinator.init()[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.effects[0].producer_epoch == EPOCH_MAX
    coordinator.write_markers()
    error, (producer_id, epoch) = coordinator.init()
    assert error == OK
    assert producer_id != producer[0]
    assert epoch == 1  # 0 is the one that nobody was told


def test_a_producer_may_abort_its_own_open_transaction_and_go_on() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    coordinator.add(producer)
    assert coordinator.init(expected=producer)[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    assert coordinator.init(expected=producer) == (OK, (producer[0], 1))


def test_a_fenced_producer_cannot_abort_the_transaction_of_its_successor() -> None:
    coordinator = Coordinator()
    _, zombie = coordinator.init()
    _, producer = coordinator.init()
    coordinator.add(producer)
    assert coordinator.init(expected=zombie)[0] == ErrorCode.PRODUCER_FENCED
    assert coordinator.state() == "Ongoing"


def test_two_phase_commit_is_refused_unless_it_is_turned_on() -> None:
    coordinator = Coordinator()
    assert coordinator.init(two_phase=True)[0] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert coordinator.init(keep=True)[0] == ErrorCode.UNSUPPORTED_VERSION


def two_phase_coordinator() -> Coordinator:
    return Coordinator(settings=TransactionSettings(is_two_phase_commit_enabled=True))


def test_a_producer_with_two_phase_commit_has_no_timeout() -> None:
    coordinator = two_phase_coordinator()
    _, producer = coordinator.init(two_phase=True, timeout_ms=0)
    assert coordinator.of().timeout_ms == NO_TIMEOUT_MS
    coordinator.add(producer)
    coordinator.clock.value_ms += 10**12
    coordinator.run(coordinator.shard.abort_timed_out())
    assert coordinator.state() == "Ongoing"


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("successors", [1, 3])
def test_a_prepared_transaction_outlives_its_producer_and_is_ended_by_its_successor(
    commit: bool, successors: int
) -> None:
    coordinator = two_phase_coordinator()
    _, writer = coordinator.init(two_phase=True)
    coordinator.add(writer)
    for _ in range(successors):
        error, successor = coordinator.init(two_phase=True, keep=True)
        assert error == OK
        ongoing = coordinator.last_response
        assert (ongoing.ongoing_txn_producer_id, ongoing.ongoing_txn_producer_epoch) == writer
        coordinator.reload()
    assert successor == (writer[0], writer[1] + successors)
    assert coordinator.end(writer, commit=commit)[0] == ErrorCode.PRODUCER_FENCED
    error, following = coordinator.end(successor, commit=commit)
    assert (error, following) == (OK, (writer[0], successor[1] + 1))
    (markers,) = coordinator.effects
    assert (markers.producer_epoch, markers.is_commit) == (writer[1] + 1, commit)
    coordinator.write_markers()
    assert coordinator.end(successor, commit=commit) == (OK, following)
    assert coordinator.add(following) == OK


def test_a_kept_transaction_takes_no_more_partitions() -> None:
    coordinator = two_phase_coordinator()
    _, writer = coordinator.init(two_phase=True)
    coordinator.add(writer)
    _, successor = coordinator.init(two_phase=True, keep=True)
    more = frozenset({("b", 0)})
    assert coordinator.add(successor, more) == ErrorCode.INVALID_TXN_STATE
    assert coordinator.add(writer, more) == ErrorCode.PRODUCER_FENCED
    assert coordinator.verify(successor) == {ErrorCode.INVALID_TXN_STATE}
    assert coordinator.verify(writer) == {ErrorCode.PRODUCER_FENCED}


def test_a_successor_that_keeps_nothing_aborts_a_kept_transaction() -> None:
    coordinator = two_phase_coordinator()
    _, writer = coordinator.init(two_phase=True)
    coordinator.add(writer)
    _, successor = coordinator.init(two_phase=True, keep=True)
    assert coordinator.init(two_phase=True)[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.effects[0].producer_epoch == writer[1] + 1
    coordinator.write_markers()
    assert coordinator.init(two_phase=True) == (OK, (writer[0], successor[1] + 2))


def test_keeping_what_is_not_there_is_an_ordinary_start() -> None:
    coordinator = two_phase_coordinator()
    assert coordinator.init(keep=True) == (OK, (FIRST_PRODUCER_ID, 0))
    assert coordinator.last_response.ongoing_txn_producer_id == -1
    assert coordinator.init(keep=True) == (OK, (FIRST_PRODUCER_ID, 1))


def test_a_kept_transaction_whose_epochs_run_out_is_ended_under_a_new_id() -> None:
    coordinator = two_phase_coordinator()
    writer = with_epoch(coordinator, EPOCH_MAX - 1)
    coordinator.add(writer)
    _, successor = coordinator.init(keep=True)
    assert successor[0] != writer[0]
    assert successor[1] == 0
    assert coordinator.end(successor, commit=True) == (OK, (successor[0], 1))
    coordinator.reload()
    (markers,) = coordinator.effects
    assert (markers.producer_id, markers.producer_epoch) == (writer[0], EPOCH_MAX)
    coordinator.write_markers()
    assert coordinator.of().client == (successor[0], 1)
