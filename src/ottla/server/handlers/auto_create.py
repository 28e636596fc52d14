"""Topics that are made because somebody asked for them: `auto.create.topics.enable`, and the internal topics.

An ordinary topic gets the node's `num.partitions` and `default.replication.factor` where these are set, and
else what the controller's configuration says. An internal one gets its own settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.server.broker import Broker

LET_THE_CONTROLLER_CHOOSE = -1

_Topic = CreateTopicsRequest.CreatableTopic

# Topic -> (setting for the partitions, for the replication factor, for the segment size, further settings).
_INTERNAL = {
    "__consumer_offsets": (
        "offsets.topic.num.partitions",
        "offsets.topic.replication.factor",
        "offsets.topic.segment.bytes",
        {"cleanup.policy": "compact", "compression.type": "producer"},
    ),
    "__transaction_state": (
        "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor",
        "transaction.state.log.segment.bytes",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
        },
    ),
    "__share_group_state": (
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.segment.bytes",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}
_MIN_ISR = {
    "__transaction_state": "transaction.state.log.min.isr",
    "__share_group_state": "share.coordinator.state.topic.min.isr",
}

logger = logging.getLogger("ottla.server.auto_create")


def create_in_background(broker: Broker, names: Iterable[str]) -> None:
    """Have the controller make topics. Whoever wants them asks for their metadata again."""
    broker.in_background(_create(broker, list(names)))


async def _create(broker: Broker, names: list[str]) -> None:
    request = CreateTopicsRequest(topics=[creatable_topic(broker.config, name) for name in names])
    try:
        response = await broker.quorum.ask(request, timeout_ms=broker.config.int_of("request.timeout.ms"))
    except KafkaError as error:
        logger.warning("Topics %s were not created: %s", ", ".join(names), error)
        return
    for result in response.topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.warning("Topic %s was not created: %s", result.name, result.error_message)


def creatable_topic(config: BrokerConfig, name: str) -> _Topic:
    """How a topic is made that nobody described."""
    internal = _INTERNAL.get(name)
    if internal is None:
        return _Topic(
            name=name,
            num_partitions=_if_set(config, "num.partitions"),
            replication_factor=_if_set(config, "default.replication.factor"),
        )
    partitions, replication_factor, segment_bytes, texts = internal
    texts = {**texts, "segment.bytes": str(config.int_of(segment_bytes))}
    if name in _MIN_ISR:
        texts["min.insync.replicas"] = str(config.int_of(_MIN_ISR[name]))
    return _Topic(
        name=name,
        num_partitions=config.int_of(partitions),
        replication_factor=config.int_of(replication_factor),
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=text) for key, text in texts.items()
        ],
    )


def _if_set(config: BrokerConfig, name: str) -> int:
    from ottla.config import describe_broker

    (entry,) = describe_broker(config, [name])
    return LET_THE_CONTROLLER_CHOOSE if entry.is_default else config.int_of(name)
