"""Stream offsets as Spark stores them in its checkpoint: JSON, in the format of Spark's Kafka connector.

`{"orders": {"0": 23, "1": 7}}`, plus two entries that cannot be topic names. `#ids` has the topic ids, which
reveal that a topic was deleted and recreated. `#from` has the start offsets of partitions that had none
before: after a crash Spark asks for the first offsets again, and the answer may differ, so a batch that was
already planned is planned again from `#from`. Rule: Spark compares offsets as strings, so equal offsets must
serialize equally.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.values import TopicPartition
from ottla.wire import uuid

IDS = "#ids"
FROM = "#from"


class CheckpointError(ValueError):
    """The checkpoint's offsets come from another source or another subscription."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The position of a stream: the next offset of each partition."""

    offsets: Mapping[TopicPartition, int]
    ids: Mapping[str, bytes] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = _nested(self.offsets)
        ids = {topic: uuid.to_text(self.ids[topic]) for topic in sorted(self.ids) if topic in value}
        if ids:
            value[IDS] = ids
        if self.starts:
            value[FROM] = _nested(self.starts)
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StreamOffset:
        """Parse the JSON; raises CheckpointError if its format is not ours."""
        try:
            topics = {name: each for name, each in value.items() if not name.startswith("#")}
            ids = {name: uuid.from_text(text) for name, text in value.get(IDS, {}).items()}
            return cls(_flat(topics), ids, _flat(value.get(FROM, {})))
        except (ValueError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"The checkpoint contains offsets of another source ({_short(value)}). Use a separate "
                "checkpointLocation for this query."
            ) from error


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 100 else text[:100] + "..."


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for partition in sorted(offsets):
        nested.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(index)): int(offset)
        for topic, each in nested.items()
        for index, offset in each.items()
    }
