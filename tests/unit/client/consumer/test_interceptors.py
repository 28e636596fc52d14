"""The interceptors that come with the library."""

from __future__ import annotations

from ottla import ConsumerRecord
from ottla.client.consumer.interceptors import DropOlder


class FixedClock:
    def now_ms(self) -> int:
        return 10_000

    def monotonic(self) -> float:
        return 0.0


def record(timestamp: int) -> ConsumerRecord[None, bytes]:
    return ConsumerRecord("t", 0, 0, timestamp, "CreateTime", None, b"", (), None)


def test_records_older_than_their_time_to_live_are_dropped() -> None:
    interceptor = DropOlder(1000, FixedClock())
    kept = interceptor.on_consume([record(8_999), record(9_000), record(10_500), record(-1)])
    assert [one.timestamp for one in kept] == [9_000, 10_500, -1]
    assert interceptor.dropped == 1
