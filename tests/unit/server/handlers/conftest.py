"""Fixtures: a disk in a temporary directory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.host import HostDisk


@pytest.fixture
def disk() -> Iterator[HostDisk]:
    made = HostDisk(threads=1)
    yield made
    made.close()
