"""What the producers have in common: interceptors, serializers and the partitioner before one engine.

A record that needs none of them goes from `send` straight into the accumulator, compiled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import NEEDS_TOPIC, DeliveryReport
from ottla.client.core.partitioners import partitioner_of
from ottla.client.core.transactions import Handle
from ottla.client.errors import AbortableError, BufferExhausted, ConfigError, SerializationError
from ottla.client.producer.engine import Engine
from ottla.client.producer.transactions import TransactionRunner
from ottla.client.serialization.serializers import Serialize, serializer_of
from ottla.client.values import GroupMetadata
from ottla.host import HostClock, HostNetwork, HostRandom
from ottla.ports import Clock, Network, Random

log = logging.getLogger(__name__)

Headers: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
OffsetsOrConsumer: TypeAlias = Any
"""A mapping of TopicPartition to OffsetAndMetadata, or a consumer."""
OnDelivery: TypeAlias = Callable[[DeliveryReport], object]
ROOM_WAIT_SECONDS = 0.1


class ProducerRecord(NamedTuple):
    """A record as interceptors see it, before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


class Ready(NamedTuple):
    """A record as the accumulator takes it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    partition: int
    timestamp: int
    callback: OnDelivery | None


class _Chain:
    """What a record passes on its way to the accumulator."""

    def __init__(self, settings: ProducerSettings, random: Any) -> None:
        self.key_serializer = serializer_of(settings.key_serializer, "key.serializer")
        self.value_serializer = serializer_of(settings.value_serializer, "value.serializer")
        self.partitioner = partitioner_of(settings.partitioner_class, random)
        self.interceptors = [one() if isinstance(one, type) else one for one in settings.interceptor_classes]

    @property
    def is_empty(self) -> bool:
        """Whether bytes pass as they are."""
        steps = (self.key_serializer, self.value_serializer, self.partitioner)
        return not self.interceptors and all(step is None for step in steps)

    def prepare(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> Ready:
        for interceptor in self.interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                log.exception("An interceptor failed; the record is sent as it was before it.")
        if self.interceptors:
            on_delivery = self._acknowledging(on_delivery)
        if not isinstance(record.topic, str) or not record.topic:
            raise ValueError("A record needs the name of a topic.")
        if record.partition is not None and record.partition < 0:
            raise ValueError(f"There is no partition {record.partition}.")
        return Ready(
            record.topic,
            _bytes_of("key", record.topic, record.key, self.key_serializer),
            _bytes_of("value", record.topic, record.value, self.value_serializer),
            _headers_of(record.headers),
            -1 if record.partition is None else record.partition,
            -1 if record.timestamp is None else record.timestamp,
            on_delivery,
        )

    def _acknowledging(self, on_delivery: OnDelivery | None) -> OnDelivery:
        def tell(report: DeliveryReport) -> None:
            for interceptor in self.interceptors:
                heard = getattr(interceptor, "on_acknowledgement", None)
                if heard is not None:
                    try:
                        heard(report)
                    except Exception:
                        log.exception("An interceptor failed.")
            if on_delivery is not None:
                on_delivery(report)

        return tell

    def close(self) -> None:
        for one in (*self.interceptors, self.partitioner):
            close = getattr(one, "close", None)
            if callable(close):
                with contextlib.suppress(Exception):
                    close()


def _bytes_of(part: str, topic: str, given: Any, serializer: Serialize | None) -> bytes | None:
    if serializer is not None and given is not None:
        try:
            given = serializer(topic, given)
        except SerializationError:
            raise
        except Exception as error:
            raise SerializationError(f"The {part} for {topic} cannot be serialized: {error!r}") from error
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise SerializationError(
        f"A {part} for {topic} is a {type(given).__name__}: give bytes or str, or set {part}_serializer."
    )


def _headers_of(given: Headers | None) -> list[tuple[str, bytes | None]] | None:
    if not given:
        return None
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(name, _bytes_of("header", name, value, None)) for name, value in pairs]


class ProducerBase:
    """What both producers have in common."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        handle: Handle | None = None,
        clock: Clock | None = None,
        network: Network | None = None,
        random: Random | None = None,
        **hooks: Any,
    ) -> None:
        clock, network, random = clock or HostClock(), network or HostNetwork(), random or HostRandom()
        self._settings = settings
        self._clock = clock
        for warning in settings.warnings:
            log.warning("%s", warning)
        self._chain = _Chain(settings, random)
        self._lock = threading.RLock()
        self._engine = Engine(settings, clock=clock, network=network, random=random, lock=self._lock, **hooks)
        self._engine.may_be_fast = self._chain.is_empty
        if handle is not None and self._engine.transactions is not None:
            self._engine.transactions.join(handle)
        self._engine.update_fast()

    @property
    def settings(self) -> ProducerSettings:
        return self._settings

    @property
    def _runner(self) -> TransactionRunner:
        if self._engine.transactions is None:
            raise ConfigError("Transactions need a transactional.id: set it when the producer is made.")
        return self._engine.transactions

    def _check(self) -> None:
        self._engine.check_open()
        if self._engine.transactions is not None:
            self._engine.transactions.transactions.check_may_send()

    def _ready(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> Ready:
        self._check()
        record = ProducerRecord(topic, value, key, headers, partition, timestamp)
        return self._chain.prepare(record, on_delivery)

    def _append(self, ready: Ready) -> Any:
        accumulator = self._engine.accumulator
        partition = ready.partition
        if partition < 0 and self._chain.partitioner is not None:
            queues = accumulator.topics.get(ready.topic)
            if queues is None:
                return NEEDS_TOPIC
            partition = self._chain.partitioner(ready.topic, ready.key, ready.value, queues.view)
            if not 0 <= partition < len(queues.queues):
                raise ValueError(f"The partitioner chose partition {partition}, which {ready.topic} has not.")
        return accumulator.append(
            ready.topic, ready.key, ready.value, ready.headers, partition, ready.timestamp, ready.callback
        )

    def _no_room(self) -> BufferExhausted:
        return BufferExhausted(
            f"buffer.memory ({self._settings.buffer_memory} bytes) stayed full for max.block.ms "
            f"({self._settings.max_block_ms} ms): brokers take less than is sent."
        )

    def metrics(self) -> dict[str, int]:
        """Counts of this moment."""
        accumulator = self._engine.accumulator
        return {
            "batches": len(accumulator.incomplete),
            "buffered_bytes": accumulator.used,
            "topics": len(accumulator.topics),
            **self._engine.counts,
        }


def settings_of(
    given: Mapping[str, object] | str | ProducerSettings | None, keywords: dict[str, Any]
) -> ProducerSettings:
    return given if isinstance(given, ProducerSettings) else ProducerSettings.parse(given, **keywords)


def handle_of(given: Handle | str, keywords: dict[str, Any]) -> tuple[Handle, dict[str, Any]]:
    handle = Handle.from_text(given) if isinstance(given, str) else given
    servers = {} if "bootstrap_servers" in keywords else {"bootstrap_servers": handle.bootstrap_servers}
    return handle, {**servers, **keywords, "transactional_id": handle.transactional_id}


def group_of(group: GroupMetadata | str) -> GroupMetadata:
    return GroupMetadata(group) if isinstance(group, str) else group


def timeout_on_leaving(kind: type[BaseException] | None) -> float | None:
    """How long the end of a `with` block waits for deliveries, by the exception that leaves the block.

    Ctrl-C and a cancellation end it at once. `sys.exit()` does not: what was sent is delivered first.
    """
    is_hasty = kind is not None and issubclass(kind, KeyboardInterrupt | asyncio.CancelledError)
    return 0.0 if is_hasty else None


def joined_failure(engine: Engine) -> AbortableError | None:
    runner = engine.transactions
    if runner is None or not runner.is_joined or not runner.drops_unsent:
        return None
    return AbortableError(f"A record of the shared transaction was not written: {runner.transactions.error}")
