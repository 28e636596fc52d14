"""Registers this broker with the controller, sends heartbeats, and performs the controlled shutdown.

Rule: every heartbeat contains the broker epoch that the controller assigned at registration; if the
controller calls it stale, another incarnation has replaced this one, which then registers again. The
controller may be on this node or another one, and may be unavailable for a while: requests are retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Protocol

from ottla.config import Endpoint
from ottla.controller.feature_levels import SUPPORTED_FEATURES
from ottla.controller.records import CORDONED_DIRECTORIES_LEVEL
from ottla.rare_paths import rarely
from ottla.server.parts import (
    HasAppliedOffset,
    HasClock,
    HasClusterId,
    HasConfig,
    HasDirectories,
    HasFailures,
    HasImage,
    HasNodeId,
    HasQuorum,
    HasRandom,
)
from ottla.wire import uuid
from ottla.wire.errors import KafkaError, StaleBrokerEpoch
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest

PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 0.5
CATCH_UP_SECONDS = 0.01

logger = logging.getLogger("ottla.server.metadata.broker_registration")


class Parts(
    HasNodeId,
    HasClusterId,
    HasConfig,
    HasImage,
    HasQuorum,
    HasDirectories,
    HasFailures,
    HasClock,
    HasRandom,
    HasAppliedOffset,
    Protocol,
):
    """The parts of a node that `Registration` uses."""


class NotRegistered(RuntimeError):
    """The controller did not accept this broker's registration. The message says why."""


class Registration:
    """Registers this broker and keeps it registered."""

    def __init__(self, parts: Parts, advertised: list[Endpoint], *, previous_epoch: int) -> None:
        self._parts = parts
        self._advertised = advertised
        self._previous_epoch = previous_epoch
        self._incarnation_id = uuid.random(parts.random.bytes)
        self._is_fenced = True
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.broker_epoch = -1

    async def start(self) -> None:
        """Register, and wait until unfenced: this broker's partitions then have leaders."""
        await self._register_patiently()
        while self._is_fenced:
            if self._parts.applied_offset < self.broker_epoch:
                await asyncio.sleep(CATCH_UP_SECONDS)  # the registration is not in our image yet
                continue
            try:
                await self._beat()
            except KafkaError as error:
                logger.warning("The controller rejected the first heartbeat: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        self._task = asyncio.ensure_future(self._keep_alive())

    def tell_soon(self) -> None:
        """Send the next heartbeat now: a log directory is offline, and its partitions need other leaders."""
        self._news.set()

    async def leave(self) -> None:
        """Controlled shutdown: the controller moves this broker's leaderships before it stops."""
        await self.stop()
        config = self._parts.config
        if self.broker_epoch < 0 or not config.bool_of("controlled.shutdown.enable"):
            return
        if not self._parts.quorum.is_remote and not self._has_others():
            return  # nobody could lead in our place, nor wants to know
        deadline = self._parts.clock.monotonic() + config.int_of("broker.session.timeout.ms") / 1000
        while True:
            try:
                response = await self._beat(wants_shut_down=True)
            except KafkaError as error:
                # Past the session's end the controller has taken our leaderships away by itself.
                if isinstance(error, StaleBrokerEpoch) or self._parts.clock.monotonic() >= deadline:
                    logger.warning("Shutting down without the controller's confirmation: %s", error)
                    return
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if response.should_shut_down or self._parts.clock.monotonic() >= deadline:
                return
            await asyncio.sleep(RETRY_SECONDS)

    def _has_others(self) -> bool:
        brokers = self._parts.image.brokers
        return any(one.is_active for one in brokers.values() if one.id != self._parts.node_id)

    async def stop(self) -> None:
        """Stop sending requests."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _register_patiently(self) -> None:
        """Register, with retries while the controller is unavailable or the last run's session has not
        expired.
        """
        config, clock = self._parts.config, self._parts.clock
        timeout_ms = config.int_of("initial.broker.registration.timeout.ms")
        deadline = clock.monotonic() + timeout_ms / 1000
        told: str | None = None
        wait_seconds = RETRY_SECONDS
        while True:
            try:
                await self._register()
                return
            except KafkaError as error:
                if clock.monotonic() >= deadline:
                    raise NotRegistered(
                        f"The controller did not register this broker within {timeout_ms} ms "
                        f"(initial.broker.registration.timeout.ms): {error}"
                    ) from error
                if told != str(error):
                    told = str(error)
                    logger.warning("Broker registration failed, will retry: %s", told)
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, RETRY_SECONDS_MAX)

    async def _register(self) -> None:
        parts = self._parts
        request = BrokerRegistrationRequest(
            broker_id=parts.node_id,
            cluster_id=parts.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerRegistrationRequest.Listener(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=PROTOCOLS[endpoint.protocol],
                )
                for endpoint in self._advertised
            ],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=levels[0], max_supported_version=levels[1]
                )
                for name, levels in SUPPORTED_FEATURES.items()
            ],
            rack=parts.config.rack,
            log_dirs=sorted(one.id for one in parts.directories.directories if one.online),
            previous_broker_epoch=self._previous_epoch,
        )
        response = await parts.quorum.ask(request, timeout_ms=self._patience_ms())
        self.broker_epoch = response.broker_epoch

    async def _beat(self, *, wants_shut_down: bool = False) -> BrokerHeartbeatResponse:
        parts = self._parts
        directories = parts.directories.directories
        request = BrokerHeartbeatRequest(
            broker_id=parts.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=parts.applied_offset,
            want_shut_down=wants_shut_down,
            offline_log_dirs=[one.id for one in directories if not one.online],
        )
        if parts.image.metadata_version >= CORDONED_DIRECTORIES_LEVEL:
            request.cordoned_log_dirs = [one.id for one in directories if one.cordoned]
        response: BrokerHeartbeatResponse = await parts.quorum.ask(request, timeout_ms=self._patience_ms())
        if response.is_fenced != self._is_fenced and not wants_shut_down:
            self._is_fenced = response.is_fenced
            logger.info("The controller has %s this broker", "fenced" if self._is_fenced else "unfenced")
        return response

    async def _keep_alive(self) -> None:
        interval_seconds = self._parts.config.int_of("broker.heartbeat.interval.ms") / 1000
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_seconds):
                    await self._news.wait()
            self._news.clear()
            if rarely("a heartbeat is left out"):
                continue
            try:
                await self._beat()
            except StaleBrokerEpoch as error:
                logger.warning("The controller no longer knows this broker, registering again: %s", error)
                await self._register_again()
            except KafkaError as error:
                logger.warning("Heartbeat to the controller failed: %s", error)
            except Exception as error:  # noqa: BLE001 - see `ottla.failures`
                self._parts.failures.note("heartbeat", "", error)

    async def _register_again(self) -> None:
        try:
            await self._register()
        except KafkaError as error:
            logger.error("Failed to register this broker again: %s", error)

    def _patience_ms(self) -> int:
        return self._parts.config.int_of("broker.session.timeout.ms") // 2
