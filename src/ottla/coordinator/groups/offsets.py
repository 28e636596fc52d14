"""The committed offsets of all groups of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.coordinator.groups.shard import GroupShard


class Offsets:
    """See the module."""

    def __init__(self, shard: GroupShard) -> None:
        self._shard = shard
