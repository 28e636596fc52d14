"""Disks that fail under a load: an fsync that fails, a full one, flipped bits, and one that was replaced.

Whatever the disk does: nothing acknowledged is lost, nothing wrong is served, and once it works again, or the
replica was copied anew, all replicas hold the same bytes.
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
from tests.chaos.ground import Ground
from tests.chaos.lives import RealClient
from tests.chaos.load import under_load
from tests.interop import peers
from tests.interop.cluster.nodes import CONTROLLERS, SECONDS_MAX
from tests.sim.workload.readers import isolation

SMALL_NODE = 3
SMALL_BYTES = 64 << 20
SETTINGS = {
    # Snapshots of the metadata come soon, and old segments of its log go: a wiped node needs a snapshot.
    "metadata.log.max.record.bytes.between.snapshots": "8000",
    "metadata.log.segment.ms": "2000",
    "metadata.max.retention.ms": "2000",
}
FLUSH = {"flush.messages": "1"}
METADATA = "__cluster_metadata-0"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Three nodes; the disk of one is small, where that can be had."""
    with ExitStack() as stack:
        made = Ground(tmp_path_factory.mktemp("disks"), settings=SETTINGS)
        stack.enter_context(closing(made))
        if disks.why_no_small_disk() is None:
            made.small = stack.enter_context(disks.small_disk(made.nodes[SMALL_NODE].data, SMALL_BYTES))
        stack.enter_context(made)
        yield made


@pytest.fixture(autouse=True)
def mended(ground: Ground) -> Iterator[None]:
    """Whatever a test leaves behind, the next one finds all nodes at work."""
    yield
    for node in ground.nodes.values():
        node.wrapper = ()
    if ground.small is not None:
        ground.small.make_room()
    ground.revive()


def fail_fsync(ground: Ground, victim: int, name: str) -> Path:
    """Start a node anew under strace, where fsync of the segments that a partition has now fails, and wait
    until it has ended by it."""
    log = ground.nodes[victim].directory / "strace.log"
    log.unlink(missing_ok=True)
    ground.kill(victim)
    paths = ground.segments(victim, name)
    ground.nodes[victim].wrapper = tuple(disks.failing(["fsync", "fdatasync"], "EIO", log, paths))
    ground.note(f"node {victim}: fsync of {name} fails from now on")
    ground.nodes[victim].start(wait=False)
    ground.net.know(victim, ground.nodes[victim].pid)
    assert ground.wait_until_ended(victim) != 0
    ground.nodes[victim].wrapper = ()
    return log


def check_never_again(log: Path) -> None:
    """A file whose fsync failed was not flushed again, let alone with success."""
    failed: set[str] = set()
    peers.wait_until(lambda: disks.fsyncs(log), SECONDS_MAX, "what strace saw")
    for path, worked in disks.fsyncs(log):
        assert path not in failed, f"{path} was flushed again after a failure"
        if not worked:
            failed.add(path)
    assert failed, "no fsync failed"


def test_a_failed_fsync_of_a_log_ends_the_node_and_is_never_tried_again(ground: Ground) -> None:
    with under_load(ground, "log-fsync", configs=FLUSH) as load:
        victim = ground.wait_for_leader("plain-log-fsync")
        log = fail_fsync(ground, victim, "plain-log-fsync-0")
        load.wait_for_progress(20, 1)  # the others go on
        ground.start(victim)
        ground.wait_until_whole(load.topics)
    check_never_again(log)
    assert ground.logged(victim, "Input/output error")


def test_a_failed_fsync_of_the_metadata_log_ends_the_controller_and_is_never_tried_again(
    ground: Ground,
) -> None:
    with under_load(ground, "metadata-fsync") as load:
        victim = CONTROLLERS[0]
        log = fail_fsync(ground, victim, METADATA)
        load.wait_for_progress(20, 1)
        ground.start(victim)
        ground.wait_until_whole(load.topics)
    check_never_again(log)


def test_a_full_disk_costs_nothing_that_was_acknowledged_and_serves_again_once_there_is_room(
    ground: Ground,
) -> None:
    if ground.small is None:
        peers.peer_missing(disks.why_no_small_disk() or "")
    node = ground.nodes[SMALL_NODE]
    # Where its metadata log has no room the node ends, maybe not before there is room again.
    with ground.kept_running(), under_load(ground, "full") as load:
        ground.note("the disk is full")
        ground.small.fill()
        peers.wait_until(
            lambda: node.has_ended or ground.logged(SMALL_NODE, "No space left on device"),
            SECONDS_MAX,
            lambda: f"node {SMALL_NODE} to meet its full disk:\n{node.log_tail(20)}",
        )
        ground.note("there is room")
        ground.small.make_room()
        ground.wait_until_whole(load.topics)


DERIVED = ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint")
CHECKPOINTS = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
)


def test_flipped_bits_in_indexes_snapshots_and_checkpoints_cost_nothing(ground: Ground) -> None:
    victim = 2
    data = ground.nodes[victim].data
    with under_load(ground, "flips", configs={"segment.ms": "1000"}) as load:
        peers.wait_until(
            lambda: len(ground.segments(victim, "plain-flips-0")) > 2, SECONDS_MAX, "closed segments", 0.1
        )
        ground.wait_until_whole(load.topics)
        ground.kill(victim)
        flipped = [path for name in CHECKPOINTS for path in [data / name] if path.exists()]
        for topic, count in load.topics.items():
            for index in range(count):
                for pattern in DERIVED:
                    flipped += sorted((data / f"{topic}-{index}").glob(pattern))
        flipped = [path for path in flipped if path.stat().st_size]
        assert {path.suffix for path in flipped} >= {".snapshot", ".timeindex"}
        for number, path in enumerate(flipped):
            disks.flip_bit(path, number * 7919 % path.stat().st_size, number % 7)
        ground.note(f"a bit flipped in each of {len(flipped)} files of node {victim}")
        ground.start(victim)
        ground.wait_until_whole(load.topics)
        ground.elect_preferred()


def test_a_flipped_bit_in_a_record_reaches_nobody_and_the_replica_is_copied_anew(ground: Ground) -> None:
    name = "plain-record-0"
    with under_load(ground, "record", configs={"segment.ms": "1000"}) as load:
        victim = ground.preferred("plain-record")
        data = ground.nodes[victim].data
        peers.wait_until(lambda: len(ground.segments(victim, name)) > 2, SECONDS_MAX, "closed segments", 0.1)
        ground.wait_until_whole(load.topics)
        ground.stop(victim)  # cleanly: nothing is scanned at the next start
        closed = ground.segments(victim, name)[0]
        sound = closed.read_bytes()
        value = re.search(rb"v\d+", sound)
        assert value is not None
        disks.flip_bit(closed, value.start() + 1)
        ground.note(f"a record in {closed.name} of node {victim} is another one")
        ground.start(victim)
        ground.wait_until_whole(load.topics)
        with pytest.raises(CorruptMessage):  # as its leader it serves what lies there, and readers see it
            read_from(ground, victim, "plain-record")
        # The cure: the copy goes, and another one comes from the leader.
        ground.kill(victim)
        ground.wait_for_leader("plain-record", other_than=victim)
        shutil.rmtree(data / name)
        ground.start(victim)
        ground.wait_until_whole(load.topics)


def read_from(ground: Ground, node_id: int, topic: str) -> None:
    """Read a partition from its beginning while this node leads it."""

    def leads() -> bool:
        ground.elect_preferred()
        return ground.leader(topic) == node_id

    peers.wait_until(leads, SECONDS_MAX, f"node {node_id} to lead {topic}-0", 0.2)

    async def read() -> None:
        client = RealClient("reader", ground.bootstrap, "")
        async with client.consumer(**isolation(committed=False)) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            while True:
                await consumer.poll(1.0)

    asyncio.run(asyncio.wait_for(read(), SECONDS_MAX * peers.patience()))


def test_a_node_whose_disk_was_replaced_installs_a_snapshot_and_copies_everything(ground: Ground) -> None:
    victim = CONTROLLERS[0]
    with under_load(ground, "wiped") as load:
        peers.wait_until(
            lambda: all(ground.has_deleted_metadata(one) for one in CONTROLLERS),
            SECONDS_MAX,
            "metadata logs that begin with a snapshot",
            0.2,
        )
        ground.wait_until_whole(load.topics)
        ground.wait_until_quorum_agrees()
        ground.kill(victim)
        ground.wipe(victim)
        ground.start(victim)
        ground.wait_until_whole(load.topics)
        ground.wait_until_quorum_agrees()
    assert list((ground.nodes[victim].data / METADATA).glob("*.checkpoint"))
    assert ground.has_deleted_metadata(victim)
