"""Profiles: parsing the file, and edits that change only the affected lines."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from ottla.cli import main, profiles
from ottla.cli.errors import Problem
from ottla.cli.profiles import Profiles


def read(text: str) -> Profiles:
    return profiles.parse(text, Path("config.toml"))


def test_setting_names_may_be_quoted() -> None:
    found = read(
        '[profile.a]\nbootstrap.servers = "h:1"\n"security.protocol" = "SSL"\nbootstrap-controllers = "c:1"\n'
        'retries = 3\nenable.metrics.push = false\nbootstrap_x = ["a", "b"]\n'
    )
    assert found.settings_of("a") == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SSL",
        "bootstrap.controllers": "c:1",
        "retries": "3",
        "enable.metrics.push": "false",
        "bootstrap.x": "a,b",
    }


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[profile.a\n", "is not valid TOML"),
        ('profile = "a"\n', "profiles must be tables"),
        ("current = 3\n", "current must be the name"),
    ],
)
def test_an_invalid_file_is_reported(text: str, cause: str) -> None:
    with pytest.raises(Problem, match=cause):
        read(text)


def test_an_unknown_profile_suggests_similar_names() -> None:
    with pytest.raises(Problem, match=re.escape("There is no profile prd. Did you mean prod?")):
        read("[profile.prod]\n").settings_of("prd")


def test_edits_keep_comments_and_the_other_profiles(own_home: Path) -> None:
    path = profiles.config_path()
    assert path == own_home / "ottla" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        '# mine\n\n[profile.a] # first\n# where\nbootstrap.servers = "h:1"\nretries = 3\n\n'
        '[profile.b]\nbootstrap.servers = "h:2"\n'
    )
    known = profiles.set_settings(profiles.load(), "a", {"bootstrap.servers": "h:3", "retries": None})
    assert known.by_name == {"a": {"bootstrap.servers": "h:3"}, "b": {"bootstrap.servers": "h:2"}}
    assert profiles.load() == known
    text = path.read_text()
    assert "# mine" in text
    assert "# where" in text
    assert text.index("h:3") < text.index("[profile.b]")
    known = profiles.use(known, "b")
    assert profiles.load().current == "b"
    known = profiles.delete(profiles.use(known, "a"), "a")
    assert known.current is None
    assert profiles.load() == known
    assert list(known.by_name) == ["b"]
    assert "# mine" in path.read_text()


def test_only_its_owner_can_read_the_file(own_home: Path) -> None:
    profiles.set_settings(profiles.load(), "a", {"sasl.password": "x"})
    assert stat.S_IMODE(profiles.config_path().stat().st_mode) == 0o600
    assert [one.name for one in (own_home / "ottla").iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.oauthbearer.token": "t", "sasl.oauthbearer.token.endpoint.url": "http://h"},
        {"sasl.jaas.config": 'a.B required username="u" password="p\\\\q";'},
        {"ssl.keystore.key": "-----BEGIN\nline\tü\x7f\n-----END"},
    ],
)
def test_any_value_survives_a_round_trip(own_home: Path, settings: dict[str, str]) -> None:
    profiles.set_settings(profiles.load(), "a", settings)
    assert profiles.load().settings_of("a") == settings
    changed = dict.fromkeys(settings, "other")
    profiles.set_settings(profiles.load(), "a", changed)
    assert profiles.load().settings_of("a") == changed


def test_an_uneditable_file_is_not_changed(own_home: Path) -> None:
    path = profiles.config_path()
    path.parent.mkdir()
    text = 'profile = { a = { "bootstrap.servers" = "h:1" } }\n'
    path.write_text(text)
    with pytest.raises(Problem, match="Edit it by hand"):
        profiles.set_settings(profiles.load(), "a", {"bootstrap.servers": "h:2"})
    assert path.read_text() == text


def test_profiles_are_created_used_shown_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "list"]) == 0
    assert "Create one with: ottla profile set" in capsys.readouterr().err
    assert main(["profile", "set", "local"]) == 0
    assert "It is now the current profile." in capsys.readouterr().out
    assert main(["profile", "set", "prod", "-b", "h:1", "sasl.password=geheim", "output=json"]) == 0
    assert main(["profile", "use", "prod"]) == 0
    capsys.readouterr()
    assert main(["profile", "list"]) == 0
    # The profile in use sets the output format JSON.
    assert '"used": true' in capsys.readouterr().out
    assert main(["profile", "show", "prod", "-o", "table"]) == 0
    shown = capsys.readouterr().out
    assert "bootstrap.servers=h:1" in shown
    assert "geheim" not in shown
    assert main(["profile", "show", "prod", "--secrets"]) == 0
    assert "geheim" in capsys.readouterr().out
    assert main(["profile", "set", "prod", "sasl.pasword=x"]) == 2
    assert "Did you mean sasl.password?" in capsys.readouterr().err
    assert main(["profile", "set", "a b", "retries=1"]) == 1
    assert "letters, digits" in capsys.readouterr().err
    assert main(["profile", "delete", "prod"]) == 0
    assert main(["profile", "delete", "prod"]) == 1
    assert list(profiles.load().by_name) == ["local"]
