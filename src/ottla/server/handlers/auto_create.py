"""Topics that are created automatically: `auto.create.topics.enable`, and the internal topics.

An ordinary topic gets the node's `num.partitions` and `default.replication.factor` if they are set, else
those of the controller. An internal topic gets its own settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from copy import copy
from typing import TYPE_CHECKING, Protocol

from ottla.controller.result import RECORDS_PER_REQUEST_MAX
from ottla.server.net.long_requests import Steps
from ottla.server.parts import HasBackground, HasConfig, HasQuorum, HasStepRunner, HasTopicsInCreation
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreateTopicsRequest

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

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


class CreationParts(HasConfig, HasQuorum, HasStepRunner, HasBackground, HasTopicsInCreation, Protocol):
    """The parts of a node that `create_in_background` uses."""


def create_in_background(parts: CreationParts, names: Iterable[str]) -> None:
    """Have the controller create topics; clients request their metadata again.

    A name whose creation is in progress is not requested again. The controller rejects more topics than its
    limit per request, so the request stays below it.
    """
    under_way = parts.topics_in_creation
    wanted = [name for name in dict.fromkeys(names) if name not in under_way]
    if len(wanted) + len(under_way) > RECORDS_PER_REQUEST_MAX:
        logger.warning(
            "Did not auto-create %d topics: the limit is %d per request", len(wanted), RECORDS_PER_REQUEST_MAX
        )
    elif wanted:
        under_way.update(wanted)
        task = parts.in_background(_create(parts, wanted))
        task.add_done_callback(lambda _done: under_way.difference_update(wanted))


async def _create(parts: CreationParts, names: list[str]) -> None:
    request = CreateTopicsRequest(topics=await parts.step_runner.run(_creatable_topics(parts.config, names)))
    try:
        response = await parts.quorum.ask(request, timeout_ms=parts.config.int_of("request.timeout.ms"))
    except KafkaError as error:
        logger.warning("Failed to auto-create topics %s: %s", ", ".join(names), error)
        return
    for result in response.topics:
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            logger.warning("Failed to auto-create topic %s: %s", result.name, result.error_message)


def _creatable_topics(config: BrokerConfig, names: list[str]) -> Steps[list[_Topic]]:
    ordinary = _ordinary_topic(config)
    topics = []
    for name in names:
        topics.append(creatable_topic(config, name, ordinary))
        yield
    return topics


def creatable_topic(config: BrokerConfig, name: str, ordinary: _Topic | None = None) -> _Topic:
    """The parameters of a topic to create; `ordinary` is the result of `_ordinary_topic`."""
    internal = _INTERNAL.get(name)
    if internal is None:
        topic = copy(ordinary or _ordinary_topic(config))
        topic.name = name
        return topic
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


def _ordinary_topic(config: BrokerConfig) -> _Topic:
    return _Topic(
        num_partitions=_if_set(config, "num.partitions"),
        replication_factor=_if_set(config, "default.replication.factor"),
    )


def _if_set(config: BrokerConfig, name: str) -> int:
    from ottla.config import describe_broker

    (entry,) = describe_broker(config, [name])
    return LET_THE_CONTROLLER_CHOOSE if entry.is_default else config.int_of(name)
