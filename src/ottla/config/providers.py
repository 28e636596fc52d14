"""References to external values: `${env:NAME}`, `${file:/path:key}`, `${directory:/path:file}`.

They apply only if `config.providers` names a provider and `config.providers.<name>.class` is one of Kafka's
three classes. The caller passes a function that reads files, since this package does no IO.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ottla import properties

_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}]*)\}")
_KINDS = {
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "DirectoryConfigProvider": "directory",
}


class UnresolvedReference(ValueError):
    """A reference cannot be resolved."""


class Providers:
    """The providers in a set of settings."""

    def __init__(
        self, settings: Mapping[str, str], environment: Mapping[str, str], read: Callable[[str], bytes] | None
    ) -> None:
        names = (name.strip() for name in settings.get("config.providers", "").split(","))
        self._kinds = {name: _kind(name, settings) for name in names if name}
        self._settings = settings
        self._environment = environment
        self._read = read

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def resolve(self, text: str) -> str:
        """Replace the references in a text; references to unknown providers stay unchanged."""
        return _REFERENCE.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        name, path, key = match[1], match[2] or "", match[3]
        kind = self._kinds.get(name)
        if kind is None:
            return match[0]
        if kind == "env":
            return self._variable(name, key, match[0])
        allowed = self._settings.get(f"config.providers.{name}.param.allowed.paths", "")
        roots = [root.strip().rstrip("/") for root in allowed.split(",") if root.strip()]
        if ".." in path.split("/") or (
            roots and not any(f"{path}/".startswith(f"{root}/") for root in roots)
        ):
            raise UnresolvedReference(
                f"{match[0]} is outside of config.providers.{name}.param.allowed.paths."
            )
        try:
            if kind == "directory":
                if "/" in key:
                    raise UnresolvedReference(f"{match[0]} must be the name of a file in {path}, not a path.")
                return properties.decode(self._content(f"{path}/{key}"))
            return properties.as_dict(properties.decode(self._content(path)))[key]
        except (OSError, KeyError, ValueError) as error:
            raise UnresolvedReference(f"Cannot read {match[0]}: {error!r}.") from error

    def _variable(self, name: str, key: str, reference: str) -> str:
        pattern = self._settings.get(f"config.providers.{name}.param.allowlist.pattern")
        allowed = pattern is None or re.fullmatch(pattern, key) is not None
        if not allowed or key not in self._environment:
            raise UnresolvedReference(
                f"{reference} refers to an environment variable that is not set or not allowed."
            )
        return self._environment[key]

    def _content(self, path: str) -> bytes:
        if self._read is None:
            raise UnresolvedReference(f"Cannot read the file {path} here.")
        return self._read(path)


def _kind(name: str, settings: Mapping[str, str]) -> str:
    setting = f"config.providers.{name}.class"
    kind = _KINDS.get(settings.get(setting, "").strip().rpartition(".")[2])
    if kind is None:
        raise UnresolvedReference(f"{setting} must be one of {', '.join(_KINDS)} (with or without package).")
    return kind
