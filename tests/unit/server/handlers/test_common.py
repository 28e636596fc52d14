"""What handlers share: hints about leaders, and the way to the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.unit.reports import reported
from tests.unit.server.handlers.support import LISTENER, add_topic, image_of, register

from ottla.controller.result import Result
from ottla.host import HostClock
from ottla.ports import Clock
from ottla.server.handlers.common import decide, decide_in_parts, leader_endpoints, leader_hint
from ottla.server.metadata.metadata_quorum import MetadataQuorum
from ottla.wire.errors import InvalidRequest, NotController, RequestTimedOut
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata_records import FenceBrokerRecord


def test_a_leader_is_found_by_name_and_by_id() -> None:
    image = image_of(1, 2)
    topic_id = add_topic(image, "a", replicas=[2, 1], leader_epoch=5)
    assert leader_hint(image, b"", "a", 0) == (2, 5)
    assert leader_hint(image, topic_id, "", 0) == (2, 5)


def test_what_is_not_known_has_no_leader() -> None:
    image = image_of(1, a=1)
    assert leader_hint(image, b"", "missing", 0) == (-1, -1)
    assert leader_hint(image, b"", "a", 7) == (-1, -1)
    assert leader_hint(image, b"x" * 16, "", 0) == (-1, -1)


def test_endpoints_are_those_of_live_leaders_on_the_listener_that_was_used() -> None:
    image = image_of(1, 2)
    register(image, 3, listener="OTHER")
    register(image, 4, rack="r4")
    image.replay(FenceBrokerRecord(id=2, epoch=20))
    found = leader_endpoints(image, {1, 2, 3, 4, 99}, LISTENER, FetchResponse.NodeEndpoint)
    assert found == [
        FetchResponse.NodeEndpoint(node_id=1, host="host1", port=9092, rack=None),
        FetchResponse.NodeEndpoint(node_id=4, host="host4", port=9092, rack="r4"),
    ]


class SlowQuorum:
    """A quorum whose commits wait for the test."""

    def __init__(self) -> None:
        self.may_commit = asyncio.Event()
        self.committed: list[Any] = []

    async def submit(self, decision: Callable[[Any], Result[Any]], *, timeout_ms: int | None = None) -> Any:
        result = decision(None)
        await self.may_commit.wait()
        self.committed.append(result.response)
        return result.response


def test_an_answer_comes_once_the_decision_is_committed() -> None:
    async def scenario() -> str:
        quorum = SlowQuorum()
        work = asyncio.ensure_future(
            decide(cast(Any, quorum), lambda state: Result("done"), timeout_ms=60_000)
        )
        await asyncio.sleep(0)
        assert not work.done()
        quorum.may_commit.set()
        return await work

    assert asyncio.run(scenario()) == "done"


def test_what_is_decided_is_committed_though_the_client_ran_out_of_time() -> None:
    async def scenario() -> list[Any]:
        quorum = SlowQuorum()
        with pytest.raises(RequestTimedOut):
            await decide(cast(Any, quorum), lambda state: Result("done"), timeout_ms=1)
        assert quorum.committed == []
        quorum.may_commit.set()
        async with asyncio.timeout(10):
            while not quorum.committed:
                await asyncio.sleep(0)
        return quorum.committed

    assert asyncio.run(scenario()) == ["done"]


def test_what_is_decided_is_committed_though_the_client_went_away() -> None:
    async def scenario() -> list[Any]:
        quorum = SlowQuorum()
        work = asyncio.ensure_future(decide(cast(Any, quorum), lambda state: Result("done")))
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        quorum.may_commit.set()
        async with asyncio.timeout(10):
            while not quorum.committed:
                await asyncio.sleep(0)
        return quorum.committed

    assert asyncio.run(scenario()) == ["done"]


@pytest.mark.parametrize("timeout_ms", [None, 60_000])
def test_a_decision_that_fails_after_the_client_went_away_is_not_reported(timeout_ms: int | None) -> None:
    class FailingQuorum(SlowQuorum):
        async def submit(
            self, decision: Callable[[Any], Result[Any]], *, timeout_ms: int | None = None
        ) -> Any:
            await super().submit(decision)
            raise NotController("Another controller has been elected.")

    async def story() -> None:
        quorum = FailingQuorum()
        deciding = decide(cast(Any, quorum), lambda state: Result("done"), timeout_ms=timeout_ms)
        work = asyncio.ensure_future(deciding)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert quorum.committed == []
        quorum.may_commit.set()
        while not quorum.committed:
            await asyncio.sleep(0)

    assert reported(story()) == []


def test_a_refusal_of_the_controller_comes_through() -> None:
    def refuse(state: Any) -> Result[str]:
        raise InvalidRequest("no")

    async def scenario() -> None:
        for timeout_ms in (None, 1000):
            with pytest.raises(InvalidRequest, match="no"):
                await decide(cast(Any, SlowQuorum()), refuse, timeout_ms=timeout_ms)

    asyncio.run(scenario())


class _HandClock(HostClock):
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class _DecidingParts:
    quorum: MetadataQuorum
    clock: Clock


def test_the_parts_of_a_request_share_its_time() -> None:
    clock = _HandClock()
    decided: list[str] = []

    class Quorum:
        async def submit(
            self, decision: Callable[[Any], Result[Any]], *, timeout_ms: int | None = None
        ) -> Any:
            clock.now += 0.4
            return decision(None).response

    def decision(_state: Any, part: str) -> Result[str]:
        decided.append(part)
        return Result(part)

    parts = _DecidingParts(cast(Any, Quorum()), clock)
    with pytest.raises(RequestTimedOut, match="within 1000 ms"):
        asyncio.run(decide_in_parts(parts, "abcd", decision, timeout_ms=1000))
    assert decided == ["a", "b", "c"]
    assert asyncio.run(decide_in_parts(parts, "ab", decision, timeout_ms=1000)) == ["a", "b"]
