"""Many partitions at once: they are applied in slices, with other work in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.unit.log.support import append, batch

from ottla.config import development_config
from ottla.controller.topics import create_topics, delete_topics
from ottla.coordinator.slices import Job
from ottla.host import HostClock, HostDisk, HostNetwork, HostRandom
from ottla.log.directories.log_directories import LogDirectories
from ottla.server.node import Node
from ottla.server.replicas.partition import Partition
from ottla.server.replicas.reconciler import AT_ONCE_MAX
from ottla.server.replicas.replication import Replication
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

_T = TypeVar("_T")

MANY = AT_ONCE_MAX + 20


class HeldSlices:
    """Long jobs that run when a test says so, one after the other."""

    def __init__(self) -> None:
        self.jobs: list[Job[Any]] = []

    def start(
        self,
        steps: Generator[None, None, _T],
        on_done: Callable[[_T], None],
        on_error: Callable[[Exception], None],
    ) -> Job[_T]:
        job = Job(steps, on_done, on_error)
        self.jobs.append(job)
        return job

    def go_on(self, count: int) -> None:
        """Run this many steps, or the rest of the first job."""
        for _ in range(count):
            try:
                next(self.jobs[0].steps)
            except StopIteration as end:
                self.jobs.pop(0).on_done(end.value)
                return


def run(directory: Path, story: Callable[[Node], Awaitable[None]]) -> None:
    async def live() -> None:
        node = Node(
            development_config(data_directory=str(directory), port=0),
            clock=HostClock(),
            random=HostRandom(),
            disk=HostDisk(),
            network=HostNetwork(),
        )
        await node.start()
        try:
            await story(node)
        finally:
            await node.stop()

    asyncio.run(asyncio.wait_for(live(), 120))


def create(node: Node, topic: str, partitions: int) -> Awaitable[Any]:
    wanted = CreateTopicsRequest.CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted])
    return node.broker.quorum.submit(lambda state: create_topics(state, request))


def delete(node: Node, topic: str) -> Awaitable[Any]:
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=topic)])
    return node.broker.quorum.submit(lambda state: delete_topics(state, request, 6))


def hold(node: Node) -> HeldSlices:
    held: Any = HeldSlices()
    node.broker._slices = held
    return held  # type: ignore[no-any-return]


def files(directory: Path, topic: str) -> tuple[int, int]:
    """The directories of a topic: (served, to be deleted)."""
    names = [one.name for one in directory.iterdir() if one.name.startswith(f"{topic}-")]
    return sum(not one.endswith("-delete") for one in names), sum(one.endswith("-delete") for one in names)


def hosted(node: Node, topic: str) -> int:
    return len(node.broker.partitions.by_name.get(topic, {}))


def test_a_small_topic_exists_when_its_creation_is_answered(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        await create(node, "small", AT_ONCE_MAX)
        assert hosted(node, "small") == AT_ONCE_MAX
        assert node.broker.applied_offset == node.broker.image.offset

    run(tmp_path, story)


def test_a_large_topic_is_applied_in_steps_reported_by_heartbeats(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        broker, held, before = node.broker, hold(node), node.broker.image.offset
        await create(node, "large", MANY)
        assert hosted(node, "large") == 0
        held.go_on(10)
        assert hosted(node, "large") == 10
        assert before <= broker.applied_offset < broker.image.offset
        drained = asyncio.ensure_future(broker.replicas.drained()) if broker.replicas else None
        held.go_on(MANY)
        assert hosted(node, "large") == MANY
        assert broker.applied_offset == broker.image.offset
        assert all(one.is_leader for one in broker.partitions)
        assert drained is not None
        await drained

    run(tmp_path, story)


def test_a_small_change_does_not_wait_behind_a_large_one(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        held = hold(node)
        await create(node, "large", MANY)
        await create(node, "small", 3)
        assert (hosted(node, "small"), hosted(node, "large")) == (3, 0)
        held.go_on(MANY + 1)
        assert hosted(node, "large") == MANY

    run(tmp_path, story)


def test_a_topic_deleted_during_its_creation_can_be_recreated(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        held = hold(node)
        await create(node, "large", MANY)
        held.go_on(50)
        await delete(node, "large")
        assert hosted(node, "large") == 0
        await create(node, "large", MANY + 1)
        held.go_on(2 * MANY + 2)
        assert hosted(node, "large") == MANY + 1
        assert {one.topic_id for one in node.broker.partitions} == {
            node.broker.image.topics_by_name["large"].id
        }

    run(tmp_path, story)


def test_files_of_a_large_topic_are_removed_in_steps(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        held = hold(node)
        await create(node, "large", MANY)
        held.go_on(MANY + 1)
        await delete(node, "large")
        assert hosted(node, "large") == 0
        assert files(tmp_path, "large") == (MANY, 0)
        held.go_on(10)
        assert files(tmp_path, "large") == (MANY - 10, 10)
        held.go_on(MANY)
        assert files(tmp_path, "large") == (0, MANY)

    run(tmp_path, story)


def test_the_files_of_many_small_topics_that_are_deleted_together_leave_by_and_by(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        held = hold(node)
        names = [f"topic-{index}" for index in range(MANY)]
        for name in names:
            await create(node, name, 1)
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequest.DeleteTopicState(name=one) for one in names]
        )
        await node.broker.quorum.submit(lambda state: delete_topics(state, request, 6))
        assert not any(hosted(node, name) for name in names)
        held.go_on(10)
        assert files(tmp_path, "topic") == (MANY - 10, 10)
        held.go_on(MANY)
        assert files(tmp_path, "topic") == (0, MANY)

    run(tmp_path, story)


def test_a_recreated_partition_gets_a_new_log(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        held = hold(node)
        await create(node, "large", MANY)
        held.go_on(MANY + 1)
        before = {one.index: one.log for one in node.broker.partitions}
        await delete(node, "large")
        held.go_on(5)
        await create(node, "large", 7)  # while most of the old files still exist
        assert hosted(node, "large") == 7
        for one in node.broker.partitions:
            assert one.log is not None
            assert one.log is not before[one.index]
        held.go_on(MANY)
        assert files(tmp_path, "large") == (7, MANY)

    run(tmp_path, story)


def test_pending_removals_complete_before_the_node_stops(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        held = hold(node)
        await create(node, "large", MANY)
        held.go_on(MANY + 1)
        await delete(node, "large")

    run(tmp_path, story)
    assert files(tmp_path, "large") == (0, MANY)


def test_a_starting_node_hosts_its_partitions_before_it_serves(tmp_path: Path) -> None:
    async def fill(node: Node) -> None:
        await create(node, "large", MANY)

    async def look(node: Node) -> None:
        assert hosted(node, "large") == MANY
        assert all(one.is_leader and one.log is not None for one in node.broker.partitions)

    run(tmp_path, fill)
    run(tmp_path, look)


@pytest.mark.parametrize("step", ["follow", "lead"])
def test_a_failed_new_epoch_is_applied_by_the_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    done: list[Partition] = []

    def fail_once(*_: object) -> None:
        monkeypatch.setattr(Replication, step, lambda _, partition, *rest: done.append(partition))
        raise RuntimeError("on purpose")

    async def story(node: Node) -> None:
        await create(node, "topic", 1)
        partition = node.broker.partitions.get("topic", 0)
        replicas = node.broker.replicas
        assert partition is not None
        assert replicas is not None
        woken: list[bool] = []

        def wake() -> bool:
            woken.append(True)
            return False

        partition.growth.add(wake)
        monkeypatch.setattr(Replication, step, fail_once)
        registration = node.broker.image.topics_by_name["topic"].partitions[0]
        registration = registration._replace(leader_epoch=registration.leader_epoch + 1)
        if step == "follow":
            registration = registration._replace(leader=2)
        node.broker.image.topics_by_name["topic"].partitions[0] = registration
        replicas._apply_partitions(node.broker.image, {(partition.topic_id, 0): False})
        assert (done, woken) == ([], [])
        replicas.apply_failed()
        assert (done, woken) == ([partition], [True])
        replicas.apply_failed()
        assert done == [partition]

    run(tmp_path, story)


def test_a_failed_removal_does_not_block_other_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(node: Node) -> None:
        await create(node, "topic", 3)

        def fail(*_: object) -> None:
            raise RuntimeError("on purpose")

        monkeypatch.setattr(Replication, "leave", fail)
        await delete(node, "topic")
        assert hosted(node, "topic") == 0
        assert files(tmp_path, "topic") == (0, 3)
        monkeypatch.setattr(LogDirectories, "detach", fail)
        await create(node, "other", 1)
        await delete(node, "other")
        assert hosted(node, "other") == 0
        assert node.failures.counts["end of hosting", "topic-2"] == 1
        assert node.failures.counts["removal of logs", ""] == 1
        assert node.failures.counts["metadata", ""] == 0
        monkeypatch.undo()

    run(tmp_path, story)


def test_an_epoch_begun_during_a_truncation_is_stored_after_it(tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        await create(node, "orders", 1)
        hosted = node.broker.partitions.get("orders", 0)
        assert hosted is not None
        log = hosted.log
        assert log is not None
        for _ in range(4):
            append(log, batch(), leader_epoch=hosted.leader_epoch)
        cutting = asyncio.ensure_future(node.broker.directories.truncate_to(log, 2))
        await asyncio.sleep(0)
        assert log.truncations_pending
        topic = node.broker.image.topics[hosted.topic_id]
        registration = topic.partitions[0]._replace(leader_epoch=9, partition_epoch=9)
        assert node._replicas is not None
        node._replicas._apply_partition(topic, 0, registration, is_new=False)
        assert (hosted.is_leader, log.epochs.latest_epoch) == (True, 0)
        await cutting
        assert log.end_offset_for_epoch(9) == (9, 2)
        assert log.epochs.latest_epoch == 9

    run(tmp_path, story)
