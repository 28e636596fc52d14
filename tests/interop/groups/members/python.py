"""Members on kafka-python, which speaks the classic protocol.

Its rebalance callbacks run on the client's own loop while `poll` waits for them, so they are coroutines and
wait for their commit there.
"""

from __future__ import annotations

import os
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata

from tests.interop.groups.members.lines import At, ThreadMember, emit_offsets, emit_partitions, serve_threads

# A poll that ends while it waits for a rebalance set off by new metadata never looks at the answer (3.0.12):
# the member is stuck. With records a poll returns at once in any case.
_POLL_MS = 3000
_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class PythonMember(ThreadMember):
    def open(self) -> None:
        given = self.given
        config: dict[str, Any] = {}
        if given.get("assignor"):
            config["partition_assignment_strategy"] = [_ASSIGNORS[given["assignor"]]]
        self._consumer = KafkaConsumer(
            bootstrap_servers=given["bootstrap"],
            client_id=self.name,
            group_id=given["group"],
            group_instance_id=given.get("instance"),
            session_timeout_ms=given["session_ms"],
            heartbeat_interval_ms=given["heartbeat_ms"],
            max_poll_interval_ms=given["max_poll_ms"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
            fetch_max_wait_ms=200,
            **config,
        )
        pattern = given.get("pattern")
        topics = {"pattern": pattern} if pattern else {"topics": given["topics"]}
        self._consumer.subscribe(**topics, listener=_Listener(self))

    def poll(self) -> int:
        count = 0
        for where, records in self._consumer.poll(_POLL_MS).items():
            self.pending.delivered(At(where.topic, where.partition), [record.offset for record in records])
            count += len(records)
        return count

    def send_commit(self, offsets: dict[At, int]) -> None:
        self._consumer.commit(_named(offsets), timeout_ms=5000)

    async def commit_in_callback(self, partitions: list[At]) -> None:
        offsets = self.pending.of(partitions)
        if not offsets:
            return
        emit_offsets(self.name, "committing", offsets)
        try:
            await self._consumer.commit_async(_named(offsets))
        except Exception as error:  # noqa: BLE001 (whatever the client says is what the log is to show)
            emit_offsets(self.name, "commit_failed", offsets, error=repr(error))
        else:
            self.pending.committed(offsets)

    def close(self) -> None:
        self._consumer.close()


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: PythonMember) -> None:
        self._member = member

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        emit_partitions(self._member.name, "assigned", _ats(assigned))

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        gone = _ats(revoked)
        await self._member.commit_in_callback(gone)
        self._member.pending.forget(gone)
        emit_partitions(self._member.name, "revoked", gone)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._member.pending.forget(_ats(lost))
        emit_partitions(self._member.name, "lost", _ats(lost))


def _ats(partitions: set[TopicPartition]) -> list[At]:
    return [At(each.topic, each.partition) for each in partitions]


def _named(offsets: dict[At, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(at.topic, at.partition): OffsetAndMetadata(offset, "", -1)
        for at, offset in offsets.items()
    }


if __name__ == "__main__":
    serve_threads(PythonMember)
    os._exit(0)  # as a process that is taken away
