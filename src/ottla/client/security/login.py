"""The client's login: `sasl.username` and `sasl.password`, or `sasl.jaas.config`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.config import CommonSettings
from ottla.client.errors import ConfigError

_MODULES = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
_FORM = 'org.apache.kafka...{module} required username="me" password="secret";'
_ENTRY = re.compile(r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*);\s*", re.DOTALL | re.I)
_OPTION = re.compile(r"""\s*([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")


class Login(NamedTuple):
    """A user name and a password; `token` if they belong to a delegation token."""

    username: str
    password: str
    token: bool = False

    def __repr__(self) -> str:
        return f"Login(username={self.username!r}, password='[hidden]', token={self.token})"


def login_of(settings: CommonSettings) -> Login:
    """The login for PLAIN and SCRAM; ConfigError if the settings contain none."""
    mechanism = settings.sasl_mechanism
    if settings.sasl_username is not None and settings.sasl_password is not None:
        return Login(settings.sasl_username, settings.sasl_password)
    options = jaas_options(settings)
    username, password = options.get("username"), options.get("password")
    if username is None or password is None:
        raise ConfigError(
            f"sasl.mechanism={mechanism} needs sasl.username and sasl.password, or both in sasl.jaas.config."
        )
    return Login(username, password, options.get("tokenauth", "").lower() == "true")


def jaas_options(settings: CommonSettings) -> Mapping[str, str]:
    """The options of `sasl.jaas.config`; empty if it is not set."""
    text = settings.sasl_jaas_config
    if text is None or not text.strip():
        return {}
    module = _MODULES[settings.sasl_mechanism]
    entry = _ENTRY.fullmatch(text)
    options = _options(entry[2]) if entry is not None else None
    if entry is None or options is None:
        raise ConfigError(f"sasl.jaas.config cannot be read. Its form is: {_FORM.format(module=module)}")
    if entry[1].rpartition(".")[2] != module:
        raise ConfigError(
            f"sasl.jaas.config names {entry[1]}, and sasl.mechanism={settings.sasl_mechanism} needs {module}."
        )
    return options


def _options(text: str) -> dict[str, str] | None:
    options: dict[str, str] = {}
    position = 0
    while text[position:].strip():
        match = _OPTION.match(text, position)
        if match is None:
            return None
        name, double, single, bare = match.groups()
        quoted = double if double is not None else single
        options[name] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = match.end()
    return options
