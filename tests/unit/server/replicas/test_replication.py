"""Partitions with three replicas on separate brokers: writes, kills, elections, catching up."""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.asking import produce_request, whole
from tests.unit.server.nodes import Nodes, wait_until
from tests.unit.server.quorums import QuorumOf
from tests.unit.server.replicas.replication_support import SETTINGS, Trio

from ottla.records.record import read_records
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.delete_records import DeleteRecordsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    with Nodes(tmp_path) as nodes:
        yield Trio(nodes)


def test_acknowledged_records_are_identical_on_every_replica(trio: Trio) -> None:
    trio.create("all")
    for number in range(20):
        assert trio.produce("all", [b"%d" % number, b"x" * 1000], at=1).error_code == 0
    assert {trio.segment("all", at=node) for node in (1, 2, 3)} == {trio.segment("all", at=1)}
    assert trio.log_end("all", at=1) == 40
    for node in (2, 3):
        wait_until(lambda node=node: len(trio.values("all", at=node)) == 40, f"the watermark at {node}")  # type: ignore[misc]


def test_a_killed_leader_loses_nothing_acknowledged_and_catches_up(trio: Trio) -> None:
    trio.create("led", min_insync_replicas="2")
    before = [b"before-%d" % number for number in range(30)]
    for value in before:
        assert trio.produce("led", [value], at=1).error_code == 0
    trio.brokers[1].kill()
    leader = trio.wait_until_led_by("led", {2, 3}, at=2)
    trio.wait_until_isr("led", {2, 3}, at=leader)
    after = [b"after-%d" % number for number in range(30)]
    for value in after:
        assert trio.produce("led", [value], at=leader).error_code == 0
    assert trio.values("led", at=leader) == before + after
    trio.brokers[1].start()
    trio.wait_until_isr("led", {1, 2, 3}, at=leader)
    assert trio.segment("led", at=1) == trio.segment("led", at=leader)
    assert trio.produce("led", [b"last"], at=leader).error_code == 0
    assert trio.segment("led", at=1) == trio.segment("led", at=leader)


def test_a_returning_leader_truncates_its_unreplicated_records(trio: Trio) -> None:
    trio.create("cut")
    assert trio.produce("cut", [b"shared"], at=1).error_code == 0
    for node in (2, 3):
        process = trio.brokers[node].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)  # they neither fetch nor respond
    # The first one may answer a waiting fetch; all other possible requesters are stopped.
    for value in (b"perhaps", b"alone-1", b"alone-2"):
        assert trio.produce("cut", [value], at=1, acks=1).error_code == 0
    assert trio.log_end("cut", at=1) == 4
    trio.brokers[1].kill()
    for node in (2, 3):
        process = trio.brokers[node].process
        assert process is not None
        process.send_signal(signal.SIGCONT)
    leader = trio.wait_until_led_by("cut", {2, 3}, at=2)
    assert trio.produce("cut", [b"new"], at=leader).error_code == 0
    trio.brokers[1].start()
    trio.wait_until_isr("cut", {1, 2, 3}, at=leader)
    assert trio.segment("cut", at=1) == trio.segment("cut", at=leader)
    values = trio.values("cut", at=leader)
    assert [value for value in values if value != b"perhaps"] == [b"shared", b"new"]
    assert "truncating to" in trio.brokers[1].log_text


def test_a_stalled_follower_leaves_the_isr_and_rejoins(trio: Trio) -> None:
    trio.create("lag", min_insync_replicas="2")
    assert trio.produce("lag", [b"one"], at=1).error_code == 0
    process = trio.brokers[3].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    assert trio.produce("lag", [b"two"], at=1).error_code == 0  # waits until the third leaves the ISR
    trio.wait_until_isr("lag", {1, 2}, at=1)
    process.send_signal(signal.SIGCONT)
    trio.wait_until_isr("lag", {1, 2, 3}, at=1)
    assert trio.segment("lag", at=3) == trio.segment("lag", at=1)


def test_min_insync_replicas_applies_to_acks_all_only(trio: Trio) -> None:
    trio.create("few", min_insync_replicas="2")
    trio.brokers[2].kill()
    trio.brokers[3].kill()
    trio.wait_until_isr("few", {1}, at=1)
    refused = trio.produce("few", [b"no"], at=1)
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert trio.produce("few", [b"yes"], at=1, acks=1).error_code == 0
    assert trio.values("few", at=1) == []  # the watermark waits for a second replica
    trio.brokers[2].start()
    trio.wait_until_isr("few", {1, 2}, at=1)
    wait_until(lambda: trio.values("few", at=1) == [b"yes"], "the watermark")


def test_a_follower_behind_the_leaders_start_starts_over(trio: Trio) -> None:
    trio.create("gone", (1, 2))
    assert trio.produce("gone", [b"kept by nobody"], at=1).error_code == 0
    trio.brokers[2].kill()
    trio.wait_until_isr("gone", {1}, at=1)
    assert trio.produce("gone", [b"%d" % number for number in range(1, 6)], at=1).error_code == 0
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=4)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsRequest.DeleteRecordsTopic(name="gone", partitions=[partition])],
        timeout_ms=10_000,
    )
    with trio.brokers[1].ask() as asking:
        answer = asking.ask(request, 2).topics[0].partitions[0]
    assert (answer.error_code, answer.low_watermark) == (0, 4)
    trio.brokers[2].start()
    trio.wait_until_isr("gone", {1, 2}, at=1)
    assert trio.produce("gone", [b"6"], at=1).error_code == 0
    # The leader's log starts within a batch, which arrived complete: the segment starts at the batch.
    folder = trio.brokers[2].data / "gone-0"
    (segment,) = folder.glob("*.log")
    assert segment.name == f"{1:020d}.log"
    assert trio.segment("gone", at=1).endswith(segment.read_bytes())
    trio.brokers[1].kill()
    trio.wait_until_led_by("gone", {2}, at=2)
    with trio.brokers[2].ask() as asking:
        assert asking.fetch("gone", 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        fetched = read_records(whole(asking.fetch("gone", 4).records))
        assert [one.value for one in fetched if one.offset >= 4] == [b"4", b"5", b"6"]


def test_a_leader_stalled_past_its_session_acknowledges_no_lost_record(trio: Trio) -> None:
    trio.create("still")
    assert trio.produce("still", [b"before"], at=1).error_code == 0
    process = trio.brokers[1].process
    assert process is not None
    with trio.brokers[1].ask() as asking:
        process.send_signal(signal.SIGSTOP)
        request = produce_request("still", [b"while it stood"])
        asking.send(request, 9)  # waits in its socket until it resumes
        leader = trio.wait_until_led_by("still", {2, 3}, at=2)
        assert trio.produce("still", [b"meanwhile"], at=leader).error_code == 0
        process.send_signal(signal.SIGCONT)
        answer = asking.receive(request, 9).responses[0].partition_responses[0]
    trio.wait_until_isr("still", {1, 2, 3}, at=leader)
    values = trio.values("still", at=leader)
    assert values[:2] == [b"before", b"meanwhile"]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert b"while it stood" not in values
    assert trio.segment("still", at=1) == trio.segment("still", at=leader)


def test_committed_offsets_are_known_to_the_next_coordinator(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        trio = Trio(nodes, offsets_topic_replication_factor="3", offsets_topic_num_partitions="1")
        trio.create("read")

        def coordinator(at: int) -> int:
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=["readers"])
            with trio.brokers[at].ask() as asking:
                (found,) = asking.ask(request, 4).coordinators
            return int(found.node_id) if found.error_code == 0 else -1

        def commit(offset: int, at: int) -> int:
            partition = OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=0, committed_offset=offset
            )
            topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="read", partitions=[partition])
            request = OffsetCommitRequest(
                group_id="readers", generation_id_or_member_epoch=-1, topics=[topic]
            )
            with trio.brokers[at].ask() as asking:
                return int(asking.ask(request, 8).topics[0].partitions[0].error_code)

        def committed(at: int) -> int:
            topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="read", partition_indexes=[0])
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="readers", topics=[topic])
            with trio.brokers[at].ask() as asking:
                (found,) = asking.ask(OffsetFetchRequest(groups=[group]), 8).groups
            return -1 if found.error_code else int(found.topics[0].partitions[0].committed_offset)

        wait_until(lambda: coordinator(1) > 0, "a coordinator")
        first = coordinator(1)
        trio.wait_until_isr("__consumer_offsets", {1, 2, 3}, at=first)
        wait_until(lambda: commit(1, first) == 0, "the coordinator to load")
        for offset in range(2, 20):
            assert commit(offset, first) == 0
        trio.brokers[first].kill()
        other = min({1, 2, 3} - {first})
        wait_until(lambda: coordinator(other) not in (-1, first), "another coordinator")
        second = coordinator(other)
        wait_until(lambda: committed(second) == 19, "the offset at the next coordinator")
        assert commit(20, second) == 0
        assert committed(second) == 20


class Writer(threading.Thread):
    """Writes numbers one after the other to the current leader, and records the acknowledged ones."""

    def __init__(self, trio: Trio, topic: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[bytes] = []
        self.refusals: set[int] = set()
        self.is_over = threading.Event()
        self._trio = trio
        self._topic = topic

    def run(self) -> None:
        number = 0
        while not self.is_over.is_set():
            for node in (1, 2, 3):
                try:
                    with self._trio.brokers[node].ask() as asking:
                        asking.socket.settimeout(5)
                        while not self.is_over.is_set():
                            number += 1
                            value = b"%d" % number
                            code = asking.produce(self._topic, [value]).error_code
                            if code:
                                self.refusals.add(code)
                                break
                            self.acknowledged.append(value)
                except (OSError, EOFError):
                    continue


def test_each_broker_is_killed_in_turn_under_writes_and_nothing_acknowledged_is_lost(trio: Trio) -> None:
    kill_each_in_turn(trio)


def test_each_node_of_a_quorum_is_killed_in_turn_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Three combined nodes: the active controller may die together with a leader."""
    with QuorumOf(tmp_path, 3, is_static=True, **SETTINGS) as quorum:
        for node in quorum.nodes.values():
            node.format()
        quorum.start()
        kill_each_in_turn(Trio.of(quorum.nodes))


def kill_each_in_turn(trio: Trio) -> None:
    trio.create("turns", min_insync_replicas="2")
    writer = Writer(trio, "turns")
    writer.start()
    try:
        for victim in (1, 2, 3):
            count = len(writer.acknowledged)
            wait_until(lambda count=count: len(writer.acknowledged) > count + 50, "writes")  # type: ignore[misc]
            trio.brokers[victim].kill()
            others = {1, 2, 3} - {victim}
            trio.wait_until_led_by("turns", others, at=min(others))
            count = len(writer.acknowledged)
            wait_until(lambda count=count: len(writer.acknowledged) > count + 50, "writes without it")  # type: ignore[misc]
            trio.brokers[victim].start()
            trio.wait_until_isr("turns", {1, 2, 3}, at=victim)
    finally:
        writer.is_over.set()
        writer.join(30)
    leader = trio.leader("turns", at=1)
    trio.produce("turns", [b"end"], at=leader)
    values = trio.values("turns", at=leader)
    places = {value: place for place, value in enumerate(values)}
    assert len(places) == len(values), "a value was written twice"
    assert [value for value in writer.acknowledged if value not in places] == []
    order = [places[value] for value in writer.acknowledged]
    assert order == sorted(order)
    assert writer.refusals <= {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert {trio.segment("turns", at=node) for node in (1, 2, 3)} == {trio.segment("turns", at=leader)}


def test_a_stopping_broker_hands_over_and_rejoins_in_sync(trio: Trio) -> None:
    trio.create("leave", min_insync_replicas="2")
    assert trio.produce("leave", [b"one"], at=1).error_code == 0
    assert trio.brokers[1].stop() == 0
    leader = trio.leader("leave", at=2)
    assert leader in (2, 3)  # before it stopped, not some time after
    assert trio.produce("leave", [b"two"], at=leader).error_code == 0
    trio.brokers[1].start()
    trio.wait_until_isr("leave", {1, 2, 3}, at=leader)
    assert trio.segment("leave", at=1) == trio.segment("leave", at=leader)


def test_a_replica_in_a_failed_directory_is_replaced_and_copied(tmp_path: Path) -> None:
    with Nodes(tmp_path) as nodes:
        trio = Trio(nodes)
        own = tmp_path / "own"
        first, second = own / "a", own / "b"
        settings = {**SETTINGS, "log_dirs": f"{first},{second}", "metadata_log_dir": str(own / "metadata")}
        trio.brokers[4] = nodes.broker(4, **settings).start()
        trio.create("lost", (4, 2))
        assert trio.produce("lost", [b"one", b"two"], at=4).error_code == 0
        place = next(one for one in (first, second) if (one / "lost-0").exists())
        shutil.rmtree(place.rename(own / "gone"))  # at once, since the node writes there meanwhile
        # Open files work for a while; then a checkpoint fails, and the directory with it.
        third = trio.produce("lost", [b"three"], at=4).error_code
        assert third in (0, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        leader = trio.wait_until_led_by("lost", {2}, at=2)
        trio.wait_until_isr("lost", {2}, at=2)
        kept = trio.values("lost", at=leader)
        assert kept[:2] == [b"one", b"two"]
        # A failed write may survive: the directory may fail while the leader waits for node 2.
        assert kept[2:] in ([[b"three"], []] if third else [[b"three"]])
        assert trio.produce("lost", [b"four"], at=leader).error_code == 0
        trio.brokers[4].kill()
        trio.brokers[4].start()
        trio.wait_until_isr("lost", {2, 4}, at=leader)
        copied = next(one for one in (first, second) if (one / "lost-0").exists())
        assert (copied / "lost-0" / f"{0:020d}.log").read_bytes() == trio.segment("lost", at=leader)
