"""Profiles: named sets of client settings in `~/.config/ottla/config.toml`, one for each cluster.

    current = "local"

    [profile.local]
    bootstrap.servers = "localhost:9092"

    [profile.prod]
    bootstrap.servers = "broker-1:9093,broker-2:9093"
    security.protocol = "SASL_SSL"
    output = "wide"

Keys are the names of client settings, quoted or not, and `output`. The file may contain passwords, so only
its owner can read it. Rule: an edit changes only the affected lines, and is saved only if the new text parses
to the intended profiles.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ottla.cli.errors import Problem, unknown

OUTPUT = "output"
_CURRENT = "current"
_SECRET = re.compile(r"password|secret|jaas|\.token$|private|keystore\.key$")
_BARE = re.compile(r"[A-Za-z0-9.]+")
_BEGINNINGS = ("sasl.oauthbearer.scope", "sasl.oauthbearer.token")
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Profiles:
    """The contents of the file."""

    path: Path
    current: str | None = None
    by_name: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def settings_of(self, name: str) -> Mapping[str, str]:
        if name not in self.by_name:
            raise unknown("profile", name, self.by_name, cure=f"Create it with: ottla profile set {name}")
        return self.by_name[name]


def config_path(environment: Mapping[str, str] | None = None) -> Path:
    """The path of the file, by the XDG rules."""
    environment = os.environ if environment is None else environment
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(
        environment.get("HOME") or os.path.expanduser("~"), ".config"
    )
    return Path(home) / "ottla" / "config.toml"


def load(path: Path | None = None) -> Profiles:
    """Read the file; a missing file means no profiles."""
    path = path or config_path()
    return parse(_read(path), path)


def parse(text: str, path: Path) -> Profiles:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Problem(f"{path} is not valid TOML: {error}. Fix that line.") from error
    tables = document.get("profile", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise Problem(f"{path} is invalid: profiles must be tables, such as [profile.local].")
    current = document.get(_CURRENT)
    if not (current is None or isinstance(current, str)):
        raise Problem(f"{path} is invalid: current must be the name of a profile, in quotes.")
    return Profiles(path, current, {name: _flat(table) for name, table in tables.items()})


def is_secret(setting: str) -> bool:
    """Whether a setting is sensitive."""
    return _SECRET.search(setting.lower()) is not None


def set_settings(profiles: Profiles, name: str, changes: Mapping[str, str | None]) -> Profiles:
    """Change a profile, or create it; None removes a setting. Returns the new contents."""
    if not _NAME.fullmatch(name):
        raise Problem(f"{name!r} is not a valid profile name. Use letters, digits, - and _.")
    settings = dict(profiles.by_name.get(name, {}))
    for setting, value in changes.items():
        if value is None:
            settings.pop(setting, None)
        else:
            settings[setting] = value
    lines = _read(profiles.path).splitlines()
    begin, end = _section(lines, name)
    kept = [line for line in lines[begin + 1 : end] if _key_of(line) not in changes]
    while kept and not kept[-1].strip():
        kept.pop()
    added = [f"{_key(key)} = {_quoted(value)}" for key, value in changes.items() if value is not None]
    if begin == len(lines) and lines and lines[-1].strip():
        lines.append("")
        begin = end = len(lines)
    rest = lines[end:]
    lines = [*lines[:begin], f"[profile.{name}]", *kept, *added, *([""] if rest else []), *rest]
    return _write(
        profiles, lines, Profiles(profiles.path, profiles.current, {**profiles.by_name, name: settings})
    )


def use(profiles: Profiles, name: str) -> Profiles:
    """Make a profile the current one."""
    profiles.settings_of(name)
    lines = _read(profiles.path).splitlines()
    top = next((at for at, line in enumerate(lines) if line.lstrip().startswith("[")), len(lines))
    kept = [line for line in lines[:top] if _key_of(line) != _CURRENT]
    while kept and not kept[-1].strip():
        kept.pop()
    lines = [*kept, f"{_CURRENT} = {_quoted(name)}", "", *lines[top:]]
    return _write(profiles, lines, Profiles(profiles.path, name, profiles.by_name))


def delete(profiles: Profiles, name: str) -> Profiles:
    """Remove a profile; if it was the current one, none is current afterwards."""
    profiles.settings_of(name)
    lines = _read(profiles.path).splitlines()
    begin, end = _section(lines, name)
    lines = lines[:begin] + lines[end:]
    current = profiles.current
    if current == name:
        current = None
        lines = [line for line in lines if _key_of(line) != _CURRENT]
    left = {one: settings for one, settings in profiles.by_name.items() if one != name}
    return _write(profiles, lines, Profiles(profiles.path, current, left))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        raise Problem(f"{path} is not valid UTF-8. Save it as UTF-8.") from error


def _write(before: Profiles, lines: list[str], meant: Profiles) -> Profiles:
    text = "\n".join(lines).strip("\n") + "\n"
    hand = f"{before.path} has a layout that this command cannot edit. Edit it by hand."
    try:
        if parse(text, before.path) != meant:
            raise Problem(hand)
    except Problem as error:
        raise Problem(hand) from error
    before.path.parent.mkdir(parents=True, exist_ok=True)
    partial = before.path.with_name(f"{before.path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(partial, os.path.realpath(before.path))
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    return meant


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Join keys that TOML reads as nested tables; format values as client settings."""
    flat: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[_spelled(f"{prefix}{key}")] = _text(value)
    return flat


def _spelled(name: str) -> str:
    """Client settings are spelled with dots; bootstrap_servers and bootstrap-servers mean the same."""
    return name.replace("_", ".").replace("-", ".")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(_text(one) for one in value)
    return str(value)


def _section(lines: list[str], name: str) -> tuple[int, int]:
    """The lines of a profile, starting with its header; empty, at the end of the file, if it is missing."""
    header = re.compile(rf"\s*\[\s*profile\s*\.\s*(['\"]?){re.escape(name)}\1\s*\]\s*(#.*)?")
    begin = next((at for at, line in enumerate(lines) if header.fullmatch(line)), len(lines))
    end = next((at for at in range(begin + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    return begin, end


def _key_of(line: str) -> str | None:
    """The setting that a line sets, if it sets one."""
    try:
        document = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    return next(iter(_flat(document)), None)


def _key(setting: str) -> str:
    """Names of settings need no quotes, except if one is also the prefix of another."""
    return setting if _BARE.fullmatch(setting) and setting not in _BEGINNINGS else _quoted(setting)


def _quoted(text: str) -> str:
    """A TOML string; JSON's escapes are valid in TOML."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
