"""This broker's standing with the controller: it registers, then tells regularly that it lives.

Rule: the broker epoch that the controller gave at registration goes with every heartbeat; an answer that
the epoch is stale means that another incarnation has taken our place, and this one registers anew.
"""

from __future__ import annotations

import asyncio
import logging

from ottla.config import Endpoint
from ottla.controller.brokers import broker_heartbeat, register_broker
from ottla.controller.feature_levels import SUPPORTED_FEATURES
from ottla.server.broker import Broker
from ottla.wire.errors import KafkaError
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest

_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

logger = logging.getLogger("ottla.server.registration")


class Registration:
    """Registers this broker and keeps it registered."""

    def __init__(self, broker: Broker, advertised: list[Endpoint], *, previous_epoch: int) -> None:
        self._broker = broker
        self._advertised = advertised
        self._previous_epoch = previous_epoch
        self._incarnation_id = broker.random.bytes(16)
        self._task: asyncio.Task[None] | None = None
        self.broker_epoch = -1

    async def start(self) -> None:
        """Register, and be unfenced: partitions have leaders afterwards."""
        await self._register()
        await self._beat()
        self._task = asyncio.ensure_future(self._keep_alive())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _register(self) -> None:
        broker = self._broker
        request = BrokerRegistrationRequest(
            broker_id=broker.node_id,
            cluster_id=broker.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                BrokerRegistrationRequest.Listener(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=_PROTOCOLS[endpoint.protocol],
                )
                for endpoint in self._advertised
            ],
            features=[
                BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=levels[0], max_supported_version=levels[1]
                )
                for name, levels in SUPPORTED_FEATURES.items()
            ],
            rack=broker.config.rack,
            log_dirs=sorted(one.id for one in broker.directories.directories if one.online),
            previous_broker_epoch=self._previous_epoch,
        )
        response = await broker.quorum.submit(lambda state: register_broker(state, request, 4, is_local=True))
        self.broker_epoch = response.broker_epoch

    async def _beat(self) -> None:
        broker = self._broker
        request = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=broker.image.offset,
            offline_log_dirs=[one.id for one in broker.directories.directories if not one.online],
        )
        await broker.quorum.submit(lambda state: broker_heartbeat(state, request))

    async def _keep_alive(self) -> None:
        interval_seconds = self._broker.config.int_of("broker.heartbeat.interval.ms") / 1000
        while True:
            await asyncio.sleep(interval_seconds)
            try:
                await self._beat()
            except KafkaError as error:
                logger.warning("The controller refused a heartbeat: %s", error)
                await self._register()
