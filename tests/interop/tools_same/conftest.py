"""Kafka's tools in one JVM, and a Kafka and an Ottla node to run both tools on."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout

import pytest

from tests.interop import peers
from tests.interop.groups_tool.runner import Ran, Tools

Main = Callable[[Sequence[str]], int]


@pytest.fixture(scope="package")
def tools() -> Iterator[Tools]:
    with Tools() as running:
        yield running


@pytest.fixture(scope="package", params=["kafka", "ottla"])
def broker(request: pytest.FixtureRequest) -> Iterator[peers.BrokerProcess]:
    with peers.running(request.param) as running:
        yield running


def ours(main: Main, arguments: Sequence[str]) -> Ran:
    """Our tool, run here."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return Ran(code, out.getvalue(), err.getvalue())
