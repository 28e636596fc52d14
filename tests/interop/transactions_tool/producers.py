"""A transactional producer by raw requests, of both protocols, that writes the same bytes on every broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.interop.clients.same.batches import BASE_TIME_MS, Entry, batch
from tests.interop.groups_raw.conversation import Talk
from tests.interop.peers import wait_until

TRANSACTIONAL = 0x10
TIMEOUT_MS = 600_000
ENDED = ("CompleteCommit", "CompleteAbort", "Empty")
CONCURRENT_TRANSACTIONS = 51
# The newest versions of protocol 1.
OLD_PRODUCE, OLD_END, ADD_PARTITIONS, ADD_OFFSETS = 11, 4, 3, 4
# The versions of protocol 2 that still name topics.
NEW_PRODUCE, NEW_END = 12, 5


class Producer:
    """One transactional id. `is_new` speaks protocol 2; its records are an hour old."""

    def __init__(self, talk: Talk, name: str, *, is_new: bool = True) -> None:
        self.talk = talk
        self.name = name
        self.is_new = is_new
        self.producer_id = self.epoch = -1
        self._sequences: dict[tuple[str, int], int] = {}

    def init(self) -> Producer:
        """Get the id, whatever was open before: that is aborted first."""
        response: Any = None

        def given() -> bool:
            nonlocal response
            response = self.talk.quietly(
                "InitProducerId", 5, transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS
            )
            return bool(response.error_code == 0)

        wait_until(given, 30, f"a producer id for {self.name}", pause_s=0.1)
        self._now_is(response.producer_id, response.producer_epoch)
        return self

    def _now_is(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences.clear()

    def _owner(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add(self, **partitions: list[int]) -> None:
        """Protocol 1: say what will be written to."""
        owner = {f"v3_and_below_{name}": value for name, value in self._owner().items()}
        topics = [{"name": topic, "partitions": indexes} for topic, indexes in partitions.items()]

        def added() -> bool:
            response = self.talk.quietly(
                "AddPartitionsToTxn", ADD_PARTITIONS, **owner, v3_and_below_topics=topics
            )
            codes = {
                row.partition_error_code
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
            }
            assert codes <= {0, CONCURRENT_TRANSACTIONS}, codes
            return codes == {0}

        wait_until(added, 30, "the partitions to be added")

    def write(self, topic: str, index: int, count: int = 3, *, values: Sequence[bytes] = ()) -> int:
        """The offset of the first record. Protocol 1 does not add the partition by this."""
        values = values or [b"%d" % number for number in range(count)]
        count = len(values)
        key = (topic, index)
        sequence = self._sequences.get(key, 0)
        self._sequences[key] = sequence + count
        records = batch(
            [Entry(value=value, delta_ms=number) for number, value in enumerate(values)],
            attributes=TRANSACTIONAL,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            sequence=sequence,
            base_time_ms=BASE_TIME_MS,
        )
        rows = [{"index": index, "records": memoryview(records)}]
        response = self.talk.quietly(
            "Produce",
            NEW_PRODUCE if self.is_new else OLD_PRODUCE,
            transactional_id=self.name,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[{"name": topic, "partition_data": rows}],
        )
        written = response.responses[0].partition_responses[0]
        assert written.error_code == 0, written
        return int(written.base_offset)

    def commit_offset(self, group: str, topic: str, offset: int) -> None:
        if not self.is_new:
            added = self.talk.quietly("AddOffsetsToTxn", ADD_OFFSETS, **self._owner(), group_id=group)
            assert added.error_code == 0, added
        rows = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
        response = self.talk.quietly(
            "TxnOffsetCommit",
            5 if self.is_new else 4,
            **self._owner(),
            group_id=group,
            topics=[{"name": topic, "partitions": rows}],
        )
        assert response.topics[0].partitions[0].error_code == 0, response

    def end(self, *, committed: bool, is_awaited: bool = True) -> None:
        """Commit or abort, and wait until every partition has its marker unless that is not wanted."""
        response = self.talk.quietly(
            "EndTxn", NEW_END if self.is_new else OLD_END, **self._owner(), committed=committed
        )
        assert response.error_code == 0, response
        if self.is_new:
            self._now_is(response.producer_id, response.producer_epoch)
        if is_awaited:
            self.wait_settled()

    def state(self) -> str:
        [row] = self.talk.hears("DescribeTransactions", transactional_ids=[self.name]).transaction_states
        return str(row.transaction_state)

    def wait_settled(self) -> None:
        wait_until(lambda: self.state() in ENDED, 30, f"the transaction of {self.name} to end")
