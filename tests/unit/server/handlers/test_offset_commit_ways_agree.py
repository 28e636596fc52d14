"""Two nodes get the same commits, sound, damaged and hostile, one of them without the fast path.

The answers and their order, the log, the offsets, the groups and the timers are the same: also where members
are fenced, replicas are behind, the disk fails or the connection is lost in between.
"""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.server.handlers.support import image_of
from tests.unit.server.handlers.two_ways import TOPICS, Side

from ottla.coordinator.groups.classic.group import ClassicState
from ottla.server.handlers.offset_commit_fast_path import CommitFastPath
from ottla.wire.frame import request_frame
from ottla.wire.messages.offset_commit import OffsetCommitRequest

GROUPS = ("simple", "classic", "consumer", "none")
MEMBERS = ("", "m1", "m2", "other")
STATES = (ClassicState.STABLE, ClassicState.PREPARING, ClassicState.COMPLETING, ClassicState.EMPTY)


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
        sides = [Side(directory / str(quick), is_quick=quick) for quick in (True, False)]
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
        side = Side(tmp_path / "side", is_quick=True)
        try:
            if version >= 9 or group != "consumer":
                take = CommitFastPath(side.broker).take
                frame = memoryview(_plain(version, group, member, epoch))
                assert take(side.connections[0][0], frame, version, 7)
        finally:
            side.close()

    asyncio.run(run())


def test_commits_of_one_turn_are_one_batch(tmp_path: Path) -> None:
    async def run() -> None:
        side = Side(tmp_path / "side", is_quick=True)
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


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_commit_leaves_nothing_to_the_collector(tmp_path: Path, is_quick: bool) -> None:
    async def run() -> None:
        side = Side(tmp_path / "side", is_quick=is_quick)
        side.change(("isr", (1, 2)))
        try:
            for count in range(20):
                if count == 10:  # what is made once has been made
                    gc.collect(0)
                side.send(0, _commit)
                for _ in range(5):
                    await asyncio.sleep(0)
                side.change(("advance",))
            assert side.state()["waiting"] == [0, 0]
            assert gc.collect(0) == 0
        finally:
            side.close()

    gc.disable()
    try:
        asyncio.run(run())
    finally:
        gc.enable()
