"""The options of the format "ottla": names as in Spark's Kafka connector, checked as a whole.

Spark hands options over with their names in lower case, so names are compared that way and shown as they are
spelled here. Rule: nothing is passed over. A name that is not known is refused with the nearest one that is;
a client's property has the prefix `kafka.` and is checked by the client's own table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.units import MILLISECONDS

PREFIX = "kafka."
SERVERS = "kafka.bootstrap.servers"


class OptionError(ValueError):
    """An option that is unknown, has a wrong value, or contradicts another; one line for each fault."""


class Kind(Enum):
    """What an option's text stands for."""

    TEXT = "a text"
    BOOLEAN = "true or false"
    COUNT = "a positive integer"
    NUMBER = "a non-negative integer"
    BYTES = "a number of bytes, such as 1048576, 512k, 64m or 2g"
    DURATION = "a duration, such as 500ms, 30s, 15m or 2h"
    CHOICE = "one of"
    UNUSED = "nothing"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. Texts are turned into what `kind` says; `default` is that already."""

    name: str
    kind: Kind = Kind.TEXT
    default: Any = None
    doc: str = ""
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """The value; ValueError where the text is none."""
        match self.kind:
            case Kind.BOOLEAN:
                return {"true": True, "false": False}[text.strip().lower()]
            case Kind.COUNT | Kind.NUMBER:
                number = int(text)
                if number < (1 if self.kind is Kind.COUNT else 0):
                    raise ValueError(text)
                return number
            case Kind.BYTES:
                return parse_size(text)
            case Kind.DURATION:
                return parse_duration_ms(text)
            case Kind.CHOICE:
                return {choice.lower(): choice for choice in self.choices}[text.strip().lower()]
        return text

    @property
    def wanted(self) -> str:
        """What may be given, for the message."""
        return f"one of {', '.join(self.choices)}" if self.kind is Kind.CHOICE else self.kind.value


_SIZES = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
}
_TIMES = {unit: MILLISECONDS[unit] for unit in ("ms", "s", "m", "h", "d")}
_TIMES |= {"": 1, "min": MILLISECONDS["m"]}


def _scaled(text: str, units: Mapping[str, int]) -> int:
    plain = text.strip().lower()
    digits = plain.rstrip("abcdefghijklmnopqrstuvwxyz ")
    return int(digits) * units[plain[len(digits) :].strip()]


def parse_size(text: str) -> int:
    """Bytes from a text such as 64m; ValueError or KeyError where it is none."""
    size = _scaled(text, _SIZES)
    if size < 1:
        raise ValueError(text)
    return size


def parse_duration_ms(text: str) -> int:
    """Milliseconds from a text such as 15m or 500 (ms); ValueError or KeyError where it is none."""
    span = _scaled(text, _TIMES)
    if span < 0:
        raise ValueError(text)
    return span


class OptionTable:
    """The options that one side of the format knows."""

    def __init__(self, purpose: str, options: Iterable[Option]) -> None:
        self.purpose = purpose
        self._options = {option.name.lower(): option for option in options}

    def parse(self, given: Mapping[str, str]) -> dict[str, Any]:
        """All options by their names, defaults too, and under "kafka" the client's properties.

        OptionError has a line for each fault. Options that have no meaning here are under "unused".
        """
        values: dict[str, Any] = {option.name: option.default for option in self._options.values()}
        faults: list[str] = []
        client: dict[str, str] = {}
        unused: list[str] = []
        for name, text in given.items():
            option = self._options.get(name.lower())
            if option is not None and option.kind is Kind.UNUSED:
                unused.append(option.name)
            elif option is not None:
                try:
                    values[option.name] = option.parse(str(text))
                except (ValueError, KeyError):
                    faults.append(f"The option {option.name} is {text!r} but must be {option.wanted}.")
            elif name.lower().startswith(PREFIX):
                client[name[len(PREFIX) :].lower()] = str(text)
            else:
                faults.append(self._unknown(name))
        if "bootstrap.servers" not in client:
            faults.append(f'The option {SERVERS} is missing: option("{SERVERS}", "host:9092").')
        if faults:
            raise OptionError("\n".join(faults))
        values["kafka"] = client
        values["unused"] = unused
        return values

    def _unknown(self, name: str) -> str:
        from ottla.client.config.schema import CLIENTS, parameters
        from ottla.config.names import nearest

        near = nearest(
            name.lower(), (key for key, one in self._options.items() if one.kind is not Kind.UNUSED)
        )
        if any(name.lower() in parameters(kind) for kind in CLIENTS):
            hint = f" Client properties need a prefix: did you mean {PREFIX}{name.lower()}?"
        elif near is not None:
            hint = f" Did you mean {self._options[near].name}?"
        else:
            hint = ""
        return f"Unknown option {name} for {self.purpose}.{hint}"


def bootstrap(values: Mapping[str, Any]) -> str:
    """The servers, for messages."""
    servers: str = values["kafka"]["bootstrap.servers"]
    return servers
