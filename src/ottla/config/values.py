"""Converts texts of settings to Python values and back, with the checks of Kafka's parser.

`parse` turns a text into a value of its type and `show` turns it into the text that Kafka prints. An invalid
text raises InvalidValue, with the message that Kafka's clients know. The notation of `valid` is that of the
definition files; see schema.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """Types of settings, with their codes in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidValue(ValueError):
    """A setting does not allow this value. `reason` alone describes the allowed ones."""

    def __init__(self, name: str, value: str, reason: str, *, whole: bool = False) -> None:
        super().__init__(reason if whole else f"Invalid value {value} for configuration {name}: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


_LARGEST = {ConfigType.SHORT: 2**15 - 1, ConfigType.INT: 2**31 - 1, ConfigType.LONG: 2**63 - 1}


def parse(name: str, kind: ConfigType, valid: str, text: str) -> Value:
    """Parse a text and check its value; raises InvalidValue."""
    value = parse_type(name, kind, text)
    if isinstance(value, tuple) and valid.startswith("distinct"):
        value = tuple(dict.fromkeys(value))
    if valid:
        _checker(valid)(name, value)
    return value


def parse_type(name: str, kind: ConfigType, text: str) -> Value:
    """Parse a text by its type alone."""
    if kind is ConfigType.PASSWORD:
        return text
    trimmed = text.strip()
    if kind in _LARGEST:
        return _integer(name, kind, trimmed)
    if kind is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise InvalidValue(name, trimmed, "Expected value to be either true or false")
        return lowered == "true"
    if kind is ConfigType.LIST:
        return tuple(part.strip() for part in trimmed.split(",")) if trimmed else ()
    if kind is ConfigType.DOUBLE:
        return _double(name, trimmed)
    return trimmed


def show(value: Value) -> str | None:
    """The text of a value as Kafka writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _show_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _integer(name: str, kind: ConfigType, text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isascii() and digits.isdigit() and len(digits) <= 40:
        number = int(text)
        if -_LARGEST[kind] - 1 <= number <= _LARGEST[kind]:
            return number
    raise InvalidValue(name, text, f"Not a number of type {kind.name}")


def _double(name: str, text: str) -> float:
    plain = text[:-1] if text[-1:] in ("d", "D", "f", "F") and text[-2:-1].isdigit() else text
    try:
        number = float(plain) if "_" not in plain else math.nan
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise InvalidValue(name, text, f"Not a number of type {ConfigType.DOUBLE.name}")
    return number


def _show_double(value: float) -> str:
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    # Java's form: one digit before the point, at least one after it, E and the exponent without padding.
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{float(abs(value))!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + (
        len(whole) - 1 if whole != "0" else len(fraction.lstrip("0")) - len(fraction) - 1
    )
    digits = digits.rstrip("0") or "0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


_Check: TypeAlias = Callable[[str, Value], None]


@cache
def _checker(valid: str) -> _Check:
    if valid in _NAMED:
        return _NAMED[valid]
    if valid.startswith("one of, in any case, "):
        return _one_of(valid.removeprefix("one of, in any case, ").split(), any_case=True)
    if valid.startswith("one of "):
        return _one_of(valid.removeprefix("one of ").split(), any_case=False)
    if valid.startswith("distinct"):
        return _distinct(valid)
    return _between(valid)


def _between(valid: str) -> _Check:
    apart, _, bounds = valid.rpartition(" or ")
    low_text, _, high_text = bounds.partition("..")
    low, high = float(low_text), float(high_text or math.inf)

    def check(name: str, value: Value) -> None:
        if not isinstance(value, int | float):
            raise InvalidValue(name, str(value), "Value must be non-null")
        if apart and not (low <= value <= high or value == float(apart)):
            reason = f"Value must be between {low_text} and {high_text} or equal to {apart}"
            raise InvalidValue(name, show(value) or "", reason)
        if not apart and value < low:
            raise InvalidValue(name, show(value) or "", f"Value must be at least {low_text}")
        if not apart and value > high:
            raise InvalidValue(name, show(value) or "", f"Value must be no more than {high_text}")

    return check


def _one_of(choices: list[str], *, any_case: bool) -> _Check:
    allowed = {choice.upper() if any_case else choice for choice in choices}

    def check(name: str, value: Value) -> None:
        text = str(value)
        if (text.upper() if any_case else text) not in allowed:
            hint = " (case insensitive)" if any_case else ""
            raise InvalidValue(name, text, f"String must be one of{hint}: {', '.join(choices)}")

    return check


def _distinct(valid: str) -> _Check:
    rules, _, among = valid.partition(", of ")
    choices = among.split()

    def check(name: str, value: Value) -> None:
        parts = value if isinstance(value, tuple) else ()
        text = ",".join(parts)
        if not parts and "not empty" in rules:
            hint = f"[{', '.join(choices)}]" if choices else "any non-empty value"
            reason = f"Configuration '{name}' must not be empty. Valid values include: {hint}"
            raise InvalidValue(name, text, reason, whole=True)
        for part in parts:
            if not part:
                raise InvalidValue(
                    name, text, f"Configuration '{name}' values must not be empty.", whole=True
                )
            if choices and part not in choices:
                raise InvalidValue(name, part, f"String must be one of: {', '.join(choices)}")

    return check


def _not_empty(name: str, value: Value) -> None:
    if value == "":
        raise InvalidValue(name, "", "String must be non-empty")


def split_host_port(text: str) -> tuple[str, int] | None:
    """Split `host:port`, with an IPv6 host in brackets; None for any other form."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    well_formed = colon and host and all(c.isalnum() or c in "-._%:" for c in host)
    if not (well_formed and port.isascii() and port.isdigit() and int(port) <= 65535):
        return None
    return host, int(port)


def _servers(name: str, value: Value) -> None:
    for entry in value if isinstance(value, tuple) else ():
        if split_host_port(entry) is None:
            reason = (
                f"Failed to parse host name from {entry} for the configuration {name}. "
                'Each entry should be in the form "{host}:{port}"'
            )
            raise InvalidValue(name, entry, reason, whole=True)


def _voters(name: str, value: Value) -> None:
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    for entry in value if isinstance(value, tuple) else ():
        number, at, address = entry.partition("@")
        if not at:
            raise InvalidValue(name, entry, f"Invalid configuration value for {name}. {form}", whole=True)
        if not (number.isascii() and number.isdigit()):
            reason = f"Failed to parse voter ID as an integer from {number}"
            raise InvalidValue(name, entry, reason, whole=True)
        if split_host_port(address) is None:
            reason = f"Failed to parse host name from entry {entry} for the configuration {name}. {form}"
            raise InvalidValue(name, entry, reason, whole=True)


def _throttled_replicas(name: str, value: Value) -> None:
    parts = value if isinstance(value, tuple) else ()
    if parts == ("*",) or all(_is_replica(part) for part in parts):
        return
    form = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    reason = f"{name} must be the literal '*' or a list of replicas in the following format: {form}"
    raise InvalidValue(name, f"[{', '.join(parts)}]", reason)


def _is_replica(text: str) -> bool:
    partition, _, broker = text.partition(":")
    return partition.isascii() and partition.isdigit() and broker.isascii() and broker.isdigit()


def _offset_reset(name: str, value: Value) -> None:
    _reset(name, value, ("earliest", "latest"), "<PnDTnHnMn.nS>")


def _offset_reset_or_none(name: str, value: Value) -> None:
    _reset(name, value, ("earliest", "latest", "none"), "<PnDTnHnMn.nS.>")


def _reset(name: str, value: Value, words: tuple[str, ...], form: str) -> None:
    text = str(value)
    prefix, _, duration = text.partition(":")
    if text in words or (prefix == "by_duration" and is_iso_duration(duration)):
        return
    listed = ", ".join(f"'{word}'" for word in words)
    allowed = f"The value must be either {listed} or of the format 'by_duration:{form}'."
    raise InvalidValue(name, text, f"Invalid value `{text}` for configuration {name}. {allowed}")


_DURATION = re.compile(
    r"P(?=\d|T\d)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def is_iso_duration(text: str) -> bool:
    """Whether this is a non-negative duration such as P1DT2H30M or PT0.5S."""
    return _DURATION.fullmatch(text) is not None


_NAMED: dict[str, _Check] = {
    "not empty": _not_empty,
    "host:port list": _servers,
    "id@host:port list": _voters,
    "* or partition:broker list": _throttled_replicas,
    "latest, earliest or by_duration:<ISO duration>": _offset_reset,
    "latest, earliest, none or by_duration:<ISO duration>": _offset_reset_or_none,
}
