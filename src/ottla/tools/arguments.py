"""Parses the command lines of the Kafka-named tools as Kafka does.

It accepts `--flag value` and `--flag=value`, and one dash instead of two; an option with a value takes the
next word, whatever it looks like; `--` ends the options. Where a tool allows it, an unambiguous prefix of a
name is enough. An invalid command line is a `UsageError`, whose message goes to standard error.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_HELP_WIDTH = 100
_NAME_WIDTH_MAX = 38
_GONE = {
    "zookeeper": "ZooKeeper is no longer used; use --bootstrap-server host:port of a broker.",
    "broker-list": "use --bootstrap-server host:port.",
    "whitelist": "use --include with the pattern.",
    "new-consumer": "omit it, there is only one consumer.",
    "new-producer": "omit it, there is only one producer.",
    "authorizer-properties": "the controllers store the ACLs, use --bootstrap-server host:port.",
}
"""Removed options that books and scripts still use, and their replacements."""


class UsageError(Exception):
    """An invalid command line. `help_text`, if any, is printed after the message."""

    def __init__(self, message: str, help_text: str = "") -> None:
        super().__init__(message)
        self.help_text = help_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option; a flag if it takes no value."""

    names: tuple[str, ...]
    text: str
    takes_value: bool = False
    value_is_optional: bool = False
    convert: Callable[[str], Any] = str
    default: Any = None
    shown_as: str = ""


@dataclass(slots=True)
class Options:
    """The parsed command line."""

    parser: OptionParser
    rest: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    """The names of the options in order; repeated options occur repeatedly."""
    _given: dict[str, list[str]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the option was given explicitly."""
        return self.parser.option(name).names[0] in self._given

    def value(self, name: str) -> Any:
        """The value of a non-repeatable option, or its default."""
        values = self.values(name)
        if len(values) > 1:
            raise UsageError(f"--{name} is given {len(values)} times. Use it once.")
        return values[0] if values else self.parser.option(name).default

    def values(self, name: str) -> list[Any]:
        """All values of an option, in order."""
        option = self.parser.option(name)
        return [self._converted(option, text) for text in self._given.get(option.names[0], [])]

    def add(self, option: Option, text: str | None) -> None:
        self.order.append(option.names[0])
        values = self._given.setdefault(option.names[0], [])
        if text is not None:
            values.append(text)

    def check_required(self, *names: str) -> None:
        for name in names:
            if not self.has(name):
                raise self.parser.error(f'Missing required argument "[{name}]"')

    def check_invalid(self, used: str, *others: str) -> None:
        """Reject every one of `others` together with `used`."""
        if self.has(used):
            for name in others:
                if self.has(name):
                    raise self.parser.error(f'Option "[{used}]" can\'t be used with option "[{name}]"')

    def _converted(self, option: Option, text: str) -> Any:
        try:
            return option.convert(text)
        except ValueError as error:
            raise UsageError(f"Cannot parse argument '{text}' of option {option.names[0]}") from error


class OptionParser:
    """The options of a tool. `help` and `version` are always included."""

    def __init__(self, tool: str, text: str, *, takes_abbreviations: bool = False) -> None:
        self.tool = tool
        self.text = text
        self._takes_abbreviations = takes_abbreviations
        self._options: dict[str, Option] = {}
        self.flag("help", text="Show this help and exit.")
        self.flag("version", text="Show the version and exit.")

    def flag(self, *names: str, text: str) -> None:
        self._add(Option(names=names, text=text))

    def value(
        self,
        *names: str,
        text: str,
        shown_as: str = "value",
        convert: Callable[[str], Any] = str,
        default: Any = None,
        value_is_optional: bool = False,
    ) -> None:
        self._add(
            Option(
                names=names,
                text=text,
                takes_value=True,
                value_is_optional=value_is_optional,
                convert=convert,
                default=default,
                shown_as=shown_as,
            )
        )

    def option(self, name: str) -> Option:
        return self._options[name]

    def parse(self, arguments: Sequence[str]) -> Options:
        """Parse a command line; with no words, or with --help, raise a UsageError with the help."""
        options = Options(self)
        words = list(arguments)
        while words:
            word = words.pop(0)
            if word == "--":
                options.rest += words
                break
            if not word.startswith("-") or word == "-":
                options.rest.append(word)
                continue
            name, equals, value = word.lstrip("-").partition("=")
            option = self._find(name)
            options.add(option, self._value_of(option, value if equals else None, words))
        if not arguments or options.has("help"):
            raise self.error(self.text)
        return options

    def error(self, message: str) -> UsageError:
        """A UsageError with a message and the help."""
        return UsageError(message, self.help_text())

    def help_text(self) -> str:
        return "\n".join(self._help_lines())

    def _add(self, option: Option) -> None:
        for name in option.names:
            self._options[name] = option

    def _find(self, name: str) -> Option:
        if name in self._options:
            return self._options[name]
        if self._takes_abbreviations and name:
            matches = {
                option.names[0]: option for key, option in self._options.items() if key.startswith(name)
            }
            if len(matches) == 1:
                return next(iter(matches.values()))
            if matches:
                raise UsageError(f"{name} is ambiguous: it could be {', '.join(sorted(matches))}.")
        hint = f": {_GONE[name]}" if name in _GONE else ""
        raise UsageError(f"{name} is not a recognized option{hint}")

    def _value_of(self, option: Option, value: str | None, words: list[str]) -> str | None:
        if not option.takes_value:
            if value:
                raise UsageError(f"Option {option.names[0]} takes no argument.")
            return None
        if value is not None:  # "--name=" means an empty value
            return value
        if option.value_is_optional:
            return words.pop(0) if words and not self._looks_like_an_option(words[0]) else None
        if not words:
            raise UsageError(f"Option {option.names[0]} requires an argument")
        return words.pop(0)

    def _looks_like_an_option(self, word: str) -> bool:
        return word.startswith("-") and word != "-"

    def _help_lines(self) -> Iterator[str]:
        rows = []
        for option in sorted(set(self._options.values()), key=lambda one: one.names):
            names = ", ".join(f"--{name}" for name in option.names)
            text = option.text if option.default is None else f"{option.text} (default: {option.default})"
            rows.append((f"{names} <{option.shown_as}>" if option.takes_value else names, text))
        width = min(_NAME_WIDTH_MAX, max(len(names) for names, _ in rows))
        yield f"{'Option':<{width}}  Description"
        for names, text in rows:
            lines = textwrap.wrap(text, _HELP_WIDTH - width - 2) or [""]
            if len(names) > width:
                yield names
                names = ""
            yield f"{names:<{width}}  {lines[0]}".rstrip()
            yield from (f"{'':<{width}}  {line}" for line in lines[1:])
