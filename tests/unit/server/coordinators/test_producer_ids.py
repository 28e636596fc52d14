"""Producer ids: each once, from blocks that are fetched ahead of need."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.server.coordinators.producer_ids import ProducerIds
from ottla.wire.errors import CoordinatorLoadInProgress, NotController
from ottla.wire.message import Message

BLOCK = 1000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    made = RunningNode(str(tmp_path / "node"), {})
    yield made
    made.close()


class CountedQuorum:
    """A quorum of a running node that counts what it is asked for, and can be told to refuse."""

    def __init__(self, node: RunningNode) -> None:
        self._quorum = node.broker.quorum
        self.image = node.broker.image
        self.asked = 0
        self.refuses = False

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        self.asked += 1
        if self.refuses:
            raise NotController("This node is not the active controller.")
        return await self._quorum.ask(request, timeout_ms=timeout_ms)


def ids_of(quorum: CountedQuorum, node_id: int = 1) -> ProducerIds:
    return ProducerIds(quorum, node_id)  # type: ignore[arg-type]


def test_no_id_is_handed_out_twice_over_many_blocks_and_many_waiters(node: RunningNode) -> None:
    async def take_many() -> list[int]:
        ids = ids_of(CountedQuorum(node))
        return list(await asyncio.gather(*(ids.wait() for _ in range(3 * BLOCK))))

    taken = node.run(take_many())
    assert len(set(taken)) == 3 * BLOCK


def test_two_incarnations_never_share_an_id(node: RunningNode) -> None:
    async def take(ids: ProducerIds) -> set[int]:
        return {await ids.wait() for _ in range(20)}

    first = node.run(take(ids_of(CountedQuorum(node))))
    second = node.run(take(ids_of(CountedQuorum(node))))
    assert not first & second


def test_waiters_share_one_request_to_the_controller(node: RunningNode) -> None:
    async def take() -> int:
        quorum = CountedQuorum(node)
        ids = ids_of(quorum)
        assert ids.take() is None
        await asyncio.gather(*(ids.wait() for _ in range(10)))
        return quorum.asked

    assert node.run(take()) == 1


def test_the_next_block_is_allocated_before_the_last_id_is_used(node: RunningNode) -> None:
    async def take() -> tuple[int, int]:
        quorum = CountedQuorum(node)
        ids = ids_of(quorum)
        await ids.wait()
        for _ in range(BLOCK * 9 // 10 - 2):
            assert ids.take() is not None
        before = quorum.asked
        assert ids.take() is not None
        await ids.wait()
        async with asyncio.timeout(10):
            while ids._following is None:
                await asyncio.sleep(0)
        for _ in range(BLOCK):
            assert ids.take() is not None
        return before, quorum.asked

    assert node.run(take()) == (1, 2)


def test_a_producer_comes_again_while_there_is_no_controller_and_then_gets_an_id(node: RunningNode) -> None:
    async def take() -> int:
        quorum = CountedQuorum(node)
        ids = ids_of(quorum)
        quorum.refuses = True
        with pytest.raises(CoordinatorLoadInProgress):
            await ids.wait()
        quorum.refuses = False
        return await ids.wait()

    assert node.run(take()) >= 0


def test_a_broker_that_is_not_registered_gets_no_ids(node: RunningNode) -> None:
    async def take() -> None:
        with pytest.raises(CoordinatorLoadInProgress, match="No broker registration"):
            await ids_of(CountedQuorum(node), node_id=9).wait()

    node.run(take())
