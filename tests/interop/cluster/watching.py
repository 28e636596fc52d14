"""The leaders and the visible ends of logs, polled from every node and read from the logs.

Rule of all checks: a partition has one leader per epoch, in the metadata log and in the nodes' responses; and
no later leader shows readers less than an earlier one did.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from ottla.controller.image import ClusterImage
from ottla.controller.records import decode_record
from ottla.raft.metadata_log import batches_of
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest
from tests.interop import peers
from tests.interop.cluster.nodes import CONTROLLERS, SECONDS_MAX, Five

PAUSE_S = 0.2
ASK_SECONDS = 5.0
Place = tuple[str, int]


class Watch(threading.Thread):
    """Polls each node for the partitions it leads and for their end offsets."""

    def __init__(self, five: Five, topics: Iterable[str]) -> None:
        super().__init__(daemon=True)
        self._five = five
        self._topics = list(topics)
        self._is_over = threading.Event()
        self.leaders: dict[tuple[Place, int], set[int]] = {}  # place, epoch -> who answered as its leader
        self.ends: dict[tuple[Place, int], list[int]] = {}  # place, epoch -> ends shown to readers, in order

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join(SECONDS_MAX)

    def run(self) -> None:
        while not self._is_over.wait(PAUSE_S):
            for node_id in self._five.running:
                try:
                    self._look(node_id)
                except (OSError, EOFError):
                    continue  # it is down, or does not answer for now

    def _look(self, node_id: int) -> None:
        names = [MetadataRequest.MetadataRequestTopic(name=name) for name in self._topics]
        with self._five.nodes[node_id].ask() as asking:
            asking.socket.settimeout(ASK_SECONDS)
            known = asking.ask(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12).topics
            wanted = [
                ListOffsetsRequest.ListOffsetsTopic(
                    name=topic.name,
                    partitions=[
                        ListOffsetsRequest.ListOffsetsPartition(
                            partition_index=one.partition_index,
                            current_leader_epoch=one.leader_epoch,
                            timestamp=-1,
                        )
                        for one in topic.partitions
                        if one.leader_id == node_id
                    ],
                )
                for topic in known
            ]
            epochs = {(t.name, one.partition_index): one.leader_epoch for t in known for one in t.partitions}
            answer = asking.ask(ListOffsetsRequest(replica_id=-1, topics=wanted), 7)
        for topic in answer.topics:
            for one in topic.partitions:
                if one.error_code == 0:
                    place = topic.name, one.partition_index
                    self.leaders.setdefault((place, epochs[place]), set()).add(node_id)
                    self.ends.setdefault((place, epochs[place]), []).append(one.offset)

    def check(self) -> int:
        """Check that the metadata log has one leader per epoch and that ends never decrease; return the
        epochs seen."""
        assert self.leaders, "nothing was seen"
        logged = check_metadata_logs(self._five)
        for (place, epoch), seen in self.leaders.items():
            assert seen == {logged[place, epoch]}, (
                f"{place} in epoch {epoch}: {seen} answered as leaders, {logged[place, epoch]} was elected"
            )
        for place in {place for place, _ in self.ends}:
            shown = [(epoch, ends) for (other, epoch), ends in sorted(self.ends.items()) if other == place]
            highest = 0
            for epoch, ends in shown:
                assert ends == sorted(ends), f"{place}: the end went back in epoch {epoch}: {ends}"
                assert ends[0] >= highest, f"{place}: {highest} was shown, and {ends[0]} in epoch {epoch}"
                highest = ends[-1]
        return len(self.leaders)


def metadata_leaders(directory: Path) -> dict[tuple[Place, int], int]:
    """(partition, epoch) -> leader, from the metadata log in a data directory."""
    image = ClusterImage()
    leaders: dict[tuple[Place, int], int] = {}
    for segment in sorted((directory / "__cluster_metadata-0").glob("*.log")):
        for batch in batches_of(_whole(segment.read_bytes()), decode_record):
            for record in batch.records:
                image.replay(record)
                topic_id = getattr(record, "topic_id", None)
                number = getattr(record, "partition_id", None)
                topic = image.topics.get(topic_id) if topic_id is not None else None
                if topic is None or number is None or number not in topic.partitions:
                    continue
                partition = topic.partitions[number]
                key = (topic.name, number), partition.leader_epoch
                assert leaders.setdefault(key, partition.leader) == partition.leader, (
                    f"{key[0]} has two leaders in epoch {key[1]}: {leaders[key]} and {partition.leader}"
                )
    return leaders


def _whole(data: bytes) -> bytes:
    from ottla.records.batch import whole_batches_end

    return data[: whole_batches_end(memoryview(data))]


def check_metadata_logs(five: Five) -> dict[tuple[Place, int], int]:
    """Check that the controllers' logs agree; return the content of the longest."""
    logs = [_log(five.nodes[node_id].data / "__cluster_metadata-0") for node_id in CONTROLLERS]
    shortest = min(map(len, logs))
    assert shortest > 0
    assert len({log[:shortest] for log in logs}) == 1, "the metadata logs of the controllers differ"
    longest = max(CONTROLLERS, key=lambda node_id: len(logs[CONTROLLERS.index(node_id)]))
    return metadata_leaders(five.nodes[longest].data)


def _log(directory: Path) -> bytes:
    """The content of a log, without the preallocated end of the active segment."""
    data = b"".join(segment.read_bytes() for segment in sorted(directory.glob("*.log")))
    return _whole(data)


def wait_until_equal(five: Five, topics: Mapping[str, int]) -> None:
    """Wait until the replicas of every partition hold the same bytes, after all writes."""
    differing: list[str] = []

    def are_equal() -> bool:
        differing.clear()
        found = five.partitions(topics, at=1)
        for (topic, number), partition in found.items():
            name = f"{topic}-{number}"
            logs = {node_id: _log(five.nodes[node_id].data / name) for node_id in partition.replica_nodes}
            if len(set(logs.values())) != 1:
                sizes = {node_id: len(log) for node_id, log in logs.items()}
                differing.append(f"{name} led by {partition.leader_id}: {sizes} bytes")
        return not differing and len(found) == sum(topics.values())

    try:
        peers.wait_until(are_equal, SECONDS_MAX, "replicas to be equal", 0.1)
    except AssertionError as error:
        raise AssertionError(f"{error}: {differing}") from None
