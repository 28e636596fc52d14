"""A broker tells the controller what it must know in time, and goes when the controller lets it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.config import development_config
from ottla.controller.feature_levels import METADATA_VERSION_LATEST
from ottla.server.metadata.broker_registration import NotRegistered, Registration
from ottla.wire.errors import DuplicateBrokerRegistration, KafkaError, NotController, StaleBrokerEpoch
from ottla.wire.message import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


@dataclass
class Directory:
    id: bytes
    online: bool = True
    cordoned: bool = False


@dataclass
class Controller:
    """Answers what the test wants; by default it takes everything and unfences at once."""

    is_remote: bool = True
    asked: list[Message] = field(default_factory=list)
    troubles: list[KafkaError] = field(default_factory=list)
    rounds_to_leave: int = 1

    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Message:
        await asyncio.sleep(0)
        self.asked.append(request)
        if self.troubles:
            raise self.troubles.pop(0)
        if isinstance(request, BrokerRegistrationRequest):
            return BrokerRegistrationResponse(broker_epoch=5)
        assert isinstance(request, BrokerHeartbeatRequest)
        if request.want_shut_down:
            self.rounds_to_leave -= 1
        return BrokerHeartbeatResponse(is_fenced=False, should_shut_down=self.rounds_to_leave == 0)

    def heartbeats(self) -> list[BrokerHeartbeatRequest]:
        return [request for request in self.asked if isinstance(request, BrokerHeartbeatRequest)]


class World:
    """A broker with two log directories, and its controller."""

    def __init__(self, *, level: int = METADATA_VERSION_LATEST, interval_ms: int = 60_000) -> None:
        self.controller = Controller()
        self.directories = [Directory(b"1" * 16), Directory(b"2" * 16)]
        self.now = 0.0
        texts = {"broker.heartbeat.interval.ms": str(interval_ms), "broker.session.timeout.ms": "100000"}
        self.broker = SimpleNamespace(
            node_id=1,
            cluster_id="cluster",
            config=development_config(overrides=texts),
            random=SimpleNamespace(bytes=lambda count: b"r" * count),
            clock=SimpleNamespace(monotonic=lambda: self.now),
            image=SimpleNamespace(metadata_version=level, brokers={}),
            applied_offset=10,
            directories=SimpleNamespace(directories=self.directories),
            quorum=self.controller,
        )
        broker: Any = self.broker
        self.registration = Registration(broker, [], previous_epoch=3)


def run(work: Awaitable[None]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work, 30)

    asyncio.run(bounded())


def test_it_registers_with_the_epoch_of_its_last_clean_run_and_the_directories_that_work() -> None:
    async def main() -> None:
        world = World()
        world.directories[0].online = False
        await world.registration.start()
        request = world.controller.asked[0]
        assert isinstance(request, BrokerRegistrationRequest)
        assert (request.previous_broker_epoch, request.log_dirs) == (3, [b"2" * 16])
        assert world.registration.broker_epoch == 5
        await world.registration.stop()

    run(main())


def test_a_registration_that_is_refused_is_tried_again_until_its_time_is_over() -> None:
    async def main() -> None:
        world = World()
        world.controller.troubles = [DuplicateBrokerRegistration(), NotController()]
        await world.registration.start()
        assert len(world.controller.asked) == 4
        await world.registration.stop()
        world = World()
        world.controller.troubles = [DuplicateBrokerRegistration("taken")]
        world.now = 1e9  # past every deadline that starts now
        clock = iter([0.0, 1e9])
        world.broker.clock.monotonic = lambda: next(clock)
        with pytest.raises(NotRegistered, match="taken"):
            await world.registration.start()

    run(main())


def test_the_loss_of_a_directory_does_not_wait_for_the_next_heartbeat() -> None:
    async def main() -> None:
        world = World()
        await world.registration.start()
        before = len(world.controller.asked)
        world.directories[1].online = False
        world.registration.tell_soon()
        while len(world.controller.asked) == before:
            await asyncio.sleep(0)
        assert world.controller.heartbeats()[-1].offline_log_dirs == [b"2" * 16]
        await world.registration.stop()

    run(main())


def test_cordoned_directories_are_told_where_the_cluster_knows_of_such() -> None:
    async def main() -> None:
        for level, told in ((METADATA_VERSION_LATEST, [b"1" * 16]), (METADATA_VERSION_LATEST - 1, None)):
            world = World(level=level)
            world.directories[0].cordoned = True
            await world.registration.start()
            assert world.controller.heartbeats()[-1].cordoned_log_dirs == told
            await world.registration.stop()

    run(main())


def test_a_broker_that_the_controller_has_forgotten_registers_again() -> None:
    async def main() -> None:
        world = World()
        await world.registration.start()
        world.controller.troubles = [StaleBrokerEpoch()]
        world.registration.tell_soon()
        before = len(world.controller.asked)
        while len(world.controller.asked) < before + 2:
            await asyncio.sleep(0)
        assert isinstance(world.controller.asked[-1], BrokerRegistrationRequest)
        await world.registration.stop()

    run(main())


def test_it_asks_to_leave_until_it_may() -> None:
    async def main() -> None:
        world = World()
        world.controller.rounds_to_leave = 3
        await world.registration.start()
        world.controller.troubles = [NotController()]
        await world.registration.leave()
        assert [request.want_shut_down for request in world.controller.heartbeats()[-4:]] == [True] * 4

    run(main())


@pytest.mark.parametrize(("others", "asks"), [([], False), ([False], False), ([True, False], True)])
def test_beside_its_own_controller_it_takes_leave_only_of_others(others: list[bool], asks: bool) -> None:
    async def main() -> None:
        world = World()
        world.controller.is_remote = False
        world.broker.image.brokers = {
            number: SimpleNamespace(id=number, is_active=is_active)
            for number, is_active in enumerate([True, *others], 1)
        }
        await world.registration.start()
        await world.registration.leave()
        assert world.controller.heartbeats()[-1].want_shut_down == asks

    run(main())
