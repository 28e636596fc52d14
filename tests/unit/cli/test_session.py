"""The settings of a call: flags over the environment over the profile over the defaults."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from ottla.cli import profiles
from ottla.cli.errors import Misuse, Problem
from ottla.cli.output import Format
from ottla.cli.session import Flags, Session


@pytest.fixture
def home(own_home: Path) -> dict[str, str]:
    """An environment with two profiles, one of them current."""
    known = profiles.set_settings(
        profiles.load(), "one", {"bootstrap.servers": "one:1", "output": "yaml", "acks": "1"}
    )
    known = profiles.set_settings(known, "two", {"bootstrap.servers": "two:2", "security.protocol": "SSL"})
    profiles.use(known, "one")
    return {"XDG_CONFIG_HOME": str(own_home)}


def test_the_default_cluster_is_local() -> None:
    session = Session(Flags(), {"XDG_CONFIG_HOME": "/nowhere"})
    assert session.bootstrap_servers == "localhost:9092"
    assert session.output is Format.TABLE
    assert session.profile is None


def test_more_explicit_settings_win(home: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:4\nclient.id=c\n")
    environment = home | {"OTTLA_BOOTSTRAP_SERVERS": "environment:3", "OTTLA_OUTPUT": "wide"}

    def servers(environment: dict[str, str], **flags: object) -> str:
        return Session(Flags(**flags), environment).bootstrap_servers  # type: ignore[arg-type]

    assert servers(home) == "one:1"
    assert servers(home | {"OTTLA_PROFILE": "two"}) == "two:2"
    assert servers(environment) == "environment:3"
    assert servers(environment, profile="two") == "two:2"
    assert servers(environment, profile="two", config=str(file)) == "file:4"
    assert servers(environment, config=str(file), properties=("bootstrap.servers=x:5",)) == "x:5"
    assert servers(environment, properties=("bootstrap.servers=x:5",), bootstrap_server="b:6") == "b:6"
    assert Session(Flags(), home).output is Format.YAML
    assert Session(Flags(), environment).output is Format.WIDE
    assert Session(Flags(output="json"), environment).output is Format.JSON


def test_each_client_gets_only_its_known_settings(home: dict[str, str]) -> None:
    session = Session(Flags(properties=("group.id=g", "client.id=c")), home)
    assert session.client_config("producer", linger_ms="5") == {
        "linger.ms": "5",
        "bootstrap.servers": "one:1",
        "acks": "1",
        "client.id": "c",
    }
    assert session.client_config("consumer") == {
        "bootstrap.servers": "one:1",
        "group.id": "g",
        "client.id": "c",
    }
    assert session.client_config("admin") == {"bootstrap.servers": "one:1", "client.id": "c"}


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        (Flags(properties=("retires=1",)), "-X: retires is not a client setting. Did you mean retries?"),
        (Flags(properties=("retries",)), "-X retries is not in the form name=value"),
        (Flags(config="retention.ms=1"), "expected a client.properties file"),
        (Flags(profile="on"), "There is no profile on. Did you mean one?"),
    ],
)
def test_typos_are_reported(home: dict[str, str], flags: Flags, cause: str) -> None:
    with pytest.raises(Problem) as caught:
        _ = Session(flags, home).settings
    assert cause in str(caught.value)


def test_an_unknown_format_is_reported_at_once() -> None:
    with pytest.raises(Misuse, match=re.escape("xml. Use one of table, wide, json, yaml.")):
        Session(Flags(output="xml"))


def test_an_unreachable_cluster_is_reported_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        Session(Flags(bootstrap_server=f"127.0.0.1:{port}")).check_reachable()
    with (
        pytest.raises(Problem, match=r"connection refused.*ottla start"),
        Session(Flags(bootstrap_server=f"127.0.0.1:{port}")).admin(),
    ):
        pass
