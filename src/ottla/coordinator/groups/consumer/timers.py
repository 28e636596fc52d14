"""The timers of a consumer group's members: when one fires the member is fenced, unless it has moved on.

Also, how a decision rolls back its own notes when its records are rejected or its task fails.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from functools import partial
from typing import TypeVar

from ottla.coordinator.result import Result, StartTimer, StopTimer
from ottla.wire.errors import KafkaError

_T = TypeVar("_T")

Fence = Callable[[str, str], Result[object]]


class ConsumerTimers:
    """`fence` removes a member (group id, member id) if it still exists.

    Join and sync timers are for classic members: the time to rejoin after REBALANCE_IN_PROGRESS, and the time
    to send SyncGroup after they have joined.
    """

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._joining: set[tuple[str, str]] = set()

    def start_session(self, group_id: str, member_id: str, timeout_ms: int, result: Result[object]) -> None:
        """Restarted by each heartbeat."""
        decision = partial(self._fence, group_id, member_id)
        result.timers.append(StartTimer(("consumer-session", group_id, member_id), timeout_ms, decision))

    def start_rebalance(
        self,
        group_id: str,
        member_id: str,
        timeout_ms: int,
        decision: Callable[[], Result[object]],
        result: Result[object],
    ) -> None:
        result.timers.append(StartTimer(_rebalance_key(group_id, member_id), timeout_ms, decision))

    def stop_rebalance(self, group_id: str, member_id: str, result: Result[object]) -> None:
        result.timers.append(StopTimer(_rebalance_key(group_id, member_id)))

    def start_join(self, group_id: str, member_id: str, timeout_ms: int, result: Result[object]) -> None:
        """The time runs from the first REBALANCE_IN_PROGRESS."""
        if (group_id, member_id) not in self._joining:
            self._joining.add((group_id, member_id))
            decision = partial(self._join_over, group_id, member_id)
            result.timers.append(StartTimer(_join_key(group_id, member_id), timeout_ms, decision))

    def stop_join(self, group_id: str, member_id: str, result: Result[object]) -> None:
        if (group_id, member_id) in self._joining:
            self._joining.remove((group_id, member_id))
            result.timers.append(StopTimer(_join_key(group_id, member_id)))

    def _join_over(self, group_id: str, member_id: str) -> Result[object]:
        self._joining.discard((group_id, member_id))
        return self._fence(group_id, member_id)

    def start_sync(self, group_id: str, member_id: str, timeout_ms: int, result: Result[object]) -> None:
        decision = partial(self._fence, group_id, member_id)
        result.timers.append(StartTimer(_sync_key(group_id, member_id), timeout_ms, decision))

    def stop_sync(self, group_id: str, member_id: str, result: Result[object]) -> None:
        result.timers.append(StopTimer(_sync_key(group_id, member_id)))

    def stop(self, group_id: str, member_id: str, result: Result[object]) -> None:
        """Stop all timers of a member that is removed."""
        result.timers.append(StopTimer(("consumer-session", group_id, member_id)))
        self.stop_rebalance(group_id, member_id, result)
        self.stop_join(group_id, member_id, result)
        self.stop_sync(group_id, member_id, result)


def when_refused(result: Result[object], undo: Callable[[], object]) -> None:
    """Roll back the notes of a decision if the log rejects its records."""
    earlier = result.on_failed

    def on_failed(error: KafkaError) -> Result[object]:
        undo()
        return Result() if earlier is None else earlier(error)

    result.on_failed = on_failed


def undone(steps: Generator[None, None, _T], undo: Callable[[], object]) -> Generator[None, None, _T]:
    """Steps of a task that can be started again after a failure."""
    try:
        return (yield from steps)
    except Exception:
        undo()
        raise


def _rebalance_key(group_id: str, member_id: str) -> Hashable:
    return ("consumer-rebalance", group_id, member_id)


def _join_key(group_id: str, member_id: str) -> Hashable:
    return ("consumer-join", group_id, member_id)


def _sync_key(group_id: str, member_id: str) -> Hashable:
    return ("consumer-sync", group_id, member_id)
