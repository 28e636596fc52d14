"""Partitions of a transaction, loading, expiry, describing and listing."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.transactions.coordinator import IN_A, Coordinator

from ottla.coordinator.transactions.shard import Filter
from ottla.coordinator.transactions.states import FOLLOWING, IllegalTransition, State, Transaction
from ottla.wire.errors import ErrorCode

OK = ErrorCode.NONE


def test_the_first_partition_begins_the_transaction_and_later_ones_join_it() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    began_ms = coordinator.clock.now_ms()
    assert coordinator.add(producer) == OK
    coordinator.clock.value_ms += 5
    assert coordinator.add(producer, frozenset({("b", 3)})) == OK
    transaction = coordinator.of()
    assert transaction.partitions == IN_A | {("b", 3)}
    assert transaction.start_ms == began_ms
    assert transaction.updated_ms == began_ms + 5


def test_partitions_that_are_there_already_write_nothing() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    coordinator.add(producer)
    count = len(coordinator.log)
    assert coordinator.add(producer) == OK
    assert len(coordinator.log) == count


def test_only_the_producer_that_has_the_id_may_add_partitions() -> None:
    coordinator = Coordinator()
    assert coordinator.add((1, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    _, (producer_id, epoch) = coordinator.init()
    assert coordinator.add((producer_id + 1, epoch)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.add((producer_id, epoch + 1)) == ErrorCode.PRODUCER_FENCED


def test_a_broker_learns_which_partitions_are_in_the_transaction() -> None:
    coordinator = Coordinator()
    assert coordinator.verify((1, 0)) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    _, producer = coordinator.init()
    assert coordinator.verify(producer) == {ErrorCode.TRANSACTION_ABORTABLE}
    coordinator.add(producer)
    assert coordinator.verify(producer) == {OK}
    assert coordinator.verify(producer, IN_A | {("b", 0)}) == {OK, ErrorCode.TRANSACTION_ABORTABLE}
    assert coordinator.verify((producer[0], 9)) == {ErrorCode.PRODUCER_FENCED}


def test_a_load_sends_the_markers_of_what_was_decided_again() -> None:
    coordinator = Coordinator()
    for name, commit in (("committed", True), ("aborted", False), ("open", None)):
        _, producer = coordinator.init(name)
        coordinator.add(producer, transactional_id=name)
        if commit is not None:
            coordinator.end(producer, commit=commit, transactional_id=name)
    coordinator.reload()
    assert {(sent.transactional_id, sent.is_commit) for sent in coordinator.effects} == {
        ("committed", True),
        ("aborted", False),
    }
    assert {sent.coordinator_epoch for sent in coordinator.effects} == {1}
    coordinator.write_markers()
    assert coordinator.state("committed") == "CompleteCommit"
    assert coordinator.state("aborted") == "CompleteAbort"
    assert coordinator.state("open") == "Ongoing"


def test_a_prepared_transaction_without_partitions_is_completed_after_a_load() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    coordinator.end(producer, commit=False)
    del coordinator.log[-1]
    coordinator.reload()
    assert coordinator.state() == "PrepareAbort"
    coordinator.write_markers()
    assert coordinator.state() == "CompleteAbort"


def test_what_is_loaded_is_what_was_decided() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init()
    coordinator.add(producer)
    before = coordinator.of()
    coordinator.reload()
    assert coordinator.of() == before


def test_an_unused_transactional_id_expires() -> None:
    coordinator = Coordinator()
    coordinator.init("old")
    _, producer = coordinator.init("open")
    coordinator.add(producer, transactional_id="open")
    coordinator.clock.value_ms += coordinator.settings.id_expiration_ms - 1
    coordinator.run(coordinator.shard.on_loaded())
    coordinator.fire("expiry")
    assert set(coordinator.shard.transactions) == {"old", "open"}
    coordinator.clock.value_ms += 1
    coordinator.init("young")
    coordinator.fire("expiry")
    assert set(coordinator.shard.transactions) == {"open", "young"}
    assert coordinator.logged()[-1].value is None
    coordinator.reload()
    assert set(coordinator.shard.transactions) == {"open", "young"}


def test_an_expiry_of_very_many_ids_goes_in_steps() -> None:
    coordinator = Coordinator()
    for number in range(2000):
        coordinator.init(f"t{number}")
    coordinator.clock.value_ms += coordinator.settings.id_expiration_ms
    result = coordinator.shard.expire_ids()
    assert 0 < len(result.records) < 2000
    coordinator.run(result)
    while coordinator.timers[("expiry",)].delay_ms == 0:
        coordinator.fire("expiry")
    assert coordinator.shard.transactions == {}


def test_a_transaction_is_described() -> None:
    coordinator = Coordinator()
    _, producer = coordinator.init(timeout_ms=7000)
    coordinator.add(producer, frozenset({("b", 2), ("a", 1), ("b", 0)}))
    described = coordinator.shard.describe("t")
    assert described.error_code == 0
    assert (described.producer_id, described.producer_epoch) == producer
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", 7000)
    assert described.transaction_start_time_ms == coordinator.clock.now_ms()
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("a", [1]), ("b", [0, 2])]
    assert coordinator.shard.describe("?").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_transactions_are_listed_by_state_producer_duration_and_name() -> None:
    coordinator = Coordinator()
    coordinator.init("idle")
    _, first = coordinator.init("first")
    coordinator.add(first, transactional_id="first")
    coordinator.clock.value_ms += 1000
    _, second = coordinator.init("second")
    coordinator.add(second, transactional_id="second")

    def listed(wanted: Filter) -> list[str]:
        return [
            one.transactional_id for one in coordinator.shard.list(coordinator.shard.transactions, wanted)
        ]

    assert listed(Filter()) == ["idle", "first", "second"]
    assert listed(Filter(states=frozenset({State.ONGOING}))) == ["first", "second"]
    assert listed(Filter(states=frozenset())) == []
    assert listed(Filter(producer_ids=frozenset({first[0]}))) == ["first"]
    assert listed(Filter(states=frozenset({State.ONGOING}), duration_ms=999)) == ["first"]
    assert listed(Filter(states=frozenset({State.ONGOING}), duration_ms=1000)) == []
    assert [one.transactional_id for one in coordinator.shard.list(["second", "gone"], Filter())] == [
        "second"
    ]


def test_every_state_has_a_place_in_the_table_and_none_is_left_by_a_way_of_its_own() -> None:
    assert set(FOLLOWING) == set(State)
    for state in State:
        transaction = Transaction(
            transactional_id="t", producer_id=1, producer_epoch=0, timeout_ms=1, state=state
        )
        for following in State:
            if following in FOLLOWING[state]:
                assert transaction.moved(following).state is following
            else:
                with pytest.raises(IllegalTransition):
                    transaction.moved(following)
