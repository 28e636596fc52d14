"""The client on the running event loop: the names of `ottla`, awaited."""

from __future__ import annotations

from ottla.client.admin import AsyncAdmin as Admin
from ottla.client.consumer.consumer import AsyncConsumer as Consumer
from ottla.client.core.accumulator import Delivery, DeliveryReport
from ottla.client.producer.async_producer import AsyncProducer as Producer
from ottla.client.producer.async_producer import AsyncTransaction as Transaction
from ottla.client.producer.preparation import ProducerRecord
from ottla.client.values import GroupMetadata, OffsetAndMetadata, Status, TopicPartition
from ottla.records.consumer_record import ConsumerRecord

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
]
