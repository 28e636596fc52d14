"""The committed state of a node that is handed a snapshot in the middle of its life."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.config import development_config
from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.host import HostClock, HostDisk, HostNetwork, HostRandom
from ottla.raft.driver import CommittedBatch
from ottla.raft.snapshots import SnapshotId
from ottla.server.metadata.remote_quorum import RemoteQuorum
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import FeatureLevelRecord, TopicRecord

VERSION = FeatureLevelRecord(name="metadata.version", feature_level=30)


def topic(name: str) -> Message:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"_"))


def test_a_snapshot_replaces_the_image_and_tells_what_it_changed(tmp_path: Path) -> None:
    async def test() -> None:
        overrides = {"controller.quorum.voters": "1@localhost:9093"}
        quorum = RemoteQuorum(
            disk=HostDisk(),
            clock=HostClock(),
            random=HostRandom(),
            network=HostNetwork(),
            config=development_config(
                data_directory=str(tmp_path), controller_port=9093, overrides=overrides
            ),
            cluster_id="cluster",
            directory_id=bytes(range(16)),
        )
        image = quorum.image
        told: list[tuple[ClusterImage, ImageDelta]] = []
        quorum.commit([CommittedBatch(0, 2, 1, 5, 10, [VERSION, topic("old"), topic("kept")])])
        quorum.subscribe(lambda image, delta: told.append((image, delta)))
        quorum.load(SnapshotId(50, 3), 99, [VERSION, topic("kept"), topic("new")])
        ((told_image, delta),) = told
        assert told_image is quorum.image is image
        assert set(image.topics_by_name) == {"kept", "new"}
        assert [one.name for one in delta.topics_deleted.values()] == ["old"]
        assert [one.name for one in delta.topics_created.values()] == ["new"]
        assert (image.offset, image.epoch, image.timestamp_ms) == (49, 3, 99)
        assert (delta.first_offset, delta.last_offset) == (3, 49)

    asyncio.run(test())
