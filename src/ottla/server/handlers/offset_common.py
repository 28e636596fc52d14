"""Helpers of the APIs that change offsets: reject partitions that do not exist, and merge two responses."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.server.net.long_requests import Steps
from ottla.wire.errors import MessageTooLarge

if TYPE_CHECKING:
    from ottla.server.parts import HasGroups
    from ottla.wire.messages.offset_commit import OffsetCommitRequest
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


class _Partition(Protocol):
    partition_index: int


class _Topic(Protocol):
    partitions: list[Any]


PARTITIONS_PER_DECISION = 500
RECORD_BYTES_MIN = 45  # of an offset, beside the group, the topic and the metadata

P = TypeVar("P", bound=_Partition)
T = TypeVar("T", bound=_Topic)


def split(partitions: list[P], known: Container[int]) -> tuple[list[P], list[P]]:
    """(existing ones, missing ones)."""
    unknown = [asked for asked in partitions if asked.partition_index not in known]
    if not unknown:
        return partitions, unknown
    return [asked for asked in partitions if asked.partition_index in known], unknown


def in_parts(topics: list[T]) -> Steps[list[list[T]]]:
    """Split the topics into parts of some hundred partitions: one decision of a coordinator each.

    The partitions of a large topic are in several parts, each with a copy of the topic.
    """
    parts: list[list[T]] = []
    room = 0
    for topic in topics:
        first = 0
        while first < len(topic.partitions) or not first:
            if room <= 0:
                parts.append([])
                room = PARTITIONS_PER_DECISION
            piece = topic
            if first or len(topic.partitions) > room:
                piece = copy(topic)
                piece.partitions = topic.partitions[first : first + room]
            parts[-1].append(piece)
            first += max(len(piece.partitions), 1)
            room -= max(len(piece.partitions), 1)
            yield
    return parts


def rejoined(parts: list[list[T]], key: Callable[[T], Hashable]) -> list[T]:
    """Merge the topics of all parts; one whose partitions are in several parts becomes one topic again."""
    topics: list[T] = []
    for part in parts:
        rest = part
        if topics and part and key(topics[-1]) == key(part[0]):
            topics[-1].partitions += part[0].partitions
            rest = part[1:]
        topics += rest
    return topics


def commit_bytes(
    group_id: str,
    topics: Iterable[OffsetCommitRequest.OffsetCommitRequestTopic]
    | Iterable[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic],
) -> Steps[int]:
    """The minimum size of the records of a commit, in bytes."""
    size = 0
    for topic in topics:
        each = RECORD_BYTES_MIN + len(group_id) + len(topic.name)
        for asked in topic.partitions:
            size += each + len(asked.committed_metadata or "")
        yield
    return size


def check_commit_bytes(parts: HasGroups, group_id: str, size: int) -> None:
    """Reject a commit that does not fit into one batch, as Kafka does."""
    coordinator = parts.groups.coordinator
    log = coordinator.active(coordinator.partition_for(group_id)).partition.log
    if log is not None and size > log.config.max_message_bytes:
        raise MessageTooLarge(
            f"The commit needs at least {size} bytes, which exceeds "
            f"max.message.bytes={log.config.max_message_bytes} of {log.name}."
        )


def merged(refused: list[T], answered: list[T], key: Callable[[T], Hashable]) -> list[T]:
    """One entry per topic: what was rejected here, then the coordinator's result.

    If nothing was rejected, the coordinator's response stays as it is, with duplicate topics.
    """
    if not refused:
        return answered
    topics: dict[Hashable, T] = {}
    grown: set[Hashable] = set()
    for topic in [*refused, *answered]:
        name = key(topic)
        first = topics.setdefault(name, topic)
        if first is topic:
            continue
        if name not in grown:  # what was refused is needed again if the commit fails later
            grown.add(name)
            first = topics[name] = copy(first)
            first.partitions = list(first.partitions)
        first.partitions += topic.partitions
    return list(topics.values())
