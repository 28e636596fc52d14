"""Parses lines of text into records: `headers<delimiter>key<separator>value`, each part optional.

The rules and the errors are those of Kafka's LineMessageReader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ottla.operations.failure import Failure

_EXCEPTION = "org.apache.kafka.common.KafkaException"


class Line(NamedTuple):
    """The record in a line."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineReader:
    """Parses lines according to the properties of `--reader-property`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parses_key = _is_true(properties, "parse.key")
        self._parses_headers = _is_true(properties, "parse.headers")
        self._ignores_errors = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._separator = properties.get("headers.separator", ",")
        self._header_key_separator = properties.get("headers.key.separator", ":")
        self._null_marker = properties.get("null.marker")
        self._number = 0
        self._check()

    def _check(self) -> None:
        try:
            self._separators = re.compile(self._separator)
        except re.error as error:
            raise Failure(f"headers.separator is not a valid regular expression: {error}") from error
        marks = {
            "key.separator": self._key_separator,
            "headers.separator": self._separator,
            "headers.delimiter": self._delimiter,
            "headers.key.separator": self._header_key_separator,
        }
        for one, other in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if marks[one] == marks[other]:
                raise _failure(f"{one} and {other} may not be equal")
        for name, mark in marks.items():
            if mark == self._null_marker:
                raise _failure(f"null.marker and {name} may not be equal")

    def read(self, line: str) -> Line:
        """Parse the next line, which has no line ending."""
        self._number += 1
        headers = self._part(self._parses_headers, line, 0, self._delimiter, "headers delimiter")
        start = 0 if headers is None else len(headers) + len(self._delimiter)
        key = self._part(self._parses_key, line, start, self._key_separator, "key separator")
        value = line[start + (0 if key is None else len(key) + len(self._key_separator)) :]
        pairs = [] if headers is None or headers == self._null_marker else self._headers(headers)
        return Line(self._bytes(key), self._bytes(value), pairs)

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null_marker else text.encode()

    def _part(self, is_wanted: bool, line: str, start: int, mark: str, name: str) -> str | None:
        if not is_wanted:
            return None
        end = line.find(mark, start)
        if end >= 0:
            return line[start:end]
        if self._ignores_errors:
            return None
        raise _failure(f"No {name} found on line number {self._number}: '{line}'")

    def _headers(self, text: str) -> list[tuple[str, bytes | None]]:
        pairs = self._separators.split(text)[:: self._separators.groups + 1]
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        return [self._header(pair) for pair in pairs]

    def _header(self, pair: str) -> tuple[str, bytes | None]:
        key, mark, value = pair.partition(self._header_key_separator)
        if not mark:
            if self._ignores_errors:
                return pair, None
            raise _failure(f"No header key separator found in pair '{pair}' on line number {self._number}")
        if key == self._null_marker:
            raise _failure(
                f"Header keys should not be equal to the null marker '{key}' as they can't be null"
            )
        return key, self._bytes(value)


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"


def _failure(message: str) -> Failure:
    return Failure(f"{_EXCEPTION}: {message}")
