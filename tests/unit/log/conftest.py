"""Fixtures of the log's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.log.support import Bench, FaultyDisk


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Bench]:
    """A bench on a disk that can fail: `bench.disk` is a FaultyDisk."""
    bench = Bench(tmp_path, disk=FaultyDisk())
    yield bench
    bench.close()
