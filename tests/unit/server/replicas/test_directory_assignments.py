"""The controller learns the directory of each replica, and keeps it across a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.controller.topics import create_topics
from ottla.server.node import Node
from ottla.testing.broker import make_node
from ottla.wire.messages.create_topics import CreateTopicsRequest


async def _create(node: Node, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    await node.broker.quorum.submit(lambda state: create_topics(state, CreateTopicsRequest(topics=[topic])))


def _told(node: Node, name: str) -> list[bytes]:
    partitions = node.broker.image.topics_by_name[name].partitions
    return [registration.directories[0] for _, registration in sorted(partitions.items())]


def _actual(node: Node, name: str) -> list[bytes]:
    broker = node.broker
    logs = [broker.partitions.by_name[name][index].log for index in sorted(broker.partitions.by_name[name])]
    return [broker.directories.directory_id_of(log) for log in logs if log is not None]


async def _until_told(node: Node, name: str) -> None:
    while _told(node, name) != _actual(node, name):
        await asyncio.sleep(0.01)


def test_replicas_of_several_directories_are_reported(tmp_path: Path) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]

    async def main() -> None:
        node = make_node(paths[0], 0, {"log.dirs": ",".join(paths)})
        await node.start()
        await _create(node, "spread", 6)
        await asyncio.wait_for(_until_told(node, "spread"), 30)
        assert len(set(_told(node, "spread"))) == 2
        told = _told(node, "spread")
        await node.stop()
        node = make_node(paths[0], 0, {"log.dirs": ",".join(paths)})
        await node.start()
        assert _told(node, "spread") == told == _actual(node, "spread")
        await node.stop()

    asyncio.run(main())


def test_a_replica_that_moved_is_reported(tmp_path: Path) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]

    async def main() -> None:
        node = make_node(paths[0], 0, {"log.dirs": ",".join(paths)})
        await node.start()
        await _create(node, "moved", 1)
        await asyncio.wait_for(_until_told(node, "moved"), 30)
        before = _told(node, "moved")
        directories = node.broker.directories
        (target,) = [one.path for one in directories.directories if one.id != before[0]]
        directories.move("moved", 0, target)

        async def until_moved() -> None:
            while _told(node, "moved") == before:
                await asyncio.sleep(0.01)

        await asyncio.wait_for(until_moved(), 30)
        assert _told(node, "moved") == _actual(node, "moved")
        await node.stop()

    asyncio.run(main())
