"""Reads mappings of a YAML file key by key, and keeps the place of each key.

Rule: no error is raised before the whole file was read. An invalid value becomes a fault and is replaced by
its default; an unknown key becomes a fault that suggests the nearest known key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

import yaml

from ottla.config.similar_names import nearest
from ottla.spark.pipeline.faults import Fault, Mark
from ottla.spark.pipeline.model import Sql
from ottla.units import MILLISECONDS

_Choice = TypeVar("_Choice", bound=StrEnum)
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*", re.IGNORECASE)
_UNIT_WORDS = {"ms": "millisecond", "s": "second", "m": "minute", "h": "hour", "d": "day"}
_UNITS_MS = {
    name: MILLISECONDS[unit] for unit, word in _UNIT_WORDS.items() for name in (unit, word, word + "s")
}


def duration_ms(text: str) -> int | None:
    """Parse a duration such as "10 seconds" into milliseconds; None if it is invalid."""
    match = _DURATION.fullmatch(text)
    unit = _UNITS_MS.get(match[2].lower()) if match else None
    return None if match is None or unit is None else int(match[1]) * unit


def mark_of(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


class Faults:
    """The faults found so far."""

    def __init__(self, environment: Mapping[str, str], text: str) -> None:
        self.found: list[Fault] = []
        self.environment = environment
        self.lines = text.splitlines()

    def add(self, mark: Mark, message: str) -> None:
        self.found.append(Fault(mark, message))


class Fields:
    """A mapping. Each method reads one key; `end` reports the keys that no method read."""

    def __init__(self, node: yaml.Node, what: str, faults: Faults) -> None:
        self._what, self._faults = what, faults
        self._nodes: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        self._asked: set[str] = set()
        self.marks: dict[str, Mark] = {"": mark_of(node)}
        if not isinstance(node, yaml.MappingNode):
            self.fault("", f"{what} must be a mapping of keys to values.")
            return
        for key, value in node.value:
            name = str(key.value)
            if name in self._nodes:
                faults.add(mark_of(key), f"{name!r} is a duplicate key in {what}.")
            self._nodes[name] = (key, value)
            self.marks[name] = mark_of(key)

    def fault(self, key: str, message: str) -> None:
        self._faults.add(self.marks.get(key, self.marks[""]), message)

    def has(self, key: str) -> bool:
        self._asked.add(key)
        return key in self._nodes

    def node(self, key: str) -> yaml.Node | None:
        self._asked.add(key)
        found = self._nodes.get(key)
        return None if found is None else found[1]

    def names(self) -> list[str]:
        return list(self._nodes)

    def end(self) -> None:
        for name in self._nodes.keys() - self._asked:
            near = nearest(name, self._asked)
            hint = f" Did you mean {near!r}?" if near else f" Known keys: {', '.join(sorted(self._asked))}."
            self.fault(name, f"Unknown key {name!r} in {self._what}.{hint}")

    # --- values

    def text(self, key: str, default: str = "", *, required: bool = False) -> str:
        found = self.maybe(key)
        if found is None or found == "":
            if required:
                self.fault(key, f"{self._what} needs {key!r}.")
            return default
        return found

    def maybe(self, key: str) -> str | None:
        node = self.node(key)
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
            return None
        if not isinstance(node, yaml.ScalarNode):
            self.fault(key, f"{key!r} of {self._what} must be a string.")
            return None
        return self._filled(node)

    def _filled(self, node: yaml.ScalarNode) -> str:
        """The text with `${NAME}` and `${NAME:-default}` replaced from the environment."""

        def value(match: re.Match[str]) -> str:
            found: str | None = self._faults.environment.get(match[1], match[2])
            if found is None:
                self._faults.add(
                    mark_of(node),
                    f"${{{match[1]}}} is not set. Export it, or use ${{{match[1]}:-default}}.",
                )
            return found or ""

        return _VARIABLE.sub(value, str(node.value))

    def texts(self, key: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of strings, or a single string."""
        node = self.node(key)
        if node is None:
            if required:
                self.fault(key, f"{self._what} needs {key!r}.")
            return ()
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found = [self._filled(one) for one in nodes if isinstance(one, yaml.ScalarNode)]
        if len(found) != len(nodes):
            self.fault(key, f"{key!r} of {self._what} must be a string or a list of strings.")
        return tuple(found)

    def number(self, key: str, default: int, least: int = 0) -> int:
        text = self.maybe(key)
        if text is None:
            return default
        if not text.lstrip("-").isdecimal() or int(text) < least:
            self.fault(
                key, f"{key!r} of {self._what} is {text!r} but must be an integer of at least {least}."
            )
            return default
        return int(text)

    def truth(self, key: str, default: bool) -> bool:
        text = self.maybe(key)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            self.fault(key, f"{key!r} of {self._what} is {text!r} but must be true or false.")
        return text.lower() == "true"

    def choice(self, key: str, kinds: type[_Choice], default: _Choice) -> _Choice:
        text = self.maybe(key)
        if text is None:
            return default
        try:
            return kinds(text)
        except ValueError:
            near = nearest(text, [str(one) for one in kinds])
            hint = f" Did you mean {near!r}?" if near else ""
            choices = ", ".join(kinds)
            self.fault(key, f"{key!r} of {self._what} is {text!r} but must be one of {choices}.{hint}")
            return default

    def duration(self, key: str, default: str) -> str:
        text = self.maybe(key)
        if text is None:
            return default
        if duration_ms(text) is None:
            self.fault(
                key, f"{key!r} of {self._what} is {text!r} but must be a duration such as '10 seconds'."
            )
            return default
        return text

    def settings(self, key: str) -> dict[str, str]:
        """A mapping of names to strings, which the caller checks."""
        node = self.node(key)
        if node is None:
            return {}
        inner = Fields(node, f"{key!r} of {self._what}", self._faults)
        return {name: inner.maybe(name) or "" for name in inner.names()}

    def inner(self, key: str, what: str) -> Fields | None:
        node = self.node(key)
        return None if node is None else Fields(node, what, self._faults)

    def items(self, key: str, what: str) -> Iterable[tuple[str, Fields]]:
        """The named parts below a key, in order."""
        node = self.node(key)
        if node is None:
            return
        outer = Fields(node, f"{key!r}", self._faults)
        for name in outer.names():
            found = outer.inner(name, f"{what} {name!r}")
            assert found is not None, "The name was just listed."
            found.marks[""] = outer.marks[name]
            yield name, found

    def sequence(self, key: str, what: str) -> Iterable[Fields]:
        node = self.node(key)
        if node is None:
            return
        if not isinstance(node, yaml.SequenceNode):
            self.fault(key, f"{key!r} of {self._what} must be a list.")
            return
        for number, one in enumerate(node.value, 1):
            yield Fields(one, f"{what} {number} of {self._what}", self._faults)

    def sql(self, key: str) -> Sql | None:
        node = self.node(key)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or not str(node.value).strip():
            self.fault(key, f"{key!r} of {self._what} must be an SQL statement.")
            return None
        text = self._filled(node)
        return Sql(text, self.marks[key], self._rows(node) if text == node.value else ())

    def _rows(self, node: yaml.ScalarNode) -> tuple[Mark, ...]:
        """The place of each line of a scalar, if the file contains the text unchanged."""
        start = mark_of(node)
        if node.style is None or node.style in ("'", '"'):
            is_plain = node.start_mark.line == node.end_mark.line and "\n" not in node.value
            return (Mark(start.line, start.column + (node.style is not None)),) if is_plain else ()
        if node.style != "|":
            return ()
        count = len(str(node.value).splitlines())
        below = self._faults.lines[start.line : start.line + count]
        indent = min((len(line) - len(line.lstrip()) for line in below if line.strip()), default=0)
        return tuple(Mark(start.line + 1 + row, indent + 1) for row in range(count))
