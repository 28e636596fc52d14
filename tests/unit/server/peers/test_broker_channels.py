"""The connections from one broker to others."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.host import HostNetwork
from ottla.server.peers.broker_channels import BrokerChannels, BrokerUnknown
from ottla.wire.messages.fetch import FetchRequest


def channels_to(port: int, *, is_fenced: bool = False, timeout_ms: int = 50) -> BrokerChannels:
    """Channels to broker 2 at this port; the follower's timeout is different."""
    registration = SimpleNamespace(
        fenced=is_fenced, endpoint=lambda _: SimpleNamespace(host="127.0.0.1", port=port)
    )
    settings = {"request.timeout.ms": 600_000, "replica.socket.timeout.ms": timeout_ms}
    parts = SimpleNamespace(
        node_id=1,
        image=SimpleNamespace(brokers={2: registration}),
        config=SimpleNamespace(int_of=settings.__getitem__, inter_broker_listener_name="INTERNAL"),
    )
    return BrokerChannels(cast(Any, parts), HostNetwork(), timeout_setting="replica.socket.timeout.ms")


def test_a_silent_broker_is_named_with_the_timeout_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:  # accepts, and never responds
        channels = channels_to(listening.getsockname()[1])
        with pytest.raises(
            TimeoutError, match=r"broker 2 did not answer for 50 ms \(replica.socket.timeout.ms\)"
        ):
            asyncio.run(channels.ask(2, FetchRequest()))


def test_a_fenced_broker_gets_no_request() -> None:
    with pytest.raises(BrokerUnknown, match="Broker 2 is not alive"):
        asyncio.run(channels_to(1, is_fenced=True).ask(2, FetchRequest()))
