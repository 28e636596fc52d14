"""Brokers for the tests of handlers, made of real parts, and the way to ask them.

An answer is encoded and decoded in the version that was asked for, so a test sees what a client would see.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from ottla.config import BrokerConfig, development_config
from ottla.controller.image import ClusterImage
from ottla.host import HostClock, HostDisk, HostRandom
from ottla.log.config import LogConfig
from ottla.log.log import Log
from ottla.ports import Clock
from ottla.records.record import Record, build_batch
from ottla.server.broker import Broker
from ottla.server.handlers import HANDLERS
from ottla.server.net.connection import Connection
from ottla.server.net.connection_quotas import ConnectionLimits, ConnectionQuotas
from ottla.server.net.dispatch import Dispatcher, RequestContext
from ottla.server.net.forwarding import Handler
from ottla.server.net.listener import Listener, ListenerSettings
from ottla.server.net.loop_lag import LoopLateness
from ottla.server.net.request_memory import RequestMemory
from ottla.server.net.response_memory import ResponseMemory
from ottla.server.net.turns import Turns
from ottla.server.replicas.fetch_sessions import FetchSessions
from ottla.server.replicas.partition import Partition
from ottla.testing.broker import make_node
from ottla.waiting.pending_response import PendingResponse
from ottla.wire import apis, codec, uuid
from ottla.wire.message import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.metadata_records import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)

T = TypeVar("T")

LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
DIRECTORY = bytes(15) + b"\xd1"

_HANDLES = {api.key: Handler(api.handle, api.refuse).direct for api in HANDLERS}


class StandingQuorum:
    """The facts of a quorum that does not move: for handlers that only read them."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.kraft_version = 1
        self.leader_id = 1


def config_of(overrides: dict[str, str] | None = None) -> BrokerConfig:
    return development_config(
        data_directory="/data", port=19092, controller_port=19093, overrides=overrides or {}
    )


def broker_of(
    image: ClusterImage, overrides: dict[str, str] | None = None, clock: Clock | None = None
) -> Broker:
    """A broker for handlers that read the image, the settings and the partitions."""
    broker = Broker(
        node_id=1,
        cluster_id="cluster-of-tests",
        config=config_of(overrides),
        clock=clock or HostClock(),
        random=HostRandom(),
        disk=cast(Any, None),
        image=image,
        quorum=cast(Any, StandingQuorum(image)),
        directories=cast(Any, None),
        fetch_sessions=FetchSessions(HostClock(), HostRandom(), 10),
        producer_ids=cast(Any, None),
        lateness=LoopLateness(HostClock()),
    )
    broker.api_keys = Dispatcher(broker, HANDLERS, LISTENER, "broker").api_keys
    return broker


def connection_of(listener: str = LISTENER, *, clock: Clock | None = None) -> Connection:
    """A connection that nobody has opened yet."""
    clock = clock or HostClock()
    return Connection(
        Listener(
            ListenerSettings(name=listener, host="", port=0, frame_bytes_max=1 << 20, idle_max_ms=1000),
            clock=clock,
            memory=RequestMemory(1 << 20),
            answers=ResponseMemory(1 << 26),
            quotas=ConnectionQuotas(clock, ConnectionLimits()),
            lateness=LoopLateness(clock),
            turns=Turns(clock),
        )
    )


def context_of(version: int, listener: str = LISTENER) -> RequestContext:
    return RequestContext(version, 1, "tests", connection_of(listener), listener)


def as_sent(message: Message, version: int) -> Any:
    """What the other side makes of a message."""
    return codec.decode(type(message), codec.encode(message, version), version)


def newest(request: Message) -> int:
    assert request.API_KEY is not None
    return apis.API_BY_KEY[request.API_KEY].stable_versions[-1]


def ask(parts: Any, request: Message, version: int | None = None, listener: str = LISTENER) -> Any:
    """The answer to a request; one that comes later is waited for on a loop of its own.

    `parts`: a broker, or an object that has the parts that the handler declares.
    """
    outcome = made(start(parts, request, newest(request) if version is None else version, listener))
    return (
        asyncio.run(finish(outcome, request, version))
        if inspect.iscoroutine(outcome)
        else _sent(outcome, request, version)
    )


async def ask_later(
    parts: Any, request: Message, version: int | None = None, listener: str = LISTENER
) -> Any:
    """The same on the loop that runs."""
    outcome = start(parts, request, newest(request) if version is None else version, listener)
    return await finish(outcome, request, version)


def start(parts: Any, request: Message, version: int, listener: str) -> Any:
    assert request.API_KEY is not None
    return _HANDLES[request.API_KEY](parts, as_sent(request, version), context_of(version, listener))


async def finish(outcome: Any, request: Message, version: int | None) -> Any:
    outcome = made(outcome)
    if isinstance(outcome, PendingResponse):
        outcome = await _settled(outcome)
    return _sent(made(await outcome if inspect.isawaitable(outcome) else outcome), request, version)


def made(outcome: Any) -> Any:
    """What a handler that works in steps comes to."""
    while inspect.isgenerator(outcome):
        try:
            next(outcome)
        except StopIteration as end:
            outcome = end.value
    return outcome


async def _settled(answer: PendingResponse) -> Any:
    if not answer.is_completed:
        settled = asyncio.Event()
        answer.on_completed = settled.set
        await settled.wait()
    return answer.response


def _sent(response: Message, request: Message, version: int | None) -> Any:
    return as_sent(response, newest(request) if version is None else version)


# A cluster, by its records


def register(
    image: ClusterImage,
    broker_id: int,
    *,
    fenced: bool = False,
    listener: str = LISTENER,
    rack: str | None = None,
) -> None:
    image.replay(
        RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=bytes([broker_id]) * 16,
            broker_epoch=broker_id * 10,
            end_points=[
                RegisterBrokerRecord.BrokerEndpoint(name=listener, host=f"host{broker_id}", port=9092)
            ],
            rack=rack,
            fenced=fenced,
            log_dirs=[DIRECTORY],
        )
    )


def add_topic(image: ClusterImage, name: str, partitions: int = 1, **fields: Any) -> bytes:
    """A topic led by broker 1, or as `fields` of its partitions say; its id."""
    topic_id = name.encode().ljust(16, b"_")[:16]
    replicas = fields.pop("replicas", [1])
    image.replay(TopicRecord(name=name, topic_id=topic_id))
    for index in range(partitions):
        image.replay(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=replicas,
                isr=fields.get("isr", replicas),
                leader=fields.get("leader", replicas[0]),
                leader_epoch=fields.get("leader_epoch", 0),
                directories=fields.get("directories", [uuid.DIRECTORY_UNASSIGNED] * len(replicas)),
                eligible_leader_replicas=fields.get("elr"),
                last_known_elr=fields.get("last_known_elr"),
            )
        )
    return topic_id


def image_of(*broker_ids: int, **topics: int) -> ClusterImage:
    """Live brokers, and topics by their number of partitions."""
    image = ClusterImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    for broker_id in broker_ids or (1,):
        register(image, broker_id)
    image.replay(
        RegisterControllerRecord(
            controller_id=1,
            end_points=[
                RegisterControllerRecord.ControllerEndpoint(name=CONTROLLER_LISTENER, host="host1", port=9093)
            ],
        )
    )
    for name, partitions in topics.items():
        add_topic(image, name, partitions)
    return image


# Logs


def host_log(
    broker: Broker, disk: HostDisk, directory: str, topic: str, index: int = 0, **settings: str
) -> Log:
    """A log on disk for a partition of the image, hosted and led by the broker."""
    registered = broker.image.topics_by_name[topic]
    config = LogConfig.from_texts({name.replace("_", "."): text for name, text in settings.items()})
    log = Log.open(
        disk,
        broker.clock,
        f"{directory}/{topic}-{index}",
        config,
        topic=topic,
        partition=index,
        topic_id=registered.id,
    )
    partition = Partition(topic, registered.id, index, log)
    partition.leader_epoch = registered.partitions[index].leader_epoch
    partition.leader_id = registered.partitions[index].leader
    partition.is_leader = partition.leader_id == broker.node_id
    partition.isr = list(registered.partitions[index].isr)
    log.assign_epoch_start_offset(partition.leader_epoch, log.log_end_offset)
    broker.partitions.add(partition)
    return log


def append(broker: Broker, topic: str, *timestamps: int, index: int = 0, **producer: Any) -> None:
    """One batch with a record for each timestamp."""
    partition = broker.partitions.get(topic, index)
    assert partition is not None
    batch = build_batch([Record(0, timestamp, b"key", b"value") for timestamp in timestamps], **producer)
    partition.append(memoryview(batch), acks=1, now_ms=broker.clock.now_ms())


# A whole node


class RunningNode:
    """A node of real parts on a loop of its own; its handlers are asked without a socket between."""

    def __init__(self, directory: str, settings: dict[str, str]) -> None:
        self._runner = asyncio.Runner()
        self._node = make_node(directory, 0, settings)
        self._runner.run(self._node.start())

    @property
    def broker(self) -> Broker:
        return self._node.broker

    def ask(self, request: Message, version: int | None = None, listener: str = LISTENER) -> Any:
        return self._runner.run(ask_later(self.broker, request, version, listener))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def create(self, name: str, partitions: int = 1, **settings: str) -> None:
        """A topic, with settings whose dots are written as underscores."""
        configs = [
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=text)
            for key, text in settings.items()
        ]
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, configs=configs
        )
        (result,) = self.ask(CreateTopicsRequest(topics=[topic])).topics
        assert result.error_code == 0, result.error_message

    def append(self, topic: str, *timestamps: int, **producer: Any) -> None:
        async def work() -> None:
            append(self.broker, topic, *timestamps, **producer)

        self.run(work())

    def close(self) -> None:
        try:
            self._runner.run(self._node.stop())
        finally:
            self._runner.close()
