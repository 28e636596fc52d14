"""The JSON files of `kafka-reassign-partitions`: target replicas of partitions, and topics to move.

`{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["any"]}]}` and
`{"version": 1, "topics": [{"topic": "a"}]}`. Invalid input is a `Failure`; messages are those of Kafka's tool
where it has one.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ottla.client.values import TopicPartition
from ottla.operations.decoders import compact
from ottla.operations.failure import Failure
from ottla.operations.java_order import int_hash, map_order, partition_hash, string_hash
from ottla.operations.partition_files import name_of
from ottla.wire.json_form import Json

T = TypeVar("T", bound=Hashable)

ANY_DIRECTORY = "any"
_VERSION = 1
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The target replicas of partitions, as in the file, including duplicates."""

    entries: list[tuple[TopicPartition, list[int]]] = field(default_factory=list)
    directories: dict[tuple[TopicPartition, int], str] = field(default_factory=dict)
    """Partition and broker -> the log directory for it, where one is named."""

    @property
    def replicas(self) -> dict[TopicPartition, list[int]]:
        return dict(self.entries)


def read_plan(text: str) -> Plan:
    """Parse a plan, without the checks of `check_plan`."""
    content = _object(_parsed(text, "The reassignment is not valid JSON: {error}."))
    _check_version(content)
    plan = Plan()
    for entry in _list(content["partitions"]) if "partitions" in content else []:
        fields = _object(entry)
        place = TopicPartition(_text(_field(fields, "topic")), _integer(_field(fields, "partition")))
        replicas = [_integer(one) for one in _decoded_list(_field(fields, "replicas"))]
        directories = [ANY_DIRECTORY] * len(replicas)
        if "log_dirs" in fields:
            directories = [_text(one) for one in _decoded_list(fields["log_dirs"])]
        if len(directories) != len(replicas):
            raise Failure(
                f"Size of replicas list {_java_list(replicas)} is different from size of log dirs list"
                f" {_java_list(directories)} for partition {name_of(place)}"
            )
        plan.entries.append((place, replicas))
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != ANY_DIRECTORY:
                plan.directories[place, broker] = directory
    return plan


def check_plan(plan: Plan) -> None:
    """Reject a plan that cannot be executed."""
    if not plan.entries:
        raise Failure("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in plan.entries):
        raise Failure("Partition replica list cannot be empty")
    if twice := map_order(_repeated(place for place, _ in plan.entries), partition_hash):
        names = ",".join(map(name_of, twice))
        raise Failure(f"Partition reassignment contains duplicate topic partitions: {names}")
    repeats = [(place, map_order(_repeated(replicas), int_hash)) for place, replicas in plan.entries]
    sentences = [
        f"{name_of(place)} contains multiple entries for {','.join(map(str, found))}"
        for place, found in repeats
        if found
    ]
    if sentences:
        raise Failure(f"Partition replica lists may not contain duplicate entries: {'. '.join(sentences)}")


def read_topics(text: str) -> list[str]:
    """Parse the list of topics to move."""
    content = _object(_parsed(text, "The input string is not a valid JSON"))
    _check_version(content)
    topics = [
        _text(_field(_object(entry), "topic"))
        for entry in (_list(content["topics"]) if "topics" in content else [])
    ]
    if twice := map_order(_repeated(topics), string_hash):
        raise Failure(f"List of topics to reassign contains duplicate entries: {_java_list(twice)}")
    return topics


def read_brokers(text: str) -> list[int]:
    """`1,2,3`"""
    brokers = []
    for word in text.rstrip(",").split(","):
        if not word.lstrip("+-").isdecimal():
            raise Failure(f'For input string: "{word}"')
        brokers.append(int(word))
    if twice := map_order(_repeated(brokers), int_hash):
        raise Failure(f"Broker list contains duplicate entries: {_java_list(twice)}")
    return brokers


def plan_text(
    replicas: Mapping[TopicPartition, Sequence[int]],
    directories: Mapping[tuple[TopicPartition, int], str] | None = None,
) -> str:
    """A plan as one line of JSON, sorted by topic and partition; "any" where no log directory is given."""
    known = directories or {}
    partitions: list[Json] = [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(replicas[place]),
            "log_dirs": [known.get((place, broker), ANY_DIRECTORY) for broker in replicas[place]],
        }
        for place in sorted(replicas)
    ]
    return compact({"version": _VERSION, "partitions": partitions})


def _parsed(text: str, sentence: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Failure(sentence.format(error=error)) from error


def _check_version(content: Mapping[str, Any]) -> None:
    version = _integer(content["version"]) if "version" in content else _VERSION
    if version != _VERSION:
        raise Failure(f"Not supported version field value {version}")


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise Failure(f"No such field exists: `{name}`")
    return fields[name]


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Failure(f"Expected JSON object, received {compact(value)}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Failure(f"Expected JSON array, received {compact(value)}")
    return value


def _decoded_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Failure(f"Expected `JSON array` value, received {compact(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Failure(f"Expected `String` value, received {compact(value)}")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise Failure(f"Expected `Integer` value, received {compact(value)}")
    return value


def _repeated(items: Iterable[T]) -> list[T]:
    seen: set[T] = set()
    found = []
    for item in items:
        if item in seen:
            found.append(item)
        seen.add(item)
    return found


def _java_list(items: Iterable[object]) -> str:
    return f"[{', '.join(map(str, items))}]"
