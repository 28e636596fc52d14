"""The settings with which a session starts."""

from __future__ import annotations

import pytest

from ottla.spark.java import session_settings

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"


@pytest.fixture(autouse=True)
def no_choice_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_UDS_MODE", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("master", [None, "local", "local[2]"])
def test_rows_go_through_unix_sockets_on_one_machine(master: str | None) -> None:
    settings = {"spark.ui.enabled": "false"}
    assert session_settings(master, settings) == {"spark.ui.enabled": "false", UNIX_SOCKETS: "true"}
    assert settings == {"spark.ui.enabled": "false"}


def test_a_choice_of_the_user_stays() -> None:
    assert session_settings("local[2]", {UNIX_SOCKETS: "false"}) == {UNIX_SOCKETS: "false"}


def test_the_choice_in_sparks_own_variable_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_UDS_MODE", "false")
    assert session_settings("local[2]", {}) == {}


def test_a_cluster_and_a_remote_session_decide_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert session_settings("spark://main:7077", {}) == {}
    monkeypatch.setenv("SPARK_REMOTE", "sc://main")
    assert session_settings(None, {}) == {}
