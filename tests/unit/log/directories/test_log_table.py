"""The tables of logs, and their counts."""

from __future__ import annotations

from pathlib import Path

from tests.unit.log.node_support import TOPIC_ID, Node, run

from ottla.log.directories.log_directories import LogDirectories


def counted(directories: LogDirectories) -> list[int]:
    return [
        directories.logs.counts[directory.path] + directories.futures.counts[directory.path]
        for directory in directories.directories
    ]


def by_topic(directories: LogDirectories) -> dict[str, list[int]]:
    return {topic: sorted(logs) for topic, logs in directories.logs.by_topic.items()}


def test_the_logs_of_a_topic_are_those_in_the_table(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def test() -> None:
        directories = await node.start()
        for topic, index in (("orders", 1), ("users", 0), ("orders", 0)):
            directories.create(topic, index, TOPIC_ID)
        assert by_topic(directories) == {"orders": [0, 1], "users": [0]}
        directories.move("orders", 0, node.paths[1])
        assert len(directories.hosted.logs_of("orders")) == len(directories.hosted.futures) + 2
        await directories.delete([("orders", 0), ("users", 0)])
        assert by_topic(directories) == {"orders": [1]}
        assert not directories.hosted.logs_of("users")
        await node.stop(directories)
        assert by_topic(directories) == {}

    run(test)


def test_the_counts_are_those_of_the_logs_whatever_happens_to_them(tmp_path: Path) -> None:
    node = Node(tmp_path)

    async def test() -> None:
        directories = await node.start()
        for index in range(5):
            directories.create("orders", index, TOPIC_ID)
        assert counted(directories) == [3, 2]
        directories.move("orders", 0, node.paths[1])
        assert counted(directories) == [3, 3]
        while await directories.copy_futures():
            pass
        assert counted(directories) == [2, 3]
        await directories.delete([("orders", 0), ("orders", 1)])
        assert counted(directories) == [2, 1]
        directories.take_offline(directories.directories[1], OSError("gone"))
        assert counted(directories) == [2, 0]
        await node.stop(directories)
        assert counted(directories) == [0, 0]
        again = await node.start()
        assert counted(again) == [len(again.hosted.logs_in(directory)) for directory in again.directories]
        await node.stop(again)

    run(test)
