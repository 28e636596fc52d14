"""Parses a client's settings into a frozen object.

`parse` takes a mapping with dotted names and keywords in snake_case, with strings or Python values, and
reports all errors at once. The result is valid as a whole; the classes in settings.py add the types of the
attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, ClassVar, NoReturn, Self

from ottla import properties
from ottla.client.config import checks
from ottla.client.config.schema import CLIENTS, Kind, Parameter, parameters
from ottla.client.errors import ConfigError
from ottla.config.similar_names import nearest
from ottla.config.values import ConfigType, InvalidValue, parse, show

_INTEGERS = (ConfigType.INT, ConfigType.SHORT, ConfigType.LONG)


class Settings:
    """All settings of one client, read by attribute; frozen."""

    __slots__ = ("given", "warnings")
    KIND: ClassVar[Kind]

    given: frozenset[str]
    """The dotted names that were set explicitly."""
    warnings: tuple[str, ...]
    """Warnings for the user; log each once."""

    def __init__(self, values: Mapping[str, Any], given: frozenset[str], warnings: tuple[str, ...]) -> None:
        for attribute, value in (*values.items(), ("given", given), ("warnings", warnings)):
            object.__setattr__(self, attribute, value)

    @classmethod
    def parse(cls, mapping: Mapping[str, object] | str | None = None, /, **keywords: object) -> Self:
        """Parse a mapping with dotted names, or a string of bootstrap servers, and keywords.

        None means the default. ConfigError has a line for each error.
        """
        if isinstance(mapping, str):
            mapping = {"bootstrap.servers": mapping}
        given: dict[str, object] = {}
        faults: list[str] = []
        for key, value in (*(mapping or {}).items(), *keywords.items()):
            name = str(key).replace("_", ".")
            if name in given:
                faults.append(f"{name} is set twice.")
            given[name] = value
        return cls._checked(given, faults, [])

    @classmethod
    def from_properties(
        cls,
        text: str,
        overrides: Mapping[str, object] | None = None,
        *,
        origin: str = "client.properties",
        environment: Mapping[str, str] | None = None,
        read: Callable[[str], bytes] | None = None,
    ) -> Self:
        """Parse the text of a properties file; `overrides`, with dotted names, take precedence.

        As with Kafka's tools, one file may serve several clients: settings that this client does not have are
        ignored, with a warning unless another client has them. `environment` and `read` resolve the
        references that `config.providers` allows.
        """
        faults: list[str] = []
        warnings: list[str] = []
        given: dict[str, object] = {}
        try:
            entries = properties.parse(text)
        except properties.PropertiesError as error:
            raise ConfigError(f"{origin}, {error}.") from error
        for name, value in _resolved(entries, origin, environment or {}, read).items():
            line = next(entry.line for entry in reversed(entries) if entry.key == name)
            if name in parameters(cls.KIND):
                given[name] = value
            elif not name.startswith("config.providers.") and not any(name in parameters(k) for k in CLIENTS):
                warnings.append(f"Ignoring {origin}, line {line}: {_unknown(name, cls.KIND)}")
        given.update(overrides or {})
        return cls._checked(given, faults, warnings)

    @classmethod
    def _checked(cls, given: Mapping[str, object], faults: list[str], warnings: list[str]) -> Self:
        table = parameters(cls.KIND)
        present = {name: value for name, value in given.items() if value is not None}
        values: dict[str, Any] = {}
        for name in given:
            if name not in table:
                faults.append(_unknown(name, cls.KIND))
        for name, parameter in table.items():
            try:
                values[name] = (
                    _value(parameter, present[name]) if name in present else parameter.default_value
                )
            except InvalidValue as error:
                faults.append(_fault(parameter, present[name], error))
                continue
            _judge_use(parameter, present, values[name], faults, warnings)
            if parameter.required and name not in present:
                faults.append(f"{name} is required, for example {name}=localhost:9092.")
        if not faults:
            checks.complete(cls.KIND, values, frozenset(present), faults, warnings)
        if faults:
            raise ConfigError("\n".join(faults))
        attributes = {table[name].attribute: value for name, value in values.items()}
        return cls(attributes, frozenset(present), tuple(warnings))

    def replace(self, **keywords: object) -> Self:
        """Return a copy with some settings changed; the copy is validated as a whole."""
        given = {name: getattr(self, name.replace(".", "_")) for name in self.given}
        given.update((name.replace("_", "."), value) for name, value in keywords.items())
        return self._checked(given, [], [])

    def items(self) -> Iterator[tuple[str, Any]]:
        """Dotted names and values of all settings."""
        for name, parameter in parameters(self.KIND).items():
            yield name, getattr(self, parameter.attribute)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Settings are immutable. Make a changed copy with replace({name}=...).")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("Settings are immutable.")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(other.items()) == list(self.items())

    def __hash__(self) -> int:
        return hash((type(self), self.given))

    def __repr__(self) -> str:
        table = parameters(self.KIND)
        shown = (
            f"{table[name].attribute}={'[hidden]' if table[name].type is ConfigType.PASSWORD else value!r}"
            for name, value in self.items()
            if name in self.given
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def _resolved(
    entries: list[properties.Property],
    origin: str,
    environment: Mapping[str, str],
    read: Callable[[str], bytes] | None,
) -> dict[str, str]:
    """Resolve references such as ${env:NAME}, if the file names providers."""
    texts = {entry.key: entry.value for entry in entries}
    if not texts.get("config.providers", "").strip():
        return texts
    from ottla.config.providers import Providers, UnresolvedReference

    try:
        providers = Providers(texts, environment, read)
        return {name: providers.resolve(text) for name, text in texts.items()}
    except UnresolvedReference as error:
        raise ConfigError(f"{origin}: {error}") from error


def _value(parameter: Parameter, given: object) -> Any:
    """The Python value of an input; InvalidValue if it is invalid for this setting."""
    if parameter.name in ("bootstrap.servers", "bootstrap.controllers"):
        return _servers(parameter, given)
    if parameter.takes_objects:
        return _objects(parameter, given)
    if isinstance(given, str):
        return parameter.parse(given)
    kind = parameter.type
    if isinstance(given, timedelta) and kind in _INTEGERS:
        unit = timedelta(seconds=1) if parameter.name.endswith(".seconds") else timedelta(milliseconds=1)
        return parameter.parse(str(given // unit))
    if isinstance(given, bool):
        fits = kind is ConfigType.BOOLEAN
    elif isinstance(given, int):
        fits = kind in _INTEGERS or kind is ConfigType.DOUBLE or parameter.name == "acks"
    elif isinstance(given, float):
        fits = kind is ConfigType.DOUBLE
    else:
        fits = kind is ConfigType.LIST and isinstance(given, list | tuple)
    if not fits:
        wanted = _WANTED.get(kind, "a string")
        raise InvalidValue(parameter.name, str(given), f"It must be {wanted}, not a {type(given).__name__}")
    text = ",".join(map(str, given)) if isinstance(given, list | tuple) else show(given)  # type: ignore[arg-type]
    return parameter.parse(text or "")


_WANTED = {
    ConfigType.BOOLEAN: "a bool",
    ConfigType.INT: "an int",
    ConfigType.SHORT: "an int",
    ConfigType.LONG: "an int",
    ConfigType.DOUBLE: "a float",
    ConfigType.LIST: "a list or a comma-separated string",
}


def _servers(parameter: Parameter, given: object) -> tuple[str, ...]:
    """Addresses as strings; entries may also be (host, port)."""
    if isinstance(given, str):
        text = given
    elif isinstance(given, list | tuple):
        text = ",".join(_address(entry) for entry in given)
    else:
        raise InvalidValue(
            parameter.name, str(given), 'It must be a string such as "host:9092", or a list of strings'
        )
    addresses = parse(parameter.name, ConfigType.LIST, parameter.valid, text)
    assert isinstance(addresses, tuple)
    return tuple(address for address in addresses if address)


def _address(entry: object) -> str:
    if isinstance(entry, tuple) and len(entry) == 2:
        host, port = entry
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
    return str(entry)


def _objects(parameter: Parameter, given: object) -> object:
    """Trim strings, and split them for a list; keep other objects."""
    if parameter.type is ConfigType.CLASS:
        return (given.strip() or None) if isinstance(given, str) else given
    if isinstance(given, str):
        return parameter.parse(given)
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _judge_use(
    parameter: Parameter,
    present: Mapping[str, object],
    value: object,
    faults: list[str],
    warnings: list[str],
) -> None:
    """Add a warning or an error if a setting that has no effect here differs from its default."""
    if parameter.name not in present or value in (parameter.default_value, None, (), ""):
        return
    if parameter.use == "refused":
        faults.append(f"{parameter.name} is not supported. {parameter.doc}")
    elif parameter.use == "ignored":
        warnings.append(f"{parameter.name} has no effect. {parameter.doc}")


def _unknown(name: str, kind: Kind) -> str:
    others = [other for other in CLIENTS if other != kind and name in parameters(other)]
    if others:
        return f"{name} is a setting of the {' and the '.join(others)}, not of the {kind}."
    near = nearest(name, parameters(kind))
    hint = f" Did you mean {near}?" if near else ""
    return f"{name} is not a known setting of the {kind}.{hint}"


def _fault(parameter: Parameter, given: object, error: InvalidValue) -> str:
    value = "[hidden]" if parameter.type is ConfigType.PASSWORD else str(given).strip()
    return f"{parameter.name}={value} is not allowed. {error.reason.rstrip('.')}."
