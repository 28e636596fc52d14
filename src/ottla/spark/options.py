"""The options of the format "ottla", named as in Spark's Kafka connector and checked together.

Spark passes option names in lower case, so they are compared that way and shown with this module's spelling.
Rule: no option is ignored silently. An unknown name is an error that suggests the nearest known one; the
client's own table checks properties with the prefix `kafka.`.
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
    """An option is unknown, invalid, or contradicts another; the message has one line per problem."""


class Kind(Enum):
    """How to parse an option."""

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
    """One option. `kind` parses its text; `default` is already a parsed value."""

    name: str
    kind: Kind = Kind.TEXT
    default: Any = None
    doc: str = ""
    choices: tuple[str, ...] = ()

    def parse(self, text: str) -> Any:
        """Parse the text; raises ValueError if it is invalid."""
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
        """A description of the valid values, for error messages."""
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
    """Parse a size such as 64m into bytes; raises ValueError or KeyError if it is invalid."""
    size = _scaled(text, _SIZES)
    if size < 1:
        raise ValueError(text)
    return size


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as 15m or 500 (ms) into milliseconds; raises ValueError or KeyError if it is
    invalid."""
    span = _scaled(text, _TIMES)
    if span < 0:
        raise ValueError(text)
    return span


class OptionTable:
    """The options of one side of the format, source or sink."""

    def __init__(self, purpose: str, options: Iterable[Option]) -> None:
        self.purpose = purpose
        self._options = {option.name.lower(): option for option in options}

    def parse(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return all options by name, with defaults, and the client's properties under "kafka".

        OptionError has one line per problem. Options that Spark's connector has and this one ignores are
        under "unused".
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
        from ottla.config.similar_names import nearest

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
    """The bootstrap servers, for error messages."""
    servers: str = values["kafka"]["bootstrap.servers"]
    return servers
