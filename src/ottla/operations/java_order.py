"""Java behaviour visible in the output of Kafka's tools: the order of a HashMap, the text of exceptions.

Scripts parse the output of the tools, so ours must match.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from typing import TypeVar

from ottla.client.errors import TimedOut
from ottla.wire.errors import ErrorCode, KafkaError

K = TypeVar("K", bound=Hashable)

_CAPACITY = 16
_LOAD = 0.75
_MASK = 0xFFFFFFFF


def string_hash(text: str) -> int:
    """Java's String.hashCode, as an unsigned 32-bit number."""
    found = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        found = (31 * found + (encoded[position] << 8 | encoded[position + 1])) & _MASK
    return found


def partition_hash(partition: tuple[str, int]) -> int:
    """Java's TopicPartition.hashCode."""
    topic, index = partition
    return (31 * (31 + index) + string_hash(topic)) & _MASK


def int_hash(number: int) -> int:
    """Java's Integer.hashCode."""
    return number & _MASK


def map_order(keys: Iterable[K], hash_of: Callable[[K], int], capacity: int = _CAPACITY) -> list[K]:
    """Keys in the iteration order of a HashMap into which they were inserted in the given order.

    `capacity` is the map's initial capacity. Keys in one bucket keep their order.
    """
    ordered = list(dict.fromkeys(keys))
    size = 1
    while size < max(capacity, 1):
        size *= 2
    while len(ordered) > size * _LOAD:
        size *= 2

    def bucket(key: K) -> int:
        found = hash_of(key)
        return (found ^ found >> 16) & (size - 1)

    return sorted(ordered, key=bucket)


def entity_hash(entity: Iterable[tuple[str, str | None]]) -> int:
    """Java's ClientQuotaEntity.hashCode: the hash of the map of an entity's parts."""
    parts = sum(string_hash(kind) ^ (0 if name is None else string_hash(name)) for kind, name in entity)
    return (31 + parts) & _MASK


def double_text(value: float) -> str:
    """Format a number like Java's Double.toString."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(value, "f") if "e" in repr(value) else repr(value)
        return text.rstrip("0") + "0" if text.endswith(".0") or text.rstrip("0").endswith(".") else text
    digits, _, exponent = format(Decimal(repr(value)), "e").partition("e")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"


_CLASSES = {
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
}
_TEXTS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it."
    ),
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.OFFSET_OUT_OF_RANGE: (
        "The requested offset is not within the range of offsets maintained by the server."
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: "The coordinator is not aware of this member.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
}


def message_of(error: BaseException) -> str:
    """The message of an exception in Java, including the default messages of error codes."""
    if isinstance(error, KafkaError) and error.message is None:
        return _TEXTS.get(error.code, error.code.name)
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def text_of(error: BaseException) -> str:
    """Format an exception like Java: class and message."""
    if not isinstance(error, TimedOut | KafkaError):
        return message_of(error)
    return f"{class_of(error)}: {message_of(error)}"


def class_of(error: BaseException) -> str:
    """The Java class of an exception, or our own if Java has none."""
    if isinstance(error, TimedOut):
        return "org.apache.kafka.common.errors.TimeoutException"
    if not isinstance(error, KafkaError):
        return f"{type(error).__module__}.{type(error).__qualname__}"
    name = "".join(word.capitalize() for word in error.code.name.removesuffix("_EXCEPTION").split("_"))
    named = _CLASSES.get(error.code, f"{name.replace('AuthorizationFailed', 'Authorization')}Exception")
    return f"org.apache.kafka.common.errors.{named}"
