"""Decisions that take longer than a slice of the event loop, and what happens around them in the meantime."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.metadata.test_quorum import Node, registration, run, start_broker
from tests.unit.server.turns import Work

from ottla.controller.brokers import broker_heartbeat, fence_stale_broker, register_broker
from ottla.controller.create_partitions import create_partitions
from ottla.controller.elections import elect_leaders
from ottla.controller.quotas import change_quotas, read_quotas
from ottla.controller.result import Decision, Result, Steps, finished
from ottla.controller.state import ControllerState
from ottla.controller.topics import create_topics, read_deletion, remove_topics
from ottla.host import HostClock
from ottla.server.handlers.common import decide
from ottla.server.metadata import active_controller
from ottla.server.metadata.quorum import Quorum
from ottla.wire.errors import DuplicateBrokerRegistration, NotController, RequestTimedOut
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.metadata_records import NoOpRecord

COUNT = 4_900
CALLS_PER_ELEMENT_MAX = 20
"""In one turn of the loop, of a decision that makes `COUNT` changes: what their replay takes, and no more."""
SHARE_MAX = 0.25
"""Of all calls that a decision takes, in one turn."""


class SkippingClock(HostClock):
    """A clock that a test moves on."""

    skipped_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.skipped_s


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every decision pauses wherever it can."""
    monkeypatch.setattr(active_controller, "SLICE_MS", 0)


def creation(count: int, partitions: int = 1) -> Decision[Any]:
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(
                name=f"t{index}", num_partitions=partitions, replication_factor=1
            )
            for index in range(count)
        ]
    )
    return lambda state: create_topics(state, request)


async def paused(quorum: Quorum, decision: Decision[Any], turns: int = 5) -> asyncio.Task[Any]:
    """A decision that was begun and is not made yet."""
    deciding = asyncio.create_task(quorum.submit(decision))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert not deciding.done()
    return deciding


@pytest.mark.usefixtures("pauses")
def test_decisions_wait_for_a_long_one_and_are_made_in_their_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            made: list[str] = []

            def note(name: str) -> Decision[None]:
                def decision(state: ControllerState) -> Result[None]:
                    assert len(state.image.topics) == 50
                    made.append(name)
                    return Result(None, [NoOpRecord()])

                return decision

            creating = await paused(quorum, creation(50))
            others = [asyncio.create_task(quorum.submit(note(name))) for name in "ab"]
            await asyncio.sleep(0)
            assert not made
            response = await creating
            assert [one.error_code for one in response.topics] == [0] * 50
            await asyncio.gather(*others)
            assert made == ["a", "b"]

    run(test)


@pytest.mark.usefixtures("pauses")
def test_the_image_has_all_topics_of_a_request_or_none(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            creating = await paused(quorum, creation(50, partitions=3))
            seen = set()
            while not creating.done():
                topics = quorum.image.topics.values()
                seen.add((len(topics), sum(len(topic.partitions) for topic in topics)))
                await asyncio.sleep(0)
            assert seen == {(0, 0), (50, 150)}

    run(test)


@pytest.mark.usefixtures("pauses")
def test_a_controller_that_loses_the_leadership_before_the_append_appends_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            creating = await paused(quorum, creation(50))
            waiting = asyncio.create_task(quorum.submit(creation(1)))
            await asyncio.sleep(0)
            end_offset = quorum.driver.next_offset
            quorum.driver.resign()
            outcomes = await asyncio.gather(creating, waiting, return_exceptions=True)
            assert [type(one) for one in outcomes] == [NotController, NotController]
            assert quorum.driver.next_offset == end_offset
            while not quorum.is_active:
                await asyncio.sleep(0.01)
            await quorum.submit(creation(2))
            assert sorted(quorum.image.topics_by_name) == ["t0", "t1"]

    run(test)


@pytest.mark.usefixtures("pauses")
def test_a_controller_that_loses_the_leadership_after_the_append_has_appended_everything(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            creating = await paused(quorum, creation(50))
            first = quorum.driver.next_offset
            while quorum.driver.next_offset == first:
                await asyncio.sleep(0)
            await quorum.driver.committed(quorum.driver.next_offset - 1)
            quorum.driver.resign()
            outcome = (await asyncio.gather(creating, return_exceptions=True))[0]
            if isinstance(outcome, BaseException):
                assert isinstance(outcome, NotController)
            else:
                assert len(outcome.topics) == 50
            while not quorum.is_active:
                await asyncio.sleep(0.01)
            assert len(quorum.image.topics) == 50
            answer = await quorum.submit(creation(1))
            assert answer.topics[0].error_message == "Topic 't0' already exists."

    run(test)


@pytest.mark.usefixtures("pauses")
def test_a_node_that_stops_during_a_decision_appends_nothing_of_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            creating = await paused(quorum, creation(50))
        with pytest.raises(NotController):
            await creating
        async with Node(tmp_path) as quorum:
            assert not quorum.image.topics

    run(test)


@pytest.mark.usefixtures("pauses")
def test_a_decision_that_nobody_waits_for_any_more_is_not_begun(tmp_path: Path) -> None:
    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            creating = await paused(quorum, creation(50))
            waiting: asyncio.Task[None] = asyncio.create_task(
                quorum.submit(lambda _: pytest.fail("it was decided"))
            )
            await asyncio.sleep(0)
            waiting.cancel()
            await creating

    run(test)


@pytest.mark.usefixtures("pauses")
def test_a_decision_whose_time_is_up_before_its_turn_is_not_begun(tmp_path: Path) -> None:
    released = False

    def held(state: ControllerState) -> Steps[Result[None]]:
        while not released:
            yield
        return Result(None)

    async def test() -> None:
        nonlocal released
        clock = SkippingClock()
        async with Node(tmp_path, clock=clock) as quorum:
            await start_broker(quorum)
            holding = await paused(quorum, held)
            with pytest.raises(RequestTimedOut, match="within 20 ms"):
                await decide(quorum, creation(1), timeout_ms=20)
            clock.skipped_s += 1
            waiting = asyncio.create_task(decide(quorum, lambda _: Result("in time"), timeout_ms=20_000))
            released = True
            await holding
            assert await waiting == "in time"
            assert not quorum.image.topics

    run(test)


@pytest.mark.usefixtures("pauses")
def test_an_error_in_the_middle_of_a_decision_changes_nothing_and_the_next_one_is_made(
    tmp_path: Path,
) -> None:
    def broken(state: ControllerState) -> Steps[Result[None]]:
        for _ in range(20):
            yield
        raise LookupError("in the middle")

    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            end_offset = quorum.driver.next_offset
            deciding = await paused(quorum, broken)
            creating = asyncio.create_task(quorum.submit(creation(1)))
            with pytest.raises(LookupError, match="in the middle"):
                await deciding
            assert quorum.driver.next_offset == end_offset
            assert (await creating).topics[0].error_code == 0

    run(test)


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("is_appended", [False, True])
def test_records_of_the_quorum_may_come_between_the_steps_of_a_decision(
    tmp_path: Path, is_appended: bool
) -> None:
    async def test() -> None:
        async with Node(tmp_path, is_dynamic=True) as quorum:
            await start_broker(quorum)
            creating = await paused(quorum, creation(50))
            first = quorum.driver.next_offset
            while is_appended and quorum.driver.next_offset == first:
                await asyncio.sleep(0)
            quorum.driver.append_voters(quorum.driver.replica.voters.last)
            assert quorum.voter_changes is None
            quorum.active.follow_control_records()
            await creating
            state = quorum.active.state
            assert state is not None
            assert state.next_offset == quorum.driver.next_offset
            await quorum.submit(lambda _: Result(None, [NoOpRecord()]))
            assert len(quorum.image.topics) == 50

    run(test)


@pytest.mark.usefixtures("pauses")
def test_a_broker_whose_heartbeat_waits_behind_a_long_decision_is_not_fenced(tmp_path: Path) -> None:
    async def test() -> None:
        clock = SkippingClock()
        async with Node(tmp_path, clock=clock) as quorum:
            epoch = await start_broker(quorum)
            beat = BrokerHeartbeatRequest(
                broker_id=1, broker_epoch=epoch, current_metadata_offset=quorum.image.offset
            )
            creating = await paused(quorum, creation(50))
            checking = asyncio.create_task(quorum.controller_tasks.fence_stale_brokers())
            await asyncio.sleep(0)
            looking = asyncio.create_task(quorum.submit(lambda state: Result(state.image.brokers[1].fenced)))
            await asyncio.sleep(0)
            beating = asyncio.create_task(quorum.submit(lambda state: broker_heartbeat(state, beat)))
            clock.skipped_s += 20
            await asyncio.gather(creating, checking, beating)
            assert not await looking
            clock.skipped_s += 5
            await quorum.submit(fence_stale_broker)
            assert not quorum.image.brokers[1].fenced
            clock.skipped_s += 5
            await quorum.submit(fence_stale_broker)
            assert quorum.image.brokers[1].fenced

    run(test)


@pytest.mark.usefixtures("pauses")
def test_a_second_broker_with_an_id_is_refused_while_a_heartbeat_of_the_first_waits(tmp_path: Path) -> None:
    async def test() -> None:
        clock = SkippingClock()
        async with Node(tmp_path, clock=clock) as quorum:
            await start_broker(quorum)
            creating = await paused(quorum, creation(50))
            second = asyncio.create_task(
                quorum.submit(lambda state: register_broker(state, registration(2), 4))
            )
            await asyncio.sleep(0)
            clock.skipped_s += 20
            with pytest.raises(DuplicateBrokerRegistration):
                await second
            await creating

    run(test)


def _quotas() -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequest.EntryData(
                entity=[AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=f"u{index}")],
                ops=[AlterClientQuotasRequest.OpData(key="producer_byte_rate", value=1.0)],
            )
            for index in range(COUNT)
        ]
    )


def _deletion(state: ControllerState) -> Any:
    topics = [DeleteTopicsRequest.DeleteTopicState(name=f"t{index}") for index in range(COUNT)]
    return remove_topics(state, finished(read_deletion(DeleteTopicsRequest(topics=topics))), 6)


def _more_partitions(state: ControllerState) -> Any:
    topics = [
        CreatePartitionsRequest.CreatePartitionsTopic(name=f"t{index}", count=2, assignments=None)
        for index in range(COUNT)
    ]
    return create_partitions(state, CreatePartitionsRequest(topics=topics))


def _fencing(state: ControllerState) -> Any:
    state.now_ms += 10**9
    return fence_stale_broker(state)


LARGE: dict[str, tuple[Decision[Any] | None, Callable[[ControllerState], Any]]] = {
    "CreateTopics of many topics": (None, creation(COUNT)),
    "CreateTopics of many partitions": (None, creation(1, partitions=COUNT)),
    "CreatePartitions of many topics": (creation(COUNT), _more_partitions),
    "DeleteTopics": (creation(COUNT), _deletion),
    "AlterClientQuotas": (
        None,
        lambda state: change_quotas(state, finished(read_quotas(_quotas())), validate_only=False),
    ),
    "ElectLeaders of all": (
        creation(1, partitions=COUNT),
        lambda state: elect_leaders(state, ElectLeadersRequest(topic_partitions=None)),
    ),
    "fencing of a broker": (creation(1, partitions=COUNT), _fencing),
}


@pytest.mark.parametrize("name", LARGE)
def test_no_turn_of_the_loop_has_much_of_the_work_on_a_large_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Beside the slices there are, each in its turn, one append and one replay."""
    monkeypatch.setattr(active_controller, "SLICE_MS", 0.05)
    work = Work(monkeypatch)
    before, decision = LARGE[name]

    async def test() -> None:
        async with Node(tmp_path) as quorum:
            await start_broker(quorum)
            if before is not None:
                await quorum.submit(before)
            with work:
                await quorum.submit(decision)

    run(test)
    print(f"{work.most / COUNT:.1f} calls for each element in one turn, {work.total / COUNT:.1f} in all")
    assert work.most < min(CALLS_PER_ELEMENT_MAX * COUNT, SHARE_MAX * work.total)
