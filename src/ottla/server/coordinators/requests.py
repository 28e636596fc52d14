"""Requests to a coordinator of this node: a decision per key in, a response or a `PendingResponse` out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Generic, TypeVar

from ottla.coordinator.active_shard import S
from ottla.coordinator.result import Result
from ottla.coordinator.runtime import Coordinator, client_error
from ottla.waiting.gather import Gather
from ottla.waiting.pending_response import PendingResponse
from ottla.wire.errors import KafkaError

KEYS_PER_DECISION = 500

_R = TypeVar("_R")
_T = TypeVar("_T")

CoordinatorRequest = tuple[str, Callable[[S, PendingResponse], Result[_T]], Callable[[KafkaError], _T]]
"""A group or transactional id, the decision about it, and what reports an error instead."""


class CoordinatorRequests(Generic[S]):
    """Passes requests of handlers to a coordinator. `on_error` makes a response, or a part, from an error."""

    def __init__(self, coordinator: Coordinator[S]) -> None:
        self._coordinator = coordinator

    def ask(
        self,
        key: str,
        decision: Callable[[S, PendingResponse], Result[_R]],
        on_error: Callable[[KafkaError], _R],
    ) -> _R | PendingResponse:
        """The response to a request about one group or transactional id."""
        pending = PendingResponse(lambda error: on_error(client_error(error)))
        coordinator = self._coordinator
        coordinator.ask(coordinator.partition_for(key), decision, pending)
        response: _R | PendingResponse = pending.response_or_self()
        return response

    def ask_many(
        self,
        requests: Iterable[CoordinatorRequest[S, _T]],
        join: Callable[[list[_T]], _R],
    ) -> Generator[None, None, _R | PendingResponse]:
        """Several requests, and one response built from their responses."""
        gather = Gather(join)
        for key, decision, on_error in requests:
            response: _T | PendingResponse = self.ask(key, decision, on_error)
            gather.add(response)
            yield
        return gather.response()

    def ask_every(
        self,
        choose: Callable[[S], Generator[None, None, list[str]]],
        decision: Callable[[S, list[str]], list[_T]],
        join: Callable[[list[_T], bool], _R],
    ) -> Generator[None, None, _R | PendingResponse]:
        """Ask all shards of this node, some at a time, each about the keys that `choose` finds in it.

        `join` gets their responses, and whether one is still loading.
        """
        is_any_loading = self._coordinator.is_any_loading

        def join_parts(parts: list[list[_T] | None]) -> _R:
            found = [one for part in parts if part is not None for one in part]
            return join(found, is_any_loading or None in parts)

        gather = Gather(join_parts)
        for active in self._coordinator.loaded():
            keys = yield from choose(active.shard)
            for start in range(0, len(keys), KEYS_PER_DECISION):
                if not active.is_open:  # another node has become leader of the partition
                    gather.add(None)
                    break
                pending = PendingResponse(_none)
                some = keys[start : start + KEYS_PER_DECISION]
                active.decide(
                    lambda shard, _pending, some=some: Result(decision(shard, some)),  # type: ignore[misc]
                    pending,
                )
                gather.add(pending.response_or_self())
                yield
        return gather.response()


def _none(_error: KafkaError) -> None:
    """The part of a shard whose partition has another leader now."""
