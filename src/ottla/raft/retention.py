"""Which old snapshots may be deleted with the log before them: by total size and by age.

The newest snapshot is always kept, so both limits can be exceeded. The oldest are deleted first, and the log
then starts at a snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ottla.raft.snapshots import SnapshotId


class StoredSnapshot(NamedTuple):
    id: SnapshotId
    size_bytes: int
    last_contained_ms: int


def new_start(
    snapshots: Sequence[StoredSnapshot],
    log_bytes: int,
    now_ms: int,
    *,
    retention_bytes: int,
    retention_ms: int,
) -> SnapshotId | None:
    """The snapshot at which the log should start now; None if nothing is deleted. A negative limit is none.

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
