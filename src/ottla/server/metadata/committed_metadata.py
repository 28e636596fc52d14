"""The committed state of the cluster on this node.

`image` changes only by replay of committed records, a whole batch in one turn of the event loop; subscribers
are called after each change, with what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.controller.image import ClusterImage
from ottla.controller.image_comparison import difference
from ottla.controller.image_delta import ImageDelta
from ottla.raft.driver import CommittedBatch
from ottla.raft.snapshots import SnapshotId
from ottla.wire.message import Message

Subscriber = Callable[[ClusterImage, ImageDelta], None]


class CommittedMetadata:
    """The committed metadata on this node."""

    def __init__(self) -> None:
        self.image = ClusterImage()
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` after every later change of `image`."""
        self._subscribers.append(subscriber)

    def load(self, snapshot_id: SnapshotId, last_contained_ms: int, records: Sequence[Message]) -> None:
        """Replace the image by a snapshot."""
        image = self.image
        before = image.copy() if self._subscribers else None
        image.reset()
        image.offset = snapshot_id.offset - 1
        for record in records:
            image.replay(record)
        image.epoch, image.timestamp_ms = snapshot_id.epoch, last_contained_ms
        if before is not None:
            self._publish(difference(before, image))

    def commit(self, batches: Sequence[CommittedBatch[Message]]) -> None:
        """Replay committed batches."""
        image, delta = self.image, ImageDelta()
        delta.first_offset = batches[0].base_offset
        for batch in batches:
            for offset, record in enumerate(batch.records, batch.base_offset):
                image.offset = offset
                image.replay(record, delta)
            image.offset, image.epoch, image.timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms
        delta.last_offset = image.offset
        self._publish(delta)

    def _publish(self, delta: ImageDelta) -> None:
        for subscriber in self._subscribers:
            subscriber(self.image, delta)
