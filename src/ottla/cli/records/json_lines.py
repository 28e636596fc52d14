"""Records as JSON lines, written and read.

    {"topic":"orders","partition":0,"offset":7,"timestamp":1700000000000,"key":"k","value":"v"}

Rule: `from_line` restores the key, value, headers, partition and timestamp that `to_line` wrote, byte for
byte. `headers` are pairs, such as [["name","value"]], since a name may occur twice. Bytes that are not valid
UTF-8 are in `key_base64`, `value_base64`, or for a header's value in `{"base64": "..."}`. A null value is a
tombstone. The lines of `kcat -J` can be read as well.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.cli.records.values import TEXT, BadValue, Json, Kind, dumps, from_base64, to_base64
from ottla.records.consumer_record import ConsumerRecord

_TOLD = ("topic", "offset", "timestamp_type", "leader_epoch", "broker", "tstype")
_READ = ("key", "key_base64", "value", "value_base64", "payload", "headers", "partition", "timestamp", "ts")
_SCHEMA_IDS = ("key_schema_id", "value_schema_id")
_TIMESTAMP_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1

Headers = tuple[tuple[str, bytes | None], ...]


class BadLine(ValueError):
    """A line that is not a record; the message has no full stop."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to send. The producer chooses fields that are None, except that a key or value of None is
    null."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


def to_line(
    record: ConsumerRecord[bytes | None, bytes | None], key: Kind = TEXT, value: Kind = TEXT
) -> bytes:
    """A record as one line, without its end."""
    found: dict[str, Json] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp if record.timestamp >= 0 else None,
    }
    _put(found, "key", record.key, key)
    _put(found, "value", record.value, value)
    if record.headers:
        found["headers"] = [[name, _header_json(content)] for name, content in record.headers]
    return dumps(found)


def _put(found: dict[str, Json], name: str, data: bytes | None, kind: Kind) -> None:
    if data is None:
        found[name] = None
        return
    try:
        found[name] = kind.to_json(data)
    except BadValue:
        if not kind.is_text:
            raise
        found[f"{name}_base64"] = to_base64(data)


def _header_json(data: bytes | None) -> Json:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": to_base64(data)}


def from_line(line: bytes | str, key: Kind = TEXT, value: Kind = TEXT) -> Outgoing:
    """Parse a line; BadLine says what is wrong with it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"it is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadLine("it is not a JSON object")
    for name in found:
        if name not in _READ and name not in _TOLD and name not in _SCHEMA_IDS:
            raise BadLine(_unknown(name))
    try:
        return Outgoing(
            value=_part(found, "value", ("value", "payload"), value, required=True),
            key=_part(found, "key", ("key",), key, required=False),
            headers=_headers(found.get("headers")),
            partition=_number(found, ("partition",), _PARTITION_MAX),
            timestamp=_number(found, ("timestamp", "ts"), _TIMESTAMP_MAX),
        )
    except BadValue as error:
        raise BadLine(str(error)) from error


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, _READ, n=1, cutoff=0.6)
    cure = f"perhaps {near[0]} was meant" if near else f"known are {', '.join(_READ[:5] + _READ[5:8])}"
    return f"unknown field {name!r:.60}: {cure}"


def _part(
    found: Mapping[str, Json], what: str, names: Sequence[str], kind: Kind, *, required: bool
) -> bytes | None:
    given = [name for name in (*names, f"{what}_base64") if name in found]
    if len(given) > 1:
        raise BadLine(f"{given[0]} and {given[1]} cannot both be given")
    if not given:
        if required:
            raise BadLine('it has no value: write "value": null for a tombstone')
        return None
    content = found[given[0]]
    if content is None:
        return None
    if given[0].endswith("_base64"):
        if not isinstance(content, str):
            raise BadLine(f"{given[0]} is not a string")
        return from_base64(content)
    return kind.from_json(content)


def _headers(given: Json) -> Headers:
    """Parse pairs, an object, or alternating names and values, as kcat writes them."""
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple((name, _header(content)) for name, content in given.items())
    if not isinstance(given, list):
        raise BadLine('headers must be a list of pairs, such as [["name", "value"]]')
    if given and all(one is None or isinstance(one, str) for one in given) and len(given) % 2 == 0:
        given = [given[at : at + 2] for at in range(0, len(given), 2)]
    made = []
    for pair in given:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise BadLine(f"the header {json.dumps(pair)[:60]} is not a pair of a name and a value")
        made.append((pair[0], _header(pair[1])))
    return tuple(made)


def _header(content: Json) -> bytes | None:
    if content is None:
        return None
    if isinstance(content, dict) and content.keys() == {"base64"} and isinstance(content["base64"], str):
        return from_base64(content["base64"])
    if isinstance(content, dict | list):
        raise BadLine('the value of a header must be a string, null or {"base64": "..."}')
    return TEXT.from_json(content)


def _number(found: Mapping[str, Any], names: Sequence[str], limit: int) -> int | None:
    for name in names:
        content = found.get(name)
        if content is None:
            continue
        if type(content) is not int or not 0 <= content <= limit:
            raise BadLine(f"{name} is {json.dumps(content)[:60]}, but must be a non-negative integer")
        return content
    return None
