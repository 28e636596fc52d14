"""Transactions over the wire by both protocols, and the holes that were found in them, each with a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.asking import Asking
from tests.unit.server.coordinators.transaction_support import (
    TransactingProducer,
    committed_offset,
    committed_values,
    tries,
    write_marker,
)

from ottla.testing import Broker
from ottla.wire.errors import ErrorCode
from ottla.wire.message import Message
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest

OK = ErrorCode.NONE
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(SETTINGS, data_directory=tmp_path) as started:
        with Asking(started.port) as asking:
            asking.create_topic("a", partitions=2)
        yield started


def producer_of(broker: Broker, name: str = "t", **options: int) -> TransactingProducer:
    return TransactingProducer(broker.port, name, **options).init()


def seen(broker: Broker, topic: str = "a", partition: int = 0) -> list[bytes | None]:
    with Asking(broker.port) as asking:
        return committed_values(asking, topic, partition)


def state_of(broker: Broker, name: str = "t") -> str:
    with Asking(broker.port) as asking:
        (found,) = asking.ask(DescribeTransactionsRequest(transactional_ids=[name]), 0).transaction_states
        state: str = found.transaction_state
        return state


def wait_for_state(broker: Broker, wanted: str, name: str = "t") -> None:
    for _ in tries():
        if state_of(broker, name) == wanted:
            return
    raise AssertionError(f"{name} is {state_of(broker, name)}, not {wanted}")


def begin(producer: TransactingProducer, *values: bytes, partition: int = 0) -> None:
    if producer.version < 2:
        assert producer.add(("a", partition)) in (OK, ErrorCode.CONCURRENT_TRANSACTIONS)
        while producer.add(("a", partition)) != OK:
            pass
    assert producer.produce("a", *values, partition=partition) == OK


@pytest.mark.parametrize("version", [1, 2])
def test_readers_see_all_of_a_committed_transaction_and_nothing_of_an_aborted_one(
    broker: Broker, version: int
) -> None:
    producer = producer_of(broker, version=version)
    for number, commit in enumerate((True, False, True, False, True)):
        for partition in (0, 1):
            begin(producer, b"%d" % number, partition=partition)
        assert producer.end(commit=commit) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == seen(broker, partition=1) == [b"0", b"2", b"4"]
    producer.close()


@pytest.mark.parametrize("version", [1, 2])
def test_an_open_transaction_is_not_seen(broker: Broker, version: int) -> None:
    producer = producer_of(broker, version=version)
    begin(producer, b"1")
    assert seen(broker) == []
    producer.close()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_hold_once_their_transaction_is_committed(broker: Broker, version: int, commit: bool) -> None:
    producer = producer_of(broker, version=version)
    assert producer.commit_offset("g", "a", 42) == OK
    with Asking(broker.port) as asking:
        assert committed_offset(asking, "g", "a") == -1
        assert producer.end(commit=commit) == OK
        wait_for_state(broker, "CompleteCommit" if commit else "CompleteAbort")
        assert committed_offset(asking, "g", "a") == (42 if commit else -1)
    producer.close()


def test_offsets_of_a_producer_that_added_no_group_are_refused(broker: Broker) -> None:
    producer = producer_of(broker, version=1)
    assert producer.commit_offset_alone("g", "a", 42) == ErrorCode.INVALID_TXN_STATE
    producer.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_second_producer_fences_the_first_and_aborts_what_it_left_open(
    broker: Broker, version: int
) -> None:
    first = producer_of(broker, version=version)
    begin(first, b"left")
    second = producer_of(broker, version=version)
    assert first.produce("a", b"zombie") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(commit=True) == ErrorCode.PRODUCER_FENCED
    begin(second, b"new")
    assert second.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == [b"new"]
    first.close()
    second.close()


def test_a_writer_of_protocol_1_must_have_added_its_partition(broker: Broker) -> None:
    producer = producer_of(broker, version=1)
    assert producer.produce("a", b"1") == ErrorCode.TRANSACTION_ABORTABLE
    assert producer.add(("a", 0)) == OK
    assert producer.produce("a", b"1") == OK
    assert producer.produce("a", b"1", partition=1) == ErrorCode.TRANSACTION_ABORTABLE
    producer.close()


def test_several_connections_may_write_in_one_transaction(broker: Broker) -> None:
    driver = producer_of(broker)
    workers = []
    for partition in (0, 1):
        worker = TransactingProducer(broker.port)
        worker.producer_id, worker.epoch = driver.identity
        assert worker.produce("a", b"part %d" % partition, partition=partition) == OK
        workers.append(worker)
    assert driver.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == [b"part 0"]
    assert seen(broker, partition=1) == [b"part 1"]
    for one in (driver, *workers):
        one.close()


def test_batches_that_come_while_the_first_is_verified_keep_their_order(broker: Broker) -> None:
    producer = producer_of(broker)
    begin(producer, b"before")
    assert producer.end_once(commit=True) == OK  # so that the next has to wait for its markers
    requests = []
    for number in range(5):
        requests.append(producer.produce_request("a", number % 2, (b"%d" % number,)))
        producer.sequences["a", number % 2] = producer.sequences.get(("a", number % 2), 0) + 1
    for request in requests:
        producer.asking.send(request, 12)
    for request in requests:
        response = producer.asking.receive(request, 12)
        assert response.responses[0].partition_responses[0].error_code == OK
    assert producer.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == [b"before", b"0", b"2", b"4"]
    assert seen(broker, partition=1) == [b"1", b"3"]
    producer.close()


# ---- the known holes


def test_a_batch_that_comes_after_the_end_of_its_transaction_is_refused(broker: Broker) -> None:
    producer = producer_of(broker)
    begin(producer, b"1")
    late = TransactingProducer(broker.port)
    late.producer_id, late.epoch = producer.identity
    late.sequences["a", 0] = 1
    assert producer.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert late.produce("a", b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert late.produce("a", b"late", partition=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert seen(broker) == [b"1"]
    producer.close()
    late.close()


def test_a_batch_of_protocol_1_that_comes_after_the_end_opens_no_hanging_transaction(broker: Broker) -> None:
    producer = producer_of(broker, version=1)
    begin(producer, b"1")
    assert producer.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert producer.produce("a", b"late") == ErrorCode.TRANSACTION_ABORTABLE
    with Asking(broker.port) as asking:
        asking.produce("a", [b"plain"])
    assert seen(broker) == [b"1", b"plain"]
    producer.close()


def test_an_end_that_comes_twice_is_answered_alike_and_does_not_end_the_next_transaction(
    broker: Broker,
) -> None:
    producer = producer_of(broker)
    begin(producer, b"1")
    late = TransactingProducer(broker.port)
    late.producer_id, late.epoch = producer.identity
    assert producer.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert late.end(commit=True) == OK
    assert late.identity == producer.identity
    late.epoch -= 1
    begin(producer, b"2")
    assert late.end(commit=False) == ErrorCode.PRODUCER_FENCED
    assert late.end(commit=True) == ErrorCode.PRODUCER_FENCED
    assert seen(broker) == [b"1"]
    assert producer.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == [b"1", b"2"]
    producer.close()
    late.close()


def test_a_zombies_marker_is_refused(broker: Broker) -> None:
    producer = producer_of(broker)
    begin(producer, b"1")
    with Asking(broker.port) as asking:
        stale = (producer.producer_id, producer.epoch)
        # By protocol 2 a marker has an epoch that nothing was written with.
        assert (
            write_marker(asking, "a", stale, coordinator_epoch=0, version=2)
            == ErrorCode.INVALID_PRODUCER_EPOCH
        )
        assert producer.end(commit=True) == OK
        wait_for_state(broker, "CompleteCommit")
        begin(producer, b"2")
        assert write_marker(asking, "a", stale, coordinator_epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
        zombie = (producer.producer_id, producer.epoch)
        assert (
            write_marker(asking, "a", zombie, coordinator_epoch=-1)
            == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        )
    assert producer.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == [b"1", b"2"]
    producer.close()


def test_a_hanging_transaction_can_be_aborted_by_an_admin(broker: Broker) -> None:
    producer = producer_of(broker)
    begin(producer, b"1")
    with Asking(broker.port) as asking:
        assert write_marker(asking, "a", producer.identity, coordinator_epoch=0) == OK
        asking.produce("a", [b"plain"])
    assert seen(broker) == [b"plain"]
    producer.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_producer_whose_time_is_up_is_fenced_and_its_transaction_aborted(
    broker: Broker, version: int
) -> None:
    producer = producer_of(broker, version=version, timeout_ms=1)
    if version < 2:
        assert producer.add(("a", 0)) == OK
    # The first records may come too late already.
    assert producer.produce("a", b"1") in (OK, ErrorCode.INVALID_PRODUCER_EPOCH)
    for _ in tries():
        if state_of(broker) == "CompleteAbort":
            break
    assert state_of(broker) == "CompleteAbort"
    refused = producer.produce("a", b"2")
    assert refused == ErrorCode.INVALID_PRODUCER_EPOCH
    expected = ErrorCode.INVALID_TXN_STATE if version == 2 else ErrorCode.PRODUCER_FENCED
    assert producer.end(commit=True) == expected
    assert seen(broker) == []
    producer.close()


def test_nothing_is_told_to_be_an_unknown_error_while_a_transaction_ends(broker: Broker) -> None:
    producer = producer_of(broker)
    for number in range(20):
        begin(producer, b"%d" % number)
        codes = {producer.end_once(commit=True), producer.end_once(commit=False)}
        codes.add(producer.init_once())
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes
        producer.init()
    producer.close()


# ---- lost answers


class LosingAsking(Asking):
    """Loses the answer to one request, and asks again on a new connection, as clients do."""

    def __init__(self, port: int, lost: int) -> None:
        super().__init__(port)
        self._port = port
        self._lost = lost
        self.count = 0

    def ask(self, message: Message, version: int) -> Any:
        self.count += 1
        if self.count == self._lost:
            self.send(message, version)
            self.socket.close()
            self.socket = Asking(self._port).socket
        return super().ask(message, version)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_lost_answer_at_any_step_changes_nothing(broker: Broker, version: int, commit: bool) -> None:
    producer_of(broker).close()  # so that the coordinators are there, and the steps are the same each time
    expected: list[bytes | None] = []
    lost = count = 1
    while lost <= count:
        producer = TransactingProducer(broker.port, f"t{lost}", version=version)
        producer.asking.socket.close()
        producer.asking = asking = LosingAsking(broker.port, lost)
        producer.init()
        value = b"%d" % lost
        begin(producer, value)
        assert producer.commit_offset("g", "a", lost) == OK
        assert producer.end(commit=commit) == OK
        begin(producer, value + b"+")
        assert producer.end(commit=True) == OK
        expected += [value, value + b"+"] if commit else [value + b"+"]
        wait_for_state(broker, "CompleteCommit", f"t{lost}")
        producer.close()
        count = max(count, asking.count)
        lost += 1
    assert count >= 7
    assert seen(broker) == expected


# ---- restarts


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_was_decided_before_a_restart_is_finished_after_it(broker: Broker, commit: bool) -> None:
    producer = producer_of(broker)
    begin(producer, b"1")
    assert producer.end_once(commit=commit) == OK
    producer.close()
    broker.stop()
    broker.start()
    producer = TransactingProducer(broker.port).init()
    assert seen(broker) == ([b"1"] if commit else [])
    begin(producer, b"2")
    assert producer.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == ([b"1", b"2"] if commit else [b"2"])
    producer.close()


def test_an_open_transaction_outlives_a_restart(broker: Broker) -> None:
    producer = producer_of(broker)
    begin(producer, b"1")
    producer.close()
    broker.stop()
    broker.start()
    again = TransactingProducer(broker.port)
    again.find_coordinator()
    again.producer_id, again.epoch = producer.identity
    again.sequences = producer.sequences
    assert again.produce("a", b"2") == OK
    assert again.end(commit=True) == OK
    wait_for_state(broker, "CompleteCommit")
    assert seen(broker) == [b"1", b"2"]
    again.close()


# ---- admins and brokers


def test_transactions_are_listed_and_described(broker: Broker) -> None:
    producers = [producer_of(broker, name) for name in ("one", "two")]
    begin(producers[1], b"1")
    with Asking(broker.port) as asking:

        def listed(version: int = 2, **fields: object) -> list[tuple[str, str]]:
            response = asking.ask(ListTransactionsRequest(**fields), version)  # type: ignore[arg-type]
            assert response.error_code == 0
            return sorted(
                (one.transactional_id, one.transaction_state) for one in response.transaction_states
            )

        assert listed() == [("one", "Empty"), ("two", "Ongoing")]
        assert listed(state_filters=["Ongoing"]) == [("two", "Ongoing")]
        assert listed(producer_id_filters=[producers[0].producer_id]) == [("one", "Empty")]
        assert listed(transactional_id_pattern="t.*") == [("two", "Ongoing")]
        unknown = asking.ask(ListTransactionsRequest(state_filters=["Odd"]), 0)
        assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Odd"], [])
        bad = asking.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
        assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        found = asking.ask(
            DescribeTransactionsRequest(transactional_ids=["two", "?", ""]), 0
        ).transaction_states
        assert [one.error_code for one in found] == [
            OK,
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            ErrorCode.INVALID_REQUEST,
        ]
        assert [(one.topic, one.partitions) for one in found[0].topics] == [("a", [0])]
    for one in producers:
        one.close()


def test_brokers_verify_and_add_partitions_of_several_transactions_at_once(broker: Broker) -> None:
    producers = [producer_of(broker, name) for name in ("one", "two")]

    def asked(verify_only: bool) -> list[list[int]]:
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=one.transactional_id,
                    producer_id=one.producer_id,
                    producer_epoch=one.epoch,
                    verify_only=verify_only,
                    topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="a", partitions=[0, 1])],
                )
                for one in producers
            ]
        )
        response = producers[0].asking.ask(request, 5)
        assert [one.transactional_id for one in response.results_by_transaction] == ["one", "two"]
        return [
            [partition.partition_error_code for partition in one.topic_results[0].results_by_partition]
            for one in response.results_by_transaction
        ]

    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert asked(verify_only=True) == [[abortable, abortable], [abortable, abortable]]
    assert asked(verify_only=False) == [[OK, OK], [OK, OK]]
    assert asked(verify_only=True) == [[OK, OK], [OK, OK]]
    for one in producers:
        one.close()


def test_a_partition_that_does_not_exist_fails_the_whole_request(broker: Broker) -> None:
    producer = producer_of(broker, version=1)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="a", partitions=[0, 9]),
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=[0]),
        ],
    )
    response = producer.asking.ask(request, 3)
    assert [
        one.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for one in topic.results_by_partition
    ] == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ]
    assert state_of(broker) == "Empty"
    producer.close()


def test_old_clients_know_a_fenced_producer_by_another_code(broker: Broker) -> None:
    producer = producer_of(broker, version=1)
    producer_of(broker, version=1).close()
    assert producer.add(("a", 0), version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.add(("a", 0), version=2) == ErrorCode.PRODUCER_FENCED
    producer.close()


# ---- two-phase commit


def init_two_phase(asking: Asking, *, keep: bool = False) -> Any:
    request = InitProducerIdRequest(transactional_id="t", enable2_pc=True, keep_prepared_txn=keep)
    for _ in tries():
        response = asking.ask(request, 6)
        if response.error_code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            return response
    raise AssertionError("the producer is never initialised")


def test_two_phase_commit_is_not_offered_unless_it_is_turned_on(broker: Broker) -> None:
    with Asking(broker.port) as asking:
        offered = {one.api_key: one.max_version for one in asking.ask(ApiVersionsRequest(), 0).api_keys}
        assert offered[22] == 5
        asking.send(InitProducerIdRequest(transactional_id="t"), 6)
        with pytest.raises(EOFError):
            asking.receive_frame()


def test_a_prepared_transaction_outlives_its_producer_and_the_node(tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "unstable.api.versions.enable": "true",
        "transaction.two.phase.commit.enable": "true",
    }
    with Broker(settings, data_directory=tmp_path) as broker:
        writer = TransactingProducer(broker.port)
        writer.asking.create_topic("a")
        writer.find_coordinator()
        given = init_two_phase(writer.asking)
        writer.producer_id, writer.epoch = given.producer_id, given.producer_epoch
        begin(writer, b"1")
        writer.close()
        broker.stop()
        broker.start()
        successor = TransactingProducer(broker.port)
        successor.find_coordinator()
        given = init_two_phase(successor.asking, keep=True)
        assert given.error_code == 0
        assert (given.ongoing_txn_producer_id, given.ongoing_txn_producer_epoch) == writer.identity
        assert seen(broker) == []
        successor.producer_id, successor.epoch = given.producer_id, given.producer_epoch
        assert successor.end(commit=True) == OK
        wait_for_state(broker, "CompleteCommit")
        assert seen(broker) == [b"1"]
        begin(successor, b"2")
        assert successor.end(commit=True) == OK
        wait_for_state(broker, "CompleteCommit")
        assert seen(broker) == [b"1", b"2"]
        successor.close()
