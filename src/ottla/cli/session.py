"""The settings of one call: the command line, then the environment, the profile and the defaults.

Rule: the order of precedence is `-b`, `-X`, `--config FILE`, the profile of `-p`, OTTLA_BOOTSTRAP_SERVERS,
the profile of OTTLA_PROFILE or the current one, and finally localhost:9092.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from ottla.cli.errors import Misuse, Problem, near_names
from ottla.cli.output import Format

if TYPE_CHECKING:
    import typer

    from ottla.client.admin import Admin

DEFAULT_SERVERS = "localhost:9092"
_SERVERS = "bootstrap.servers"
_REACH_SECONDS = 5.0

# For a person at the terminal, half a minute is long enough to wait.
_PATIENCE = {"default.api.timeout.ms": "30000", "request.timeout.ms": "20000"}

ClientKind = Literal["admin", "producer", "consumer"]


@dataclass(frozen=True, slots=True)
class Flags:
    """The global flags as typed; None or () if absent."""

    profile: str | None = None
    bootstrap_server: str | None = None
    output: str | None = None
    properties: tuple[str, ...] = ()
    config: str | None = None

    def over(self, weaker: Flags) -> Flags:
        """These flags, with the other ones as defaults."""
        merged: dict[str, Any] = {
            one.name: getattr(self, one.name) or getattr(weaker, one.name) for one in fields(self)
        }
        merged["properties"] = (*weaker.properties, *self.properties)
        return Flags(**merged)


class Session:
    """The cluster, client settings and output format of a call."""

    def __init__(self, flags: Flags | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._flags = Flags()
        self._environment = os.environ if environment is None else environment
        self._settings: dict[str, str] | None = None
        self._profile: str | None = None
        if flags is not None:
            self.put_on_top(flags)

    def put_on_top(self, flags: Flags) -> None:
        """Merge flags that were typed later and take precedence over earlier ones."""
        if flags.output is not None:
            _format(flags.output)
        self._flags = flags.over(self._flags)
        self._settings = None

    @property
    def flags(self) -> Flags:
        return self._flags

    @property
    def profile(self) -> str | None:
        """The name of the profile in use, if any."""
        self._resolve()
        return self._profile

    @property
    def profile_name(self) -> str | None:
        """The name of the selected profile, whether it exists or not."""
        from ottla.cli import profiles

        named = self._flags.profile or self._environment.get("OTTLA_PROFILE")
        return named or profiles.load(profiles.config_path(self._environment)).current

    @property
    def settings(self) -> Mapping[str, str]:
        """All client settings of the call by dotted name, including the bootstrap servers."""
        return self._resolve()

    @property
    def bootstrap_servers(self) -> str:
        return self._resolve()[_SERVERS]

    @property
    def output(self) -> Format:
        given = self._flags.output or self._environment.get("OTTLA_OUTPUT")
        if given is None:
            self._resolve()
            given = self._output_of_profile
        return _format(given or Format.TABLE)

    @property
    def is_structured(self) -> bool:
        """Whether the output format is JSON or YAML."""
        return self.output in (Format.JSON, Format.YAML)

    @property
    def is_wide(self) -> bool:
        return self.output is Format.WIDE

    def client_config(self, kind: ClientKind = "consumer", **defaults: str) -> dict[str, object]:
        """Settings for `Producer`, `Consumer` or `Admin`: a mapping with dotted names.

        Settings that only other clients know are omitted, as one profile serves all clients. `defaults`, in
        snake_case, apply to settings that are not set.
        """
        from ottla.client.config import parameters

        known = parameters(kind)
        merged: dict[str, object] = {name.replace("_", "."): value for name, value in defaults.items()}
        merged.update((name, value) for name, value in self._resolve().items() if name in known)
        return merged

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """An admin client of the cluster, closed at the end: `with session.admin() as admin:`."""
        from ottla.client.admin import Admin

        config = {**_PATIENCE, **self.client_config("admin")}
        self.check_reachable()
        with Admin(config) as admin:
            yield admin

    def check_reachable(self, timeout_seconds: float = _REACH_SECONDS) -> None:
        """Fail fast if no server accepts connections, instead of retrying as long as clients do."""
        import socket

        from ottla.client.config import AdminSettings

        servers = AdminSettings.parse({_SERVERS: self.bootstrap_servers}).bootstrap_servers
        seen = []
        for host, port in servers:
            try:
                socket.create_connection((host, port), timeout=timeout_seconds).close()
                return
            except (OSError, UnicodeError) as error:
                seen.append(f"{host}:{port}: {_reason(error)}")
        raise Problem(
            f"No broker is reachable ({'; '.join(seen)}). Start one with ottla start, or choose another "
            "with -b HOST:PORT or a profile."
        )

    def _resolve(self) -> dict[str, str]:
        if self._settings is None:
            self._settings = self._resolved()
        return self._settings

    def _resolved(self) -> dict[str, str]:
        from ottla.cli import profiles

        flags, environment = self._flags, self._environment
        known = profiles.load(profiles.config_path(environment))
        named = flags.profile or environment.get("OTTLA_PROFILE") or known.current
        settings: dict[str, str] = {_SERVERS: DEFAULT_SERVERS}
        self._profile = named
        self._output_of_profile: str | None = None
        if named is not None:
            own = dict(known.settings_of(named))
            self._output_of_profile = own.pop(profiles.OUTPUT, None)
            check_settings(own, f"profile {named}")
            settings.update(own)
        if environment.get("OTTLA_BOOTSTRAP_SERVERS") and flags.profile is None:
            settings[_SERVERS] = environment["OTTLA_BOOTSTRAP_SERVERS"]
        if flags.config is not None:
            settings.update(_file_settings(flags.config))
        settings.update(_typed_settings(flags.properties))
        if flags.bootstrap_server is not None:
            settings[_SERVERS] = flags.bootstrap_server
        return settings


def _format(name: str) -> Format:
    try:
        return Format(name.lower())
    except ValueError:
        raise Misuse(f"Unknown output format {name}. Use one of {', '.join(Format)}.") from None


def session_of(context: typer.Context) -> Session:
    """The session of the command that runs."""
    session = context.find_root().obj
    assert isinstance(session, Session), "app.run creates the session."
    return session


def pairs(texts: tuple[str, ...] | list[str], flag: str) -> dict[str, str]:
    """`name=value` texts as a mapping."""
    found = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not mark or not name.strip():
            raise Misuse(f"{flag} {text} is not in the form name=value.")
        found[name.strip()] = value.strip()
    return found


def _typed_settings(properties: tuple[str, ...]) -> dict[str, str]:
    typed = pairs(properties, "-X")
    if typed:
        check_settings(typed, "-X")
    return typed


def _file_settings(path: str) -> dict[str, str]:
    from ottla import properties

    if "=" in path and not os.path.exists(path):
        raise Misuse(
            f"--config {path}: expected a client.properties file. To change a setting, use --set {path}"
        )
    try:
        with open(path, "rb") as file:
            return properties.as_dict(properties.decode(file.read()))
    except properties.PropertiesError as error:
        raise Problem(f"{path}, {error}. Fix that line.") from error


def check_settings(settings: Mapping[str, str], origin: str) -> None:
    """Reject settings that no client knows: they are typos."""
    from ottla.client.config import parameters

    kinds: tuple[ClientKind, ...] = ("admin", "producer", "consumer")
    known = {name for kind in kinds for name in parameters(kind)}
    for name in settings:
        if name not in known and not name.startswith("config.providers."):
            hint = near_names(name, known)
            raise Misuse(f"{origin}: {name} is not a client setting.{' ' + hint if hint else ''}")


def _reason(error: Exception) -> str:
    import socket

    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, (TimeoutError, socket.timeout)):
        return "timed out"
    if isinstance(error, (socket.gaierror, UnicodeError)):
        return "unknown host"
    return getattr(error, "strerror", None) or str(error)
