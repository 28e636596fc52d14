"""The committed state of a node that gets a snapshot in the middle of its life."""

from __future__ import annotations

from ottla.controller.image import ClusterImage
from ottla.controller.image_delta import ImageDelta
from ottla.raft.driver import CommittedBatch
from ottla.raft.snapshots import SnapshotId
from ottla.server.metadata.committed_metadata import CommittedMetadata
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import FeatureLevelRecord, TopicRecord

VERSION = FeatureLevelRecord(name="metadata.version", feature_level=30)


def topic(name: str) -> Message:
    return TopicRecord(name=name, topic_id=name.encode().ljust(16, b"_"))


def test_a_snapshot_replaces_the_image_and_subscribers_get_the_difference() -> None:
    metadata = CommittedMetadata()
    image = metadata.image
    published: list[tuple[ClusterImage, ImageDelta]] = []
    metadata.commit([CommittedBatch(0, 2, 1, 5, 10, [VERSION, topic("old"), topic("kept")])])
    metadata.subscribe(lambda image, delta: published.append((image, delta)))
    metadata.load(SnapshotId(50, 3), 99, [VERSION, topic("kept"), topic("new")])
    ((published_image, delta),) = published
    assert published_image is metadata.image is image
    assert set(image.topics_by_name) == {"kept", "new"}
    assert [one.name for one in delta.topics_deleted.values()] == ["old"]
    assert [one.name for one in delta.topics_created.values()] == ["new"]
    assert (image.offset, image.epoch, image.timestamp_ms) == (49, 3, 99)
    assert (delta.first_offset, delta.last_offset) == (3, 49)
