"""What the tests with real peers share: the `peer` mark, and a broker's log beside a failure."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.interop import peers

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.peer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for broker in peers.live_brokers:
            report.sections.append((f"log of {broker.kind} on port {broker.port}", broker.log_tail(25)))
    return report
