"""Records before they are batched: interceptors, serializers and the partitioner of one producer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ottla.client.config import ProducerSettings
from ottla.client.core.accumulator import DeliveryReport
from ottla.client.core.partitioners import partitioner_of
from ottla.client.errors import SerializationError
from ottla.client.serialization.serializers import Serialize, serializer_of
from ottla.ports import Random

log = logging.getLogger(__name__)

Headers: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
OnDelivery: TypeAlias = Callable[[DeliveryReport], object]


class ProducerRecord(NamedTuple):
    """A record as interceptors see it, before it is serialized."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Headers | None = None
    partition: int | None = None
    timestamp: int | None = None


class PreparedRecord(NamedTuple):
    """A record in the form that the accumulator accepts."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] | None
    partition: int
    timestamp: int
    callback: OnDelivery | None


class Preparation:
    """What is done to each record between `send` and the accumulator."""

    def __init__(self, settings: ProducerSettings, random: Random) -> None:
        self._key_serializer = serializer_of(settings.key_serializer, "key.serializer")
        self._value_serializer = serializer_of(settings.value_serializer, "value.serializer")
        self.partitioner = partitioner_of(settings.partitioner_class, random)
        self._interceptors = [one() if isinstance(one, type) else one for one in settings.interceptor_classes]

    @property
    def is_empty(self) -> bool:
        """Whether records of bytes are sent unchanged."""
        steps = (self._key_serializer, self._value_serializer, self.partitioner)
        return not self._interceptors and all(step is None for step in steps)

    def prepare(self, record: ProducerRecord, on_delivery: OnDelivery | None) -> PreparedRecord:
        for interceptor in self._interceptors:
            try:
                record = interceptor.on_send(record)
            except Exception:
                log.exception("An interceptor failed; sending the record without its changes.")
        if self._interceptors:
            on_delivery = self._acknowledging(on_delivery)
        if not isinstance(record.topic, str) or not record.topic:
            raise ValueError("A record needs a topic name.")
        if record.partition is not None and record.partition < 0:
            raise ValueError(f"Invalid partition {record.partition}: it must not be negative.")
        return PreparedRecord(
            record.topic,
            _bytes_of("key", record.topic, record.key, self._key_serializer),
            _bytes_of("value", record.topic, record.value, self._value_serializer),
            _headers_of(record.headers),
            -1 if record.partition is None else record.partition,
            -1 if record.timestamp is None else record.timestamp,
            on_delivery,
        )

    def _acknowledging(self, on_delivery: OnDelivery | None) -> OnDelivery:
        def acknowledge(report: DeliveryReport) -> None:
            for interceptor in self._interceptors:
                on_acknowledgement = getattr(interceptor, "on_acknowledgement", None)
                if on_acknowledgement is not None:
                    try:
                        on_acknowledgement(report)
                    except Exception:
                        log.exception("An interceptor failed on an acknowledgement.")
            if on_delivery is not None:
                on_delivery(report)

        return acknowledge

    def close(self) -> None:
        for one in (*self._interceptors, self.partitioner):
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
            raise SerializationError(
                f"Cannot serialize the {part} of a record for {topic}: {error!r}"
            ) from error
    if given is None or type(given) is bytes:
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    raise SerializationError(
        f"The {part} of a record for {topic} is a {type(given).__name__}. Pass bytes or str, or set "
        f"{part}_serializer."
    )


def _headers_of(given: Headers | None) -> list[tuple[str, bytes | None]] | None:
    if not given:
        return None
    pairs = given.items() if isinstance(given, Mapping) else given
    return [(name, _bytes_of("header", name, value, None)) for name, value in pairs]
