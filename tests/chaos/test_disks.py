"""Failing disks under load: a failing fsync, a full disk, flipped bits, and a replaced disk.

In every case no acknowledged record is lost, no wrong record is served, and after the repair, or a new copy
of the replica, all replicas hold the same bytes.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from ottla.client.values import TopicPartition
from ottla.wire.errors import CorruptMessage
from tests.chaos import disks
from tests.chaos.chaos_cluster import ChaosCluster
from tests.chaos.clients import RealClient
from tests.chaos.load import under_load
from tests.interop import peers
from tests.interop.cluster.nodes import CONTROLLERS, SECONDS_MAX
from tests.sim.workload.readers import isolation

SMALL_NODE = 3
SMALL_BYTES = 64 << 20
SETTINGS = {
    # Frequent snapshots of the metadata, and early deletion of its old segments: a wiped node needs a
    # snapshot.
    "metadata.log.max.record.bytes.between.snapshots": "8000",
    "metadata.log.segment.ms": "2000",
    "metadata.max.retention.ms": "2000",
}
FLUSH = {"flush.messages": "1"}
METADATA = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    """Three nodes; one has a small disk, if the machine allows that."""
    with ExitStack() as stack:
        made = ChaosCluster(tmp_path_factory.mktemp("disks"), settings=SETTINGS)
        stack.enter_context(closing(made))
        if disks.why_no_small_disk() is None:
            made.small = stack.enter_context(disks.small_disk(made.nodes[SMALL_NODE].data, SMALL_BYTES))
        stack.enter_context(made)
        yield made


@pytest.fixture(autouse=True)
def repaired(cluster: ChaosCluster) -> Iterator[None]:
    """Start all nodes for the next test, whatever this one leaves behind."""
    yield
    for node in cluster.nodes.values():
        node.wrapper = ()
    if cluster.small is not None:
        cluster.small.make_room()
    cluster.start_stopped()


def fail_fsync(cluster: ChaosCluster, victim: int, name: str) -> Path:
    """Restart a node under strace, where fsync fails for a partition's current segments, and wait until it
    exits because of that."""
    log = cluster.nodes[victim].directory / "strace.log"
    log.unlink(missing_ok=True)
    cluster.kill(victim)
    paths = cluster.segments(victim, name)
    cluster.nodes[victim].wrapper = tuple(disks.failing(["fsync", "fdatasync"], "EIO", log, paths))
    cluster.note(f"node {victim}: fsync of {name} fails from now on")
    cluster.nodes[victim].start(wait=False)
    cluster.net.know(victim, cluster.nodes[victim].pid)
    assert cluster.wait_until_ended(victim) != 0
    cluster.nodes[victim].wrapper = ()
    return log


def check_never_again(log: Path) -> None:
    """A file whose fsync failed must not be flushed again, let alone successfully."""
    failed: set[str] = set()
    peers.wait_until(lambda: disks.fsyncs(log), SECONDS_MAX, "what strace saw")
    for path, worked in disks.fsyncs(log):
        assert path not in failed, f"{path} was flushed again after a failure"
        if not worked:
            failed.add(path)
    assert failed, "no fsync failed"


def test_a_failed_fsync_of_a_log_stops_the_node_without_a_retry(cluster: ChaosCluster) -> None:
    with under_load(cluster, "log-fsync", configs=FLUSH) as load:
        victim = cluster.wait_for_leader("plain-log-fsync")
        log = fail_fsync(cluster, victim, "plain-log-fsync-0")
        load.wait_for_progress(20, 1)  # the others continue
        cluster.start(victim)
        cluster.wait_until_in_sync(load.topics)
    check_never_again(log)
    assert cluster.logged(victim, "Input/output error")


def test_a_failed_fsync_of_the_metadata_log_stops_the_controller(
    cluster: ChaosCluster,
) -> None:
    with under_load(cluster, "metadata-fsync") as load:
        victim = CONTROLLERS[0]
        log = fail_fsync(cluster, victim, METADATA)
        load.wait_for_progress(20, 1)
        cluster.start(victim)
        cluster.wait_until_in_sync(load.topics)
    check_never_again(log)


def test_a_full_disk_loses_nothing_acknowledged_and_recovers(
    cluster: ChaosCluster,
) -> None:
    if cluster.small is None:
        peers.peer_missing(disks.why_no_small_disk() or "")
    node = cluster.nodes[SMALL_NODE]
    # If its metadata log has no space the node exits, perhaps only after space is free again.
    with cluster.kept_running(), under_load(cluster, "full") as load:
        cluster.note("the disk is full")
        cluster.small.fill()
        peers.wait_until(
            lambda: node.has_ended or cluster.logged(SMALL_NODE, "No space left on device"),
            SECONDS_MAX,
            lambda: f"node {SMALL_NODE} to meet its full disk:\n{node.log_tail(20)}",
        )
        cluster.note("there is room")
        cluster.small.make_room()
        cluster.wait_until_in_sync(load.topics)


DERIVED = ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint")
CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
)


def test_flipped_bits_in_indexes_snapshots_and_checkpoints_do_no_harm(cluster: ChaosCluster) -> None:
    victim = 2
    data = cluster.nodes[victim].data
    with under_load(cluster, "flips", configs={"segment.ms": "1000"}) as load:
        peers.wait_until(
            lambda: len(cluster.segments(victim, "plain-flips-0")) > 2, SECONDS_MAX, "closed segments", 0.1
        )
        cluster.wait_until_in_sync(load.topics)
        cluster.kill(victim)
        flipped = [path for name in CHECKPOINTS for path in [data / name] if path.exists()]
        for topic, count in load.topics.items():
            for index in range(count):
                for pattern in DERIVED:
                    flipped += sorted((data / f"{topic}-{index}").glob(pattern))
        flipped = [path for path in flipped if path.stat().st_size]
        assert {path.suffix for path in flipped} >= {".snapshot", ".timeindex"}
        for number, path in enumerate(flipped):
            disks.flip_bit(path, number * 7919 % path.stat().st_size, number % 7)
        cluster.note(f"a bit flipped in each of {len(flipped)} files of node {victim}")
        cluster.start(victim)
        cluster.wait_until_in_sync(load.topics)
        cluster.elect_preferred()


def test_a_flipped_bit_in_a_record_is_never_served(
    cluster: ChaosCluster,
) -> None:
    name = "plain-record-0"
    with under_load(cluster, "record", configs={"segment.ms": "1000"}) as load:
        victim = cluster.preferred("plain-record")
        data = cluster.nodes[victim].data
        peers.wait_until(lambda: len(cluster.segments(victim, name)) > 2, SECONDS_MAX, "closed segments", 0.1)
        cluster.wait_until_in_sync(load.topics)
        cluster.stop(victim)  # cleanly, so that the next start scans nothing
        closed = cluster.segments(victim, name)[0]
        sound = closed.read_bytes()
        value = re.search(rb"v\d+", sound)
        assert value is not None
        disks.flip_bit(closed, value.start() + 1)
        cluster.note(f"a record in {closed.name} of node {victim} is another one")
        cluster.start(victim)
        cluster.wait_until_in_sync(load.topics)
        with pytest.raises(CorruptMessage):  # as leader it serves the damaged record, and readers notice
            read_from(cluster, victim, "plain-record")
        # The remedy: delete the copy, and replicate it from the leader.
        cluster.kill(victim)
        cluster.wait_for_leader("plain-record", other_than=victim)
        shutil.rmtree(data / name)
        cluster.start(victim)
        cluster.wait_until_in_sync(load.topics)


def read_from(cluster: ChaosCluster, node_id: int, topic: str) -> None:
    """Read a partition from its beginning while this node leads it."""

    def leads() -> bool:
        cluster.elect_preferred()
        return cluster.leader(topic) == node_id

    peers.wait_until(leads, SECONDS_MAX, f"node {node_id} to lead {topic}-0", 0.2)

    async def read() -> None:
        client = RealClient("reader", cluster.bootstrap, "")
        async with client.consumer(**isolation(committed=False)) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            while True:
                await consumer.poll(1.0)

    asyncio.run(asyncio.wait_for(read(), SECONDS_MAX * peers.patience()))


def test_a_node_with_a_new_disk_installs_a_snapshot_and_replicates(
    cluster: ChaosCluster,
) -> None:
    victim = CONTROLLERS[0]
    with under_load(cluster, "wiped") as load:
        peers.wait_until(
            lambda: all(cluster.has_deleted_metadata(one) for one in CONTROLLERS),
            SECONDS_MAX,
            "metadata logs that begin with a snapshot",
            0.2,
        )
        cluster.wait_until_in_sync(load.topics)
        cluster.wait_until_quorum_agrees()
        cluster.kill(victim)
        cluster.wipe(victim)
        cluster.start(victim)
        cluster.wait_until_in_sync(load.topics)
        cluster.wait_until_quorum_agrees()
    assert list((cluster.nodes[victim].data / METADATA).glob("*.checkpoint"))
    assert cluster.has_deleted_metadata(victim)
