"""Kafka's tools in one JVM, and a Kafka and an Ottla node to run both tools on."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools, command_lines

Main = Callable[[Sequence[str]], int]


@pytest.fixture(scope="package")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


@pytest.fixture(scope="package", params=["kafka", "ottla"])
def broker(request: pytest.FixtureRequest) -> Iterator[peers.BrokerProcess]:
    with peers.running(request.param) as running:
        yield running


@pytest.fixture(scope="package")
def topics(broker: peers.BrokerProcess) -> None:
    """Two topics with a few records in the first."""
    bootstrap = {"bootstrap.servers": broker.bootstrap}
    admin = AdminClient(bootstrap)
    for done in admin.create_topics([NewTopic("words", 3, 1), NewTopic("sums", 1, 1)]).values():
        done.result(60)
    producer = Producer(bootstrap)
    for number in range(30):
        producer.produce("words", value=str(number), partition=number % 3)
    assert producer.flush(60) == 0


def ours(main: Main, arguments: Sequence[str]) -> Ran:
    """Our tool, run here."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return Ran(code, out.getvalue(), err.getvalue())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if command_lines:
        tools = len({line[0] for line in command_lines})
        terminalreporter.write_line(
            f"{len(command_lines)} command lines of {tools} tools: run by Kafka's and by ours, and compared."
        )
