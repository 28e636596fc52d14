"""What the APIs that change offsets share: partitions that do not exist, and one answer out of two."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ottla.server.net.long_requests import Steps
from ottla.wire.errors import MessageTooLarge

if TYPE_CHECKING:
    from ottla.server.broker import Broker
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
    """(those that exist, those that do not)."""
    unknown = [asked for asked in partitions if asked.partition_index not in known]
    if not unknown:
        return partitions, unknown
    return [asked for asked in partitions if asked.partition_index in known], unknown


def in_parts(topics: list[T]) -> Steps[list[list[T]]]:
    """The topics in parts that have some hundred partitions each: one decision of a coordinator's for each.

    The partitions of a large topic come in several parts, and with them a copy of the topic.
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
    """The topics of all parts; one whose partitions came in several parts is one topic again."""
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
    """How many bytes the records of a commit have at least."""
    size = 0
    for topic in topics:
        each = RECORD_BYTES_MIN + len(group_id) + len(topic.name)
        for asked in topic.partitions:
            size += each + len(asked.committed_metadata or "")
        yield
    return size


def check_commit_bytes(broker: Broker, group_id: str, size: int) -> None:
    """Refuse a commit that could not be written as one batch, as Kafka does."""
    coordinator = broker.groups.coordinator
    log = coordinator.active(coordinator.partition_for(group_id)).partition.log
    if log is not None and size > log.config.max_message_bytes:
        raise MessageTooLarge(
            f"The commit needs at least {size} bytes, which exceeds "
            f"max.message.bytes={log.config.max_message_bytes} of {log.name}."
        )


def merged(refused: list[T], answered: list[T], key: Callable[[T], Hashable]) -> list[T]:
    """One entry for each topic: what was refused here, then what the coordinator said.

    Where nothing was refused the coordinator's answer stays as it is, a topic that was named twice twice.
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
