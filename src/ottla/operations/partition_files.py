"""JSON files of partitions, as input of tools: `{"partitions": [{"topic": "a", "partition": 0, ...}]}`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.values import TopicPartition
from ottla.operations.failure import Failure
from ottla.operations.text_files import read_text


def read_object(path: str, what: str) -> dict[str, Any]:
    """Read a JSON object from a file; `what` names the contents in errors."""
    try:
        found = json.loads(read_text(path))
    except ValueError as error:
        raise Failure(f"{path}: {what} is not valid JSON: {error}.") from error
    if not isinstance(found, dict):
        raise Failure(f"{path}: {what} must be a JSON object.")
    return found


def entries_of(content: Mapping[str, Any], what: str) -> list[dict[str, Any]]:
    """The entries of `partitions`, each with a topic and a partition."""
    if "partitions" not in content:
        raise Failure(f'{what} is missing "partitions" field')
    entries = content["partitions"]
    if not isinstance(entries, list):
        raise Failure(f'{what}: "partitions" must be a list.')
    for entry in entries:
        if not isinstance(entry, dict):
            raise Failure(f"{what}: {json.dumps(entry)} is not a JSON object.")
        field(entry, "topic", str, what)
        field(entry, "partition", int, what)
    return entries


def field(entry: Mapping[str, Any], name: str, kind: type[int] | type[str], what: str) -> Any:
    """A required field, with a value of its type."""
    value = entry.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        wanted = "a number" if kind is int else "a text"
        raise Failure(f"{what}: {name} must be {wanted} in {json.dumps(entry)}.")
    return value


def place_of(entry: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(entry["topic"], entry["partition"])


def name_of(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def duplicates(places: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The elements that occur more than once."""
    return [place for place, count in Counter(places).items() if count > 1]
