"""What the clients send and what they read back, in one shape for all of them.

`CASES` holds the awkward messages: a client that cannot express one of them says so in its `refuses`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# An hour ago: a record older than retention.ms may be deleted at any moment.
BASE_TIME_MS = time.time_ns() // 1_000_000 - 3_600_000


@dataclass(frozen=True, slots=True)
class Message:
    """A record before it is sent. Without `timestamp_ms` the client's own clock decides."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as a consumer sees it. `timestamp_type` is 0 for CreateTime and 1 for LogAppendTime."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Client(Protocol):
    """A producer and consumer of one library. Consumption is by assignment, without groups."""

    name: str

    @staticmethod
    def refuses(message: Message) -> bool:
        """Whether the library cannot express this message."""

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Iterable[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        on_acknowledged: Callable[[int, int], None] | None = None,
    ) -> list[int]:
        """Send in order, wait for all, return the offsets (-1 where the client is not told).
        `on_acknowledged` hears (index, offset) of each message as its acknowledgement arrives; a client
        that cannot say calls it at the end.
        """

    def consume(
        self, bootstrap: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Stored]:
        """`count` records from `offset` on; raises AssertionError if they do not arrive."""


def _case(index: int, key: bytes | None, value: bytes | None, *headers: tuple[str, bytes | None]) -> Message:
    # Timestamps neither rise steadily nor repeat, so that a client that mixes two up is found.
    return Message(key, value, headers, BASE_TIME_MS + (index * 7919) % 10_000)


CASES: tuple[Message, ...] = (
    _case(0, b"key", b"value"),
    _case(1, None, b"no key"),
    _case(2, b"tombstone", None),
    _case(3, b"empty value", b""),
    _case(4, b"", b"empty key"),
    _case(5, b"one header", b"v", ("trace", b"\x01\x02")),
    _case(6, b"repeated header", b"v", ("h", b"1"), ("h", b"2"), ("a", b""), ("h", b"3")),
    _case(7, b"header without value", b"v", ("absent", None), ("present", b"x")),
    _case(8, b"header names", b"v", ("", b"nameless"), ("größe-名", "wörth-値".encode())),
    _case(9, bytes(range(256)), bytes(reversed(range(256)))),
    _case(10, "schlüssel".encode(), "wert-値".encode()),
    _case(11, b"repetitive", b"abcdefgh" * 4096),
    _case(12, b"k" * 300, b"long varints" * 20_000),
    Message(b"last", b"client's own clock"),
)


def plain_messages(count: int, size: int = 40) -> list[Message]:
    """Messages that any client can send, numbered."""
    return [Message(b"k%d" % index, b"%08d" % index + b"." * (size - 8)) for index in range(count)]


def chunks(messages: Iterable[Message], size: int = 100) -> Iterator[list[Message]]:
    """The messages in lists, for clients that send several at a time."""
    source = iter(messages)
    while chunk := list(islice(source, size)):
        yield chunk
