"""Commands under test must not see the profiles and settings of the person who runs the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that config.toml would be under."""
    home = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    for name in [name for name in os.environ if name.startswith("OTTLA_") and name != "OTTLA_KERNEL"]:
        monkeypatch.delenv(name)
    return home
