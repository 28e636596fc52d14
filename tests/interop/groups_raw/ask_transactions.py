"""Scripts of offsets that are committed in transactions: not seen before the end, and gone with an abort."""

from __future__ import annotations

from typing import Any

from tests.interop.groups_raw.ask_consumer import Modern
from tests.interop.groups_raw.ask_offsets import commit, everything
from tests.interop.groups_raw.conversation import Talk
from tests.interop.groups_raw.members import stable_pair
from tests.interop.groups_raw.scripts import script
from tests.interop.peers import wait_until

UNSTABLE_OFFSET_COMMIT = 88
ENDED = ("CompleteCommit", "CompleteAbort", "Empty")
NEW_KIND = 5  # from this version of TxnOffsetCommit and EndTxn on, groups join a transaction by themselves


class Transaction:
    """A producer with a transactional id; it speaks the old or the new kind, as TxnOffsetCommit does."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.name = talk.name("transaction")
        self.is_new = talk.version_of("TxnOffsetCommit") >= NEW_KIND
        fields = {"transactional_id": self.name, "transaction_timeout_ms": 60_000}
        response: Any = None

        def given() -> bool:
            nonlocal response
            response = talk.hears("InitProducerId", **fields)
            return bool(response.error_code == 0)

        wait_until(given, 20, "a producer id")
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def _owner(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def add_group(self) -> None:
        """Only the old kind has to say which groups take part."""
        if not self.is_new:
            self.talk.says("AddOffsetsToTxn", **self._owner(), group_id=self.talk.group)

    def commit(self, offsets: dict[str, dict[int, int]], **fields: Any) -> Any:
        metadata = fields.pop("metadata", "in a transaction")
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": offset,
                        "committed_leader_epoch": 0,
                        "committed_metadata": metadata,
                    }
                    for index, offset in partitions.items()
                ],
            }
            for topic, partitions in offsets.items()
        ]
        asked = {**self._owner(), "group_id": self.talk.group, "topics": topics, **fields}
        return self.talk.says("TxnOffsetCommit", **asked)

    def end(self, *, committed: bool) -> None:
        version = NEW_KIND if self.is_new else NEW_KIND - 1
        response = self.talk.quietly("EndTxn", version, **self._owner(), committed=committed)
        self.talk.note("EndTxn", response.error_code)
        if self.is_new and response.error_code == 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def wait_settled(self) -> None:
        """Wait until the end of the transaction has come to the group."""

        topics = [
            {"name": topic, "partition_indexes": list(range(count))}
            for topic, count in (("alpha", 3), ("beta", 2))
        ]

        def settled() -> bool:
            [state] = self.talk.hears(
                "DescribeTransactions", transactional_ids=[self.name]
            ).transaction_states
            if state.transaction_state not in ENDED:
                return False
            groups = [{"group_id": self.talk.group, "topics": topics}]
            [answer] = self.talk.quietly("OffsetFetch", 9, groups=groups, require_stable=True).groups
            return all(
                row.error_code != UNSTABLE_OFFSET_COMMIT
                for topic in answer.topics
                for row in topic.partitions
            )

        wait_until(settled, 20, "the offsets to be stable")


def fetched(talk: Talk, partitions: dict[str, list[int]]) -> None:
    """The offsets, with and without waiting for what is not decided."""
    rows = [{"name": topic, "partition_indexes": indexes} for topic, indexes in partitions.items()]
    grouped = [{**row, "topic_id": talk.known_id(str(row["name"]))} for row in rows]
    groups = [{"group_id": talk.group, "topics": grouped}]
    for require_stable in (False, True):
        asked = {"group_id": talk.group, "topics": rows, "groups": groups}
        talk.says("OffsetFetch", **asked, require_stable=require_stable)
    everything(talk)


@script("TxnOffsetCommit")
@script("OffsetFetch", "AddOffsetsToTxn")
def offsets_of_a_transaction_that_is_committed(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    commit(talk, {"alpha": {0: 1, 2: 3}})
    transaction = Transaction(talk)
    transaction.add_group()
    transaction.commit({"alpha": {0: 5, 1: 6}, "beta": {0: 7}})
    fetched(talk, {"alpha": [0, 1, 2], "beta": [0, 1]})
    transaction.commit({"alpha": {0: 8}})
    transaction.end(committed=True)
    transaction.wait_settled()
    fetched(talk, {"alpha": [0, 1, 2], "beta": [0, 1]})
    transaction.add_group()
    transaction.commit({"alpha": {1: 60}})
    transaction.end(committed=True)
    transaction.wait_settled()
    everything(talk)


@script("TxnOffsetCommit")
def offsets_of_a_transaction_that_is_aborted(talk: Talk) -> None:
    talk.topics(alpha=3, beta=2)
    commit(talk, {"alpha": {0: 1}})
    transaction = Transaction(talk)
    transaction.add_group()
    transaction.commit({"alpha": {0: 5, 1: 6}})
    fetched(talk, {"alpha": [0, 1, 2]})
    commit(talk, {"alpha": {0: 2, 1: 3}})
    fetched(talk, {"alpha": [0, 1, 2]})
    transaction.end(committed=False)
    transaction.wait_settled()
    fetched(talk, {"alpha": [0, 1, 2]})


@script("TxnOffsetCommit")
def a_group_that_only_a_transaction_knows(talk: Talk) -> None:
    talk.topics(alpha=3)
    transaction = Transaction(talk)
    transaction.add_group()
    transaction.commit({"alpha": {0: 5}})
    talk.says("DescribeGroups", groups=[talk.group])
    talk.says("ListGroups")
    topics = [{"name": "alpha", "partitions": [{"partition_index": 0}]}]
    talk.says("OffsetDelete", group_id=talk.group, topics=topics)
    fetched(talk, {"alpha": [0]})
    transaction.end(committed=True)
    transaction.wait_settled()
    fetched(talk, {"alpha": [0]})
    talk.says("ListGroups")


@script("TxnOffsetCommit", "DeleteGroups")
def a_group_is_deleted_while_a_transaction_is_open(talk: Talk) -> None:
    talk.topics(alpha=3)
    commit(talk, {"alpha": {0: 1}})
    transaction = Transaction(talk)
    transaction.add_group()
    transaction.commit({"alpha": {0: 5, 1: 6}})
    talk.says("DeleteGroups", groups_names=[talk.group])
    fetched(talk, {"alpha": [0, 1]})
    transaction.end(committed=True)
    transaction.wait_settled()
    everything(talk)
    talk.says("ListGroups")


@script("TxnOffsetCommit")
def commits_in_a_transaction_that_are_refused(talk: Talk) -> None:
    talk.topics(alpha=3)
    transaction = Transaction(talk)
    if not transaction.is_new:
        transaction.commit({"alpha": {0: 5}})  # the group was not added
        everything(talk)
    transaction.add_group()
    transaction.commit({"alpha": {0: 5}}, producer_epoch=transaction.epoch + 1)
    transaction.commit({"alpha": {0: 5}}, producer_id=transaction.producer_id + 1_000_000)
    transaction.commit({"alpha": {0: 5}}, transactional_id=talk.name("another"))
    transaction.commit({"alpha": {0: 5, 7: 1}, "missing": {0: 1}})
    transaction.commit({"alpha": {0: 6, 1: 1}}, metadata="x" * 5000)
    transaction.commit({"alpha": {0: 7}}, group_id="")
    transaction.commit({"alpha": {0: -7}})
    transaction.commit({})
    fetched(talk, {"alpha": [0, 1]})
    transaction.end(committed=True)
    transaction.wait_settled()
    fetched(talk, {"alpha": [0, 1]})
    if transaction.epoch > 0:
        transaction.commit({"alpha": {0: 9}}, producer_epoch=transaction.epoch - 1)


@script("TxnOffsetCommit", first=3)
def commits_of_members_in_a_transaction(talk: Talk) -> None:
    talk.topics(alpha=3)
    leader, _ = stable_pair(talk)
    transaction = Transaction(talk)
    transaction.add_group()
    right = {"member_id": leader.id, "generation_id": leader.generation}
    transaction.commit({"alpha": {0: 5}}, **right)
    transaction.commit({"alpha": {0: 6}}, **{**right, "generation_id": leader.generation + 1})
    transaction.commit({"alpha": {0: 7}}, **{**right, "member_id": "unknown"})
    transaction.commit({"alpha": {0: 8}}, **right, group_instance_id="unknown")
    transaction.commit({"alpha": {0: 9}})
    transaction.end(committed=True)
    transaction.wait_settled()
    everything(talk)


@script("TxnOffsetCommit", first=3)
def commits_of_members_of_the_consumer_protocol_in_a_transaction(talk: Talk) -> None:
    talk.topics(alpha=3)
    member = Modern(talk, "A")
    member.join()
    member.acknowledge()
    transaction = Transaction(talk)
    transaction.add_group()
    right = {"member_id": member.id, "generation_id": member.epoch}
    transaction.commit({"alpha": {0: 5}}, **right)
    transaction.commit({"alpha": {0: 6}}, **{**right, "generation_id": member.epoch + 1})
    transaction.commit({"alpha": {0: 7}}, **{**right, "generation_id": member.epoch - 1})
    transaction.commit({"alpha": {0: 8}}, **{**right, "member_id": "unknown"})
    transaction.commit({"alpha": {0: 9}})
    transaction.end(committed=True)
    transaction.wait_settled()
    everything(talk)


@script("OffsetFetch", newest_only=True)
def offsets_go_with_their_topic(talk: Talk) -> None:
    talk.topics(alpha=3)
    name = talk.create("short-lived", partitions=2)
    commit(talk, {"alpha": {0: 1}, name: {0: 2, 1: 3}})
    everything(talk)
    rows = [{"name": name, "topic_id": bytes(16)}]
    talk.quietly("DeleteTopics", 6, topics=rows, timeout_ms=20_000)

    def gone() -> bool:
        groups = [{"group_id": talk.group, "topics": None}]
        return len(talk.quietly("OffsetFetch", 9, groups=groups).groups[0].topics) == 1

    wait_until(gone, 20, f"the offsets of {name} to be gone")
    everything(talk)
