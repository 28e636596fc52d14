"""Producer ids, from blocks that the controller allocates to this broker.

Rule: an id is used once in the life of the cluster. A block belongs to this broker from the moment its record
is committed; ids that are unused when the broker stops are never used. The next block is requested before the
current one is exhausted, so that a producer rarely waits.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.rare_paths import rarely
from ottla.wire.errors import CoordinatorLoadInProgress, KafkaError
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

if TYPE_CHECKING:
    from ottla.server.metadata.metadata_quorum import MetadataQuorum

ALLOCATION_TIMEOUT_MS = 5_000
PREFETCH_FRACTION = 0.9  # of a block: once so many of its ids are used, the next one is fetched

logger = logging.getLogger("ottla.server.coordinators.producer_ids")


class ProducerIds:
    """The ids that this broker may assign to producers."""

    def __init__(self, quorum: MetadataQuorum, node_id: int) -> None:
        self._quorum = quorum
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._prefetch_at = 0
        self._following: range | None = None
        self._fetching: asyncio.Task[None] | None = None

    def take(self) -> int | None:
        """Take an id; None if a block must be allocated first, which this requests (see `wait`)."""
        if self._next == self._end:
            following, self._following = self._following, None
            if following is None:
                self._fetch()
                return None
            self._use(following)
        taken = self._end - 1 if rarely("a block of producer ids is used up") else self._next
        self._next = taken + 1
        if self._next >= self._prefetch_at and self._following is None:
            self._fetch()
        return taken

    def prepare(self) -> None:
        """Request a block, so that the first producer does not wait for it."""
        if self._next == self._end and self._following is None:
            self._fetch()

    async def wait(self) -> int:
        """Wait for an id. CoordinatorLoadInProgress (producers retry) if the allocation failed."""
        while True:
            taken = self.take()
            if taken is not None:
                return taken
            try:
                await asyncio.shield(self._fetch())
            except KafkaError as error:
                raise CoordinatorLoadInProgress(
                    f"The controller did not allocate producer ids: {error}"
                ) from error

    def _use(self, block: range) -> None:
        self._next, self._end = block.start, block.stop
        self._prefetch_at = block.start + int(len(block) * PREFETCH_FRACTION)

    def _fetch(self) -> asyncio.Task[None]:
        """Request a block, unless a request is in flight."""
        if self._fetching is None:
            self._fetching = asyncio.ensure_future(self._allocate())
            self._fetching.add_done_callback(_log_failure)
        return self._fetching

    async def _allocate(self) -> None:
        registration = self._quorum.image.brokers.get(self._node_id)
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=-1 if registration is None else registration.epoch
        )
        try:
            response = await self._quorum.ask(request, timeout_ms=ALLOCATION_TIMEOUT_MS)
            first = response.producer_id_start
            self._following = range(first, first + response.producer_id_len)
        finally:
            self._fetching = None


def _log_failure(fetched: asyncio.Task[None]) -> None:
    error = None if fetched.cancelled() else fetched.exception()
    if isinstance(error, KafkaError):
        logger.warning("Failed to allocate a block of producer ids: %s", error)
    elif error is not None:
        logger.error("Unexpected error while allocating a block of producer ids", exc_info=error)
