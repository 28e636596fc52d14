"""A producer for tests that speaks both protocols of transactions, one request at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.unit.server.asking import Asking

from ottla.records.batch import iterate_headers
from ottla.records.record import Record, build_batch, read_batch
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

OLD_PRODUCE = 11  # the last version whose producers add partitions themselves
SECONDS_MAX = 120.0


def tries() -> Iterator[None]:
    """Ask again and again, until it has taken too long."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        yield


class TransactingProducer:
    """`version` 1 or 2: the protocol. Every method returns the error code, and keeps what it learned."""

    def __init__(
        self, port: int, transactional_id: str = "t", *, version: int = 2, timeout_ms: int = 60_000
    ) -> None:
        self.asking = Asking(port)
        self.transactional_id = transactional_id
        self.version = version
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def close(self) -> None:
        self.asking.socket.close()

    @property
    def identity(self) -> tuple[int, int]:
        return self.producer_id, self.epoch

    def find_coordinator(self) -> None:
        for key_type, key in ((1, self.transactional_id), (0, "g")):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            for _ in tries():
                if self.asking.ask(request, 4).coordinators[0].error_code == 0:
                    break
            else:
                raise AssertionError("there is no coordinator")

    def init_once(self, *, names_itself: bool = False) -> ErrorCode:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        if names_itself:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        response = self.asking.ask(request, 5)
        if response.error_code == 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()
        return ErrorCode(response.error_code)

    def init(self, *, names_itself: bool = False) -> TransactingProducer:
        """Until the coordinator is there, and the transaction before is ended."""
        self.find_coordinator()
        for _ in tries():
            code = self.init_once(names_itself=names_itself)
            if code == 0:
                return self
            assert code in (
                ErrorCode.CONCURRENT_TRANSACTIONS,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
            ), code
        raise AssertionError("the producer is never initialised")

    def add(self, *partitions: tuple[str, int], version: int = 3) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[index])
                for topic, index in partitions
            ],
        )
        response = self.asking.ask(request, version)
        (code,) = {
            one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        }
        return ErrorCode(code)

    def produce_once(self, topic: str, *values: bytes, partition: int = 0) -> Any:
        sequence = self.sequences.get((topic, partition), 0)
        response = self.asking.ask(self.produce_request(topic, partition, values), self.produce_version)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == 0:
            self.sequences[topic, partition] = sequence + len(values)
        return answer

    def produce(self, topic: str, *values: bytes, partition: int = 0) -> ErrorCode:
        """As clients do: while the transaction before is being ended, they try again."""
        for _ in tries():
            code = self.produce_once(topic, *values, partition=partition).error_code
            if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
        return ErrorCode(code)

    @property
    def produce_version(self) -> int:
        return 12 if self.version >= 2 else OLD_PRODUCE

    def produce_request(self, topic: str, partition: int, values: tuple[bytes, ...]) -> ProduceRequest:
        now_ms = int(time.time() * 1000)  # markers have the time of now: an older one would roll the segment
        batch = build_batch(
            [Record(0, now_ms, None, value) for value in values],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences.get((topic, partition), 0),
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=partition, records=memoryview(batch))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )

    def end_once(self, *, commit: bool) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        response = self.asking.ask(request, 5 if self.version >= 2 else 4)
        if response.error_code == 0 and self.version >= 2:
            if response.producer_epoch != self.epoch:
                self.sequences.clear()
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return ErrorCode(response.error_code)

    def end(self, *, commit: bool) -> ErrorCode:
        for _ in tries():
            code = self.end_once(commit=commit)
            if code not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
                break
        return code

    def commit_offset(self, group: str, topic: str, offset: int) -> ErrorCode:
        if self.version < 2:
            code = self.asking.ask(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.epoch,
                    group_id=group,
                ),
                3,
            ).error_code
            if code:
                return ErrorCode(code)
        return self.commit_offset_alone(group, topic, offset)

    def commit_offset_alone(self, group: str, topic: str, offset: int) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        response = self.asking.ask(request, 5 if self.version >= 2 else 3)
        return ErrorCode(response.topics[0].partitions[0].error_code)


def committed_offset(asking: Asking, group: str, topic: str) -> int:
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group,
                topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
            )
        ]
    )
    (group_answer,) = asking.ask(request, 8).groups
    assert group_answer.error_code == 0
    offset: int = group_answer.topics[0].partitions[0].committed_offset
    return offset


def committed_values(asking: Asking, topic: str, partition: int = 0) -> list[bytes | None]:
    """What a reader of committed records sees, as clients work it out."""
    wanted = FetchRequest.FetchPartition(
        partition=partition, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1
    )
    request = FetchRequest(
        isolation_level=1,
        max_wait_ms=0,
        max_bytes=1 << 20,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[wanted])],
    )
    answer = asking.ask(request, 12).responses[0].partitions[0]
    assert answer.error_code == 0
    aborted = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or [])
    dropped: set[int] = set()
    found: list[bytes | None] = []
    for position, header in iterate_headers(answer.records):
        while aborted and aborted[0][0] <= header.last_offset:
            dropped.add(aborted.pop(0)[1])
        if header.is_control:
            (marker,) = read_batch(answer.records, position, header)
            assert marker.key is not None
            if marker.key[3] == 0:
                dropped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in dropped):
            found += [one.value for one in read_batch(answer.records, position, header)]
    return found


def write_marker(
    asking: Asking, topic: str, identity: tuple[int, int], *, coordinator_epoch: int, version: int = 0
) -> ErrorCode:
    """An abort marker for partition 0, as an admin or a coordinator sends it."""
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=identity[0],
        producer_epoch=identity[1],
        transaction_result=False,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )
    (result,) = asking.ask(WriteTxnMarkersRequest(markers=[marker]), 2).markers
    return ErrorCode(result.topics[0].partitions[0].error_code)
