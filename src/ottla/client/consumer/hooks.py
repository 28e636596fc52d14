"""The user's functions that a consumer calls: rebalance listeners and interceptors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from ottla.client.core.membership import Change
from ottla.client.values import OffsetAndMetadata, TopicPartition

log = logging.getLogger(__name__)

OnChange: TypeAlias = Callable[[list[TopicPartition]], object]


class Listener(Protocol):
    """Called at rebalances, within a poll. Methods are optional; without `lost`, `revoked` is called."""

    def on_assigned(self, partitions: list[TopicPartition]) -> object: ...

    def on_revoked(self, partitions: list[TopicPartition]) -> object: ...

    def on_lost(self, partitions: list[TopicPartition]) -> object: ...


class RebalanceCallbacks:
    """The listener of a subscription, or the functions given instead of one."""

    __slots__ = ("_functions",)

    def __init__(self) -> None:
        self._functions: dict[Change, OnChange | None] = {}

    def set(
        self,
        listener: object,
        on_assigned: OnChange | None,
        on_revoked: OnChange | None,
        on_lost: OnChange | None,
    ) -> None:
        revoked = on_revoked or getattr(listener, "on_revoked", None)
        self._functions = {
            Change.ASSIGNED: on_assigned or getattr(listener, "on_assigned", None),
            Change.REVOKED: revoked,
            Change.LOST: on_lost or getattr(listener, "on_lost", None) or revoked,
        }

    def call(self, change: Change, partitions: Iterable[TopicPartition]) -> object:
        """Call the function for a change; the result may be awaitable."""
        function = self._functions.get(change)
        return None if function is None else function(sorted(partitions))


class Interceptors:
    """The interceptors of a consumer, called in the order of `interceptor.classes`."""

    __slots__ = ("_commit", "_consume", "is_consuming")

    def __init__(self, interceptors: Iterable[object]) -> None:
        made = [one() if isinstance(one, type) else one for one in interceptors]
        self._consume = [one.on_consume for one in made if hasattr(one, "on_consume")]
        self._commit = [one.on_commit for one in made if hasattr(one, "on_commit")]
        self.is_consuming = bool(self._consume)

    def consume(self, records: list[Any]) -> list[Any]:
        for function in self._consume:
            try:
                records = list(function(records))
            except Exception:
                log.exception(
                    "An interceptor failed on consumed records; returning them without its changes."
                )
        return records

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for function in self._commit:
            try:
                function(offsets)
            except Exception:
                log.exception("An interceptor failed on committed offsets.")
