"""Common parts of the tests with real peers: the `peer` mark, and the brokers' logs in failure reports."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.interop import peers

_HERE = Path(__file__).parent
_LINES_MAX = 15
_LINE_CHARACTERS_MAX = 300

_log_sizes = pytest.StashKey[dict[Path, int]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.peer)


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_log_sizes] = {
        broker.log_file: broker.log_file.stat().st_size
        for broker in peers.live_brokers
        if broker.log_file.exists()
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        for broker in peers.live_brokers:
            lines = _logged_since(broker.log_file, item.stash.get(_log_sizes, {}).get(broker.log_file, 0))
            if lines:
                report.sections.append((f"log of {broker.kind} on port {broker.port}", "\n".join(lines)))
    return report


def _logged_since(file: Path, size: int) -> list[str]:
    """The last lines that a broker logged during the test, each truncated to a readable length."""
    if not file.exists():
        return []
    with file.open("rb") as log:
        log.seek(size)
        lines = log.read().decode(errors="replace").splitlines()
    return [line[:_LINE_CHARACTERS_MAX] for line in lines[-_LINES_MAX:]]
