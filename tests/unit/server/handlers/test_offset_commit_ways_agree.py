"""Two nodes get the same commits, sound, damaged and hostile, one of them without the fast path.

The answers and their order, the log, the offsets, the groups and the timers are the same: also where members
are fenced, replicas are behind, the disk fails or the connection is lost in between.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.log.support import FakeClock, FaultyDisk
from tests.unit.server.handlers.support import LISTENER, broker_of, connection_of, host_log, image_of

from ottla.coordinator.groups.classic.group import ClassicGroup, ClassicState
from ottla.coordinator.groups.classic.member import ClassicMember
from ottla.coordinator.groups.consumer.group import ConsumerGroup
from ottla.coordinator.groups.consumer.member import ConsumerMember
from ottla.log.config import LogConfig
from ottla.server.broker import GROUPS_TOPIC
from ottla.server.handlers import HANDLERS
from ottla.server.handlers.offset_commit_fast_path import CommitExpress
from ottla.server.net.connection import Connection
from ottla.server.net.dispatch import Dispatcher
from ottla.wire.frame import request_frame
from ottla.wire.messages.offset_commit import OffsetCommitRequest

TOPICS = {"news": 3, "sport": 1}
GROUPS = ("simple", "classic", "consumer", "none")
MEMBERS = ("", "m1", "m2", "other")
STATES = (ClassicState.STABLE, ClassicState.PREPARING, ClassicState.COMPLETING, ClassicState.EMPTY)


class _Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_open = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        self.is_open = False


class _Side:
    """A coordinator with one partition, behind two connections."""

    def __init__(self, directory: Path, *, is_quick: bool) -> None:
        self.disk = FaultyDisk()
        self.clock = FakeClock()
        image = image_of(1, **{GROUPS_TOPIC: 1}, **TOPICS)
        self.broker = broker_of(image, {"offset.metadata.max.bytes": "5"}, self.clock)
        self.log = host_log(self.broker, self.disk, str(directory), GROUPS_TOPIC)
        partition = self.broker.partitions.get(GROUPS_TOPIC, 0)
        assert partition is not None
        self.partition = partition
        self.broker.groups.start()
        self.dispatcher = Dispatcher(self.broker, HANDLERS, LISTENER, "broker")
        if not is_quick:
            self.dispatcher._takes.clear()
        self.connections: list[tuple[Connection, _Wire]] = []
        self.connect()
        self.connect()
        shard = self.broker.groups.coordinator.active(0).shard
        members = [_classic_member("m1", None), _classic_member("m2", "i2")]
        classic = ClassicGroup(
            "classic", state=ClassicState.STABLE, generation=3, protocol_type="consumer", members=members
        )
        consumer = ConsumerGroup("consumer")
        news = image.topics_by_name["news"].id
        consumer.put_member(ConsumerMember("m1", epoch=3, assigned={news: {0: 2, 1: 3}}))
        shard.groups.update({"classic": classic, "consumer": consumer})

    def connect(self) -> None:
        connection, wire = connection_of(clock=self.clock), _Wire()
        connection.connection_made(wire)  # type: ignore[arg-type]
        self.connections.append((connection, wire))

    def send(self, number: int, frame: bytes) -> None:
        connection = self.connections[number][0]
        if connection.is_closed:
            return
        self.dispatcher.dispatch(connection, memoryview(bytearray(frame)))

    def change(self, step: tuple[Any, ...]) -> None:
        match step:
            case "state", state, generation:
                active = self.broker.groups.coordinator.loaded_one(0)
                group = None if active is None else active.shard.groups.get("classic")
                if isinstance(group, ClassicGroup):
                    group.state, group.generation = state, generation
            case "replicas", count:
                self.partition.min_insync_replicas = count
            case "isr", isr:
                self.partition.isr = list(isr)
            case ("advance",):
                self.log.advance_high_watermark(self.log.log_end_offset)
                self.partition.growth.notify()
            case "leader", is_leader:
                self.partition.is_leader = is_leader
            case "size", most:
                self.log.reconfigure(LogConfig(max_message_bytes=most))
            case "clock", step_ms:
                self.clock.time_ms += step_ms
            case "fault", code:
                self.disk.fault = lambda asked, path: (
                    code if asked == "write" and path.endswith(".log") else 0
                )
            case ("break",):
                active = self.broker.groups.coordinator.loaded_one(0)
                if active is not None:
                    active.shard.offsets.store.put = _broken  # type: ignore[method-assign]
            case "lose", number:
                self.connections[number][0].connection_lost(None)
                self.connections[number] = self.connections[-1]
                self.connect()
                self.connections[number] = self.connections.pop()

    def state(self) -> dict[str, Any]:
        active = self.broker.groups.coordinator.loaded_one(0)
        return {
            "answers": [(wire.written, wire.is_open) for _, wire in self.connections],
            "waiting": [len(connection._queue) for connection, _ in self.connections],
            "log": [segment.file.pread(1 << 20, 0)[: segment.size_bytes] for segment in self.log.segments],
            "end": self.log.log_end_offset,
            "offsets": None if active is None else active.shard.offsets.store.committed,
            "groups": None if active is None else list(active.shard.groups),
            "timers": None if active is None else list(active._timers._timers),
        }

    def close(self) -> None:
        self.disk.heal()
        self.broker.groups.close()
        self.log.close(clean=False)
        self.disk.close()


def _broken(*_arguments: object) -> None:
    raise ValueError("as asked for")


def _classic_member(member_id: str, instance_id: str | None) -> ClassicMember:
    return ClassicMember(
        member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=45_000,
        protocols=(("range", b""),),
    )


@st.composite
def _commits(draw: st.DrawFn) -> tuple[str, int, bytes]:
    version = draw(st.sampled_from([7, 8, 9, 9, 9, 10, 10]))
    image = image_of(1, **TOPICS)
    topics = []
    for name in draw(st.lists(st.sampled_from(["news", "news", "sport", "unknown"]), min_size=1, max_size=3)):
        known = image.topics_by_name.get(name)
        asked = [
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=draw(st.sampled_from([0, 0, 0, 1, 2, -1, 3])),
                committed_offset=draw(st.sampled_from([0, 1, 2**40, 2**63 - 1, -1])),
                committed_leader_epoch=draw(st.sampled_from([-1, 0, 7])),
                committed_metadata=draw(st.sampled_from(["", "", "", "", None, "m", "long one"])),
            )
            for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3, 0])))
        ]
        topics.append(
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name if version < 10 else "",
                topic_id=bytes(16) if version < 10 else (b"?" * 16 if known is None else known.id),
                partitions=asked,
            )
        )
    request = OffsetCommitRequest(
        group_id=draw(st.sampled_from(GROUPS)),
        generation_id_or_member_epoch=draw(st.sampled_from([-1, -1, 3, 3, 2, 4, 0])),
        member_id=draw(st.sampled_from(MEMBERS)),
        group_instance_id=draw(st.sampled_from([None, None, None, "i2", ""])),
        topics=topics,
    )
    client = draw(st.sampled_from(["test", "test", None, ""]))
    frame = request_frame(request, version, draw(st.integers(0, 9)), client)[4:]
    bend = draw(st.integers(0, 9))
    if bend == 0:
        bent = bytearray(frame)
        bent[draw(st.integers(8, len(bent) - 1))] = draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 255]))
        frame = bytes(bent)
    elif bend == 1:
        frame = frame[: draw(st.integers(8, len(frame)))] if draw(st.booleans()) else frame + b"\0"
    return "commit", draw(st.integers(0, 1)), frame


_changes = st.one_of(
    st.tuples(st.just("state"), st.sampled_from(STATES), st.sampled_from([3, 4])),
    st.tuples(st.just("replicas"), st.integers(1, 2)),
    st.tuples(st.just("isr"), st.sampled_from([(1,), (1, 2)])),
    st.tuples(st.just("advance")),
    st.tuples(st.just("leader"), st.booleans()),
    st.tuples(st.just("size"), st.sampled_from([100, 180, 300, 1 << 20])),
    st.tuples(st.just("clock"), st.integers(-2000, 5000)),
    st.tuples(st.just("fault"), st.sampled_from([0, 5, 28])),
    st.tuples(st.just("break")),
    st.tuples(st.just("lose"), st.integers(0, 1)),
)


def _plain(version: int = 9, group: str = "simple", member: str = "", epoch: int = -1) -> bytes:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=42)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="news" if version < 10 else "",
        topic_id=bytes(16) if version < 10 else image_of(1, **TOPICS).topics_by_name["news"].id,
        partitions=[partition],
    )
    request = OffsetCommitRequest(
        group_id=group, member_id=member, generation_id_or_member_epoch=epoch, topics=[topic]
    )
    return request_frame(request, version, 1, "test")[4:]


_commit = _plain()


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.one_of(_commits(), _commits(), _commits(), _commits(), st.just(("turn",)), _changes),
        min_size=1,
        max_size=14,
    )
)
@example(  # the disk fails for two connections' commits in one batch, one of them lost by then
    steps=[("commit", 0, _commit), ("commit", 1, _commit), ("fault", 28), ("lose", 1), ("turn",)]
)
@example(steps=[("isr", (1, 2)), ("commit", 0, _commit), ("turn",), ("commit", 0, _commit), ("advance",)])
@example(steps=[("commit", 0, _commit), ("break",), ("commit", 0, _commit), ("commit", 1, _commit)])
@example(steps=[("size", 180), ("commit", 0, _commit), ("commit", 1, _commit), ("turn",)])
def test_two_coordinators_agree_whatever_is_committed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    directory = tmp_path_factory.mktemp("ways")

    async def run() -> None:
        sides = [_Side(directory / str(quick), is_quick=quick) for quick in (True, False)]
        try:
            for step in [*steps, ("turn",)]:
                if step[0] == "turn":
                    for _ in range(5):
                        await asyncio.sleep(0)
                    quick, general = (side.state() for side in sides)
                    assert quick == general
                for side in sides:
                    if step[0] == "commit":
                        side.send(*step[1:])
                    else:
                        side.change(step)
        finally:
            for side in sides:
                side.close()

    asyncio.run(run())


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize(
    ("group", "member", "epoch"),
    [("simple", "", -1), ("classic", "m1", 3), ("consumer", "m1", 3), ("consumer", "m1", 2)],
)
def test_the_usual_commit_takes_the_fast_path(
    tmp_path: Path, version: int, group: str, member: str, epoch: int
) -> None:
    async def run() -> None:
        side = _Side(tmp_path / "side", is_quick=True)
        try:
            if version >= 9 or group != "consumer":
                take = CommitExpress(side.broker).take
                assert take(side.connections[0][0], memoryview(_plain(version, group, member, epoch)))
        finally:
            side.close()

    asyncio.run(run())


def test_commits_of_one_turn_are_one_batch(tmp_path: Path) -> None:
    async def run() -> None:
        side = _Side(tmp_path / "side", is_quick=True)
        try:
            writes = len(side.disk.operations)
            for number in (0, 1, 0, 1, 0):
                side.send(number, _commit)
            for _ in range(5):
                await asyncio.sleep(0)
            assert side.log.log_end_offset == 5
            assert [op for op, _ in side.disk.operations[writes:]].count("write") == 1
            assert side.state()["waiting"] == [0, 0]
        finally:
            side.close()

    asyncio.run(run())
