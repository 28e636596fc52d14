"""Fixtures: a disk for logs in temporary directories, and a whole node."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.host import HostDisk


@pytest.fixture
def disk() -> Iterator[HostDisk]:
    made = HostDisk(threads=1)
    yield made
    made.close()


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Callable[..., RunningNode]]:
    """Starts a node with settings; it is stopped after the test."""
    started: list[RunningNode] = []

    def start(settings: dict[str, str] | None = None) -> RunningNode:
        started.append(RunningNode(str(tmp_path / f"node{len(started)}"), settings or {}))
        return started[-1]

    yield start
    for node in started:
        node.close()


@pytest.fixture
def node(start_node: Callable[..., RunningNode]) -> RunningNode:
    return start_node()


@pytest.fixture
def garbage() -> Iterator[Callable[[Callable[[], Any]], int]]:
    """Counts the objects that a call leaves in cycles. What a large request leaves so is collected at once,
    in one turn of the loop."""

    def count(call: Callable[[], Any]) -> int:
        call()  # what is made once, such as a codec
        gc.collect()
        gc.disable()
        call()
        return gc.collect()

    yield count
    gc.enable()
