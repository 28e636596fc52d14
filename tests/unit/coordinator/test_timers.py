"""A shard's timers, on a loop whose time is set by the test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ottla.coordinator.result import Result
from ottla.coordinator.timers import Timers


class Handle:
    def __init__(self, when: float, call: Callable[..., None], key: object) -> None:
        self.when, self.call, self.key = when, call, key

    def cancel(self) -> None:
        self.when = float("inf")


class Loop:
    def __init__(self) -> None:
        self.now = 0.0
        self.handles: list[Handle] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[..., None], key: object) -> Handle:
        self.handles.append(Handle(when, call, key))
        return self.handles[-1]

    def run_at(self, now: float) -> None:
        """One turn at this time, whenever the timers were due."""
        self.now = now
        due = [handle for handle in self.handles if handle.when <= now]
        self.handles = [handle for handle in self.handles if handle.when > now]
        for handle in due:
            handle.call(handle.key)


def made() -> tuple[Loop, Timers, list[str]]:
    loop, decided = Loop(), list[str]()
    timers = Timers(cast(Any, loop), lambda decision: decided.append(cast(Any, decision())))
    return loop, timers, decided


def expire() -> Result[Any]:
    return cast("Result[Any]", "expired")


def test_a_session_that_is_looked_at_late_gets_as_much_longer() -> None:
    loop, timers, decided = made()
    timers.start("session", 6_000, expire)
    loop.run_at(7.0)  # it was due at 6, and the member's heartbeat may lie in a socket
    assert decided == []
    loop.run_at(8.0)
    assert decided == ["expired"]


def test_a_heartbeat_that_was_read_late_keeps_the_session() -> None:
    loop, timers, decided = made()
    timers.start("session", 6_000, expire)
    loop.run_at(7.0)
    timers.start("session", 6_000, expire)
    loop.run_at(8.0)
    loop.run_at(12.9)
    assert decided == []
    loop.run_at(13.0)
    assert decided == ["expired"]


def test_a_session_is_extended_once_and_not_without_end() -> None:
    loop, timers, decided = made()
    timers.start("session", 6_000, expire)
    loop.run_at(1000.0)
    loop.run_at(1004.9)
    assert decided == []
    loop.run_at(1005.5)  # late again
    assert decided == ["expired"]


def test_a_timer_on_time_decides_at_once() -> None:
    loop, timers, decided = made()
    timers.start("session", 6_000, expire)
    loop.run_at(6.01)
    assert decided == ["expired"]
    assert len(timers) == 0
