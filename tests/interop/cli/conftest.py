"""A Kafka and an Ottla node for `ottla`, and helpers that run it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import uuid4

import pytest

from ottla.cli import main
from ottla.client.admin import Admin, NewTopic
from tests.interop import peers


class Ran(NamedTuple):
    """The exit code and output of a command."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


Run = Callable[..., Ran]
NewTopicNamed = Callable[..., str]


@pytest.fixture(scope="package", params=["kafka", "ottla"])
def broker(request: pytest.FixtureRequest) -> Iterator[peers.BrokerProcess]:
    with peers.running(request.param) as running:
        yield running


@pytest.fixture
def ottla(
    broker: peers.BrokerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """`ottla("topic", "list")` in this process, on the broker, with `stdin` as its input."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", broker.bootstrap)

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            code = main(list(arguments))
        out.flush()
        buffer = out.buffer
        assert isinstance(buffer, io.BytesIO)
        return Ran(code, buffer.getvalue(), err.getvalue())

    return run


@pytest.fixture
def new_topic(broker: peers.BrokerProcess) -> NewTopicNamed:
    """Create a topic and return its name."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"topic-{uuid4().hex[:10]}"
        with Admin(broker.bootstrap) as admin:
            named = {key.replace("_", "."): value for key, value in configs.items()}
            admin.create_topics([NewTopic(name, partitions, 1, configs=named)]).all()
        return name

    return make


@pytest.fixture
def command(broker: peers.BrokerProcess) -> list[str]:
    """The command line of `ottla` in a separate process; see `environment`."""
    return [sys.executable, "-m", "ottla.cli"]


@pytest.fixture
def environment(broker: peers.BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    source = str(peers.ROOT / "src")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        "OTTLA_BOOTSTRAP_SERVERS": broker.bootstrap,
        "XDG_CONFIG_HOME": str(tmp_path_factory.mktemp("home")),
    }
