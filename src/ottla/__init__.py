"""Ottla: an event streaming platform that speaks Apache Kafka on every side.

The client's names are imported when they are first used, so that `import ottla` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.version import __version__

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.consumer.consumer import Consumer
    from ottla.client.core.accumulator import Delivery, DeliveryReport
    from ottla.client.producer.preparation import ProducerRecord
    from ottla.client.producer.producer import Producer, Transaction
    from ottla.client.values import GroupMetadata, OffsetAndMetadata, Status, TopicPartition
    from ottla.records.consumer_record import ConsumerRecord

_HOMES = {
    "Admin": "ottla.client.admin",
    "Consumer": "ottla.client.consumer.consumer",
    "ConsumerRecord": "ottla.records.consumer_record",
    "Delivery": "ottla.client.core.accumulator",
    "DeliveryReport": "ottla.client.core.accumulator",
    "GroupMetadata": "ottla.client.values",
    "OffsetAndMetadata": "ottla.client.values",
    "Producer": "ottla.client.producer.producer",
    "ProducerRecord": "ottla.client.producer.preparation",
    "Status": "ottla.client.values",
    "TopicPartition": "ottla.client.values",
    "Transaction": "ottla.client.producer.producer",
}

__all__ = [
    "Admin",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "DeliveryReport",
    "GroupMetadata",
    "OffsetAndMetadata",
    "Producer",
    "ProducerRecord",
    "Status",
    "TopicPartition",
    "Transaction",
    "__version__",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
