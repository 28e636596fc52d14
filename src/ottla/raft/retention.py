"""Which old snapshots, and the log before them, may go: by total size and by age.

The newest snapshot always stays, so both limits are soft. What goes, goes from the old end: the log may only
start at a snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.raft.snapshots import SnapshotId


class Kept(NamedTuple):
    """A snapshot that is there."""

    id: SnapshotId
    size_bytes: int
    last_contained_ms: int


def new_start(
    snapshots: Sequence[Kept], log_bytes: int, now_ms: int, *, retention_bytes: int, retention_ms: int
) -> SnapshotId | None:
    """The snapshot at which the log should start now; None if everything may stay. Negative limits: none.

    `snapshots` are in the order of the log.
    """
    total = log_bytes + sum(snapshot.size_bytes for snapshot in snapshots)
    start: SnapshotId | None = None
    for old, following in pairwise(snapshots):
        is_too_large = 0 <= retention_bytes < total
        is_too_old = 0 <= retention_ms < now_ms - old.last_contained_ms
        if not is_too_large and not is_too_old:
            break
        total -= old.size_bytes
        start = following.id
    return start
