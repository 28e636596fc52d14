"""Delays of the event loop: what is counted, and what the log says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ottla.host import HostClock
from ottla.server.net.loop_lag import LoopLateness
from ottla.testing.broker import make_node

METADATA_V9 = 3 << 16 | 9


class _Clock(HostClock):
    """The machine's clock, with a jump for each delay that a test wants."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return HostClock.monotonic() + self.ahead_s


async def _until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ottla.server.net.loop_lag"]


def test_a_loop_that_was_late_is_counted_and_named_once_in_some_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        clock = _Clock()
        lateness = LoopLateness(clock)
        lateness.latest_api = METADATA_V9
        lateness.start()
        clock.ahead_s += 3.0
        await _until(lambda: lateness.count == 1)
        clock.ahead_s += 3.0
        await _until(lambda: lateness.count == 2)
        assert lateness.worst_s >= 2.9
        lateness.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(main(), 30))
    (line,) = _lines(caplog)
    assert "ms late" in line
    assert "Metadata v9" in line


def test_a_request_that_held_the_loop_is_counted_once_with_its_whole_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        lateness = LoopLateness(HostClock())
        lateness.start()
        lateness.latest_api = METADATA_V9
        lateness.held(0.7)
        lateness.latest_api = 18 << 16
        await _until(lambda: lateness.count)
        assert (lateness.count, lateness.last_s, lateness.worst_s) == (1, 0.7, 0.7)
        lateness.reset()
        assert (lateness.count, lateness.last_s, lateness.worst_s) == (0, 0.0, 0.0)
        lateness.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(main(), 30))
    (line,) = _lines(caplog)
    assert "Metadata v9 held it for 700 ms" in line


def test_a_node_measures_while_it_runs_and_its_dispatcher_notes_the_latest_request(tmp_path: Any) -> None:
    async def main() -> None:
        node = make_node(str(tmp_path), 0, {})
        await node.start()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", node.port)
            writer.write(bytes.fromhex("0000000a00120000000000010000"))
            await _until(lambda: node.lateness.latest_api == 18 << 16)
            writer.close()
            node.lateness.held(5.0)
            await _until(lambda: node.broker.lateness.worst_s == 5.0)
        finally:
            await node.stop()
        assert node.lateness._timer is None

    asyncio.run(asyncio.wait_for(main(), 60))
