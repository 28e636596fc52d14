"""Selects topics by pattern, like Kafka's tools."""

from __future__ import annotations

import re

from ottla.operations.failure import Failure

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_QUOTES = re.compile(r"""^["']+|["']+$""")


class IncludeList:
    """A regular expression for complete topic names, with commas as alternatives."""

    def __init__(self, written: str) -> None:
        text = _QUOTES.sub("", written.strip().replace(",", "|").replace(" ", ""))
        try:
            self._pattern = re.compile(text)
        except re.error as error:
            raise Failure(f"{text} is an invalid regex.") from error

    def allows(self, topic: str, *, exclude_internal: bool = False) -> bool:
        if exclude_internal and topic in INTERNAL_TOPICS:
            return False
        return self._pattern.fullmatch(topic) is not None
