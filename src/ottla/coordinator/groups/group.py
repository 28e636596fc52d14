"""The interface of every kind of group."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Protocol

from ottla.coordinator.result import Record


class GroupType(Enum):
    """Kinds of groups, by the names that ListGroups uses."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


CommitCheck = Callable[[str, bytes, int], None]
"""(topic, topic id, partition): raises the error that rejects a commit for this partition."""


class Group(Protocol):
    """One group. Checks raise the KafkaError for the client."""

    id: str
    type: GroupType

    @property
    def protocol_type(self) -> str: ...

    @property
    def state_name(self) -> str:
        """The name that clients see: Empty, PreparingRebalance, Stable, Assigning, Dead and so on."""

    @property
    def is_empty(self) -> bool: ...

    def check_offset_commit(
        self,
        member_id: str,
        group_instance_id: str | None,
        epoch: int,
        *,
        is_transactional: bool,
        version: int,
    ) -> CommitCheck | None:
        """Reject a member that may not commit; returns the check of each partition, if there is one."""

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def tombstones(self) -> Iterable[Record]:
        """The records that delete the group, its members and assignments (not its offsets)."""

    def offsets_expire_after(self) -> Callable[[int], int] | None:
        """Commit time -> the time from which `offsets.retention.minutes` counts; None: they do not expire."""
