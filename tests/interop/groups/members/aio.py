"""Members on aiokafka, which speaks the classic protocol and rebalances eagerly.

It calls nobody back when it is stopped, so a closing member says itself that it gives its partitions up. Its
callbacks run beside the member's own loop, so a commit that is under way is waited for before partitions go.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.interop.groups.members.lines import At, Pending, emit, emit_offsets, emit_partitions, log_to_stderr

_ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AioMember(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.name: str = given["member"]
        self.commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        self._pending = Pending(self.name)
        self._owned: set[At] = set()
        self._is_closing = False
        self._committing = asyncio.Lock()

    async def run(self) -> None:
        try:
            await self._open()
            await self._serve()
        except BaseException as error:
            traceback.print_exc()
            emit(self.name, "error", error=repr(error))
            raise

    async def _open(self) -> None:
        given = self.given
        config: dict[str, Any] = {}
        if given.get("assignor"):
            config["partition_assignment_strategy"] = [_ASSIGNORS[given["assignor"]]]
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=given["bootstrap"],
            client_id=self.name,
            group_id=given["group"],
            group_instance_id=given.get("instance"),
            session_timeout_ms=given["session_ms"],
            heartbeat_interval_ms=given["heartbeat_ms"],
            max_poll_interval_ms=given["max_poll_ms"],
            rebalance_timeout_ms=given["max_poll_ms"],
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,
            fetch_max_wait_ms=200,
            **config,
        )
        pattern = given.get("pattern")
        if pattern:
            self._consumer.subscribe(pattern=pattern, listener=self)
        else:
            self._consumer.subscribe(topics=given["topics"], listener=self)
        await self._consumer.start()

    async def _serve(self) -> None:
        uncommitted = pause_ms = 0
        commit_every: int = self.given["commit_every"]
        while True:
            if not self.commands.empty():
                command = self.commands.get_nowait()
                if command["op"] == "close":
                    break
                pause_ms = command["ms"]
            count = await self._poll()
            uncommitted += count
            if pause_ms and count:
                emit(self.name, "paused")
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = 0
                emit(self.name, "resumed")
                uncommitted = commit_every
            if uncommitted >= commit_every:
                uncommitted = 0
                async with self._committing:
                    await self._commit(None)
        await self._close()

    async def _poll(self) -> int:
        count = 0
        for where, records in (await self._consumer.getmany(timeout_ms=100)).items():
            self._pending.delivered(At(where.topic, where.partition), [record.offset for record in records])
            count += len(records)
        return count

    async def _commit(self, partitions: list[At] | None) -> None:
        offsets = self._pending.of(partitions)
        if not offsets:
            return
        emit_offsets(self.name, "committing", offsets)
        named = {TopicPartition(at.topic, at.partition): offset for at, offset in offsets.items()}
        try:
            await self._consumer.commit(named)
        except Exception as error:  # noqa: BLE001 (whatever the client says is what the log is to show)
            emit_offsets(self.name, "commit_failed", offsets, error=repr(error))
        else:
            self._pending.committed(offsets)

    async def _close(self) -> None:
        async with self._committing:
            await self._commit(None)
            self._is_closing = True
            emit_partitions(self.name, "revoked", self._owned)
        await self._consumer.stop()
        emit(self.name, "closed")

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        if not self._is_closing:
            self._owned = _ats(assigned)
            emit_partitions(self.name, "assigned", self._owned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        async with self._committing:
            if not self._is_closing:
                await self._commit(list(_ats(revoked)))
                self._pending.forget(_ats(revoked))
                self._owned = set()
                emit_partitions(self.name, "revoked", _ats(revoked))


def _ats(partitions: set[TopicPartition]) -> set[At]:
    return {At(each.topic, each.partition) for each in partitions}


async def _obey() -> None:
    log_to_stderr()
    members: dict[str, AioMember] = {}
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        command = json.loads(line)
        if command["op"] == "start":
            member = members[command["member"]] = AioMember(command)
            member.task = asyncio.create_task(member.run())
        else:
            members[command["member"]].commands.put_nowait(command)


async def _obey_and_end() -> None:
    await _obey()
    os._exit(0)  # as a process that is taken away: tasks are not to be cancelled and heard out


if __name__ == "__main__":
    asyncio.run(_obey_and_end())
