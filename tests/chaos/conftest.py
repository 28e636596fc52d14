"""Common parts of the tests: the `peer` mark, and the nodes' logs in failure reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.conftest import pytest_runtest_makereport, pytest_runtest_setup

__all__ = ["pytest_runtest_makereport", "pytest_runtest_setup"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.peer)
