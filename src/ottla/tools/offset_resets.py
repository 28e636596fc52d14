"""Offset resets of a group: selects partitions, computes the new offsets, prints them.

Rule: an offset outside a partition's range becomes the nearest one inside, as in Kafka's tool.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

from ottla.client.values import TopicPartition
from ottla.operations.failure import Failure
from ottla.operations.java_order import map_order, partition_hash, string_hash, text_of
from ottla.tools.arguments import Options
from ottla.wire.errors import GroupIdNotFound, LeaderNotAvailable, UnknownTopicOrPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.offsets import OffsetSpec
    from ottla.client.admin.results import Results

K = TypeVar("K")
V = TypeVar("V")

_Plan = dict[TopicPartition, int]
_QUOTED_FROM_LENGTH = 25
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)
_UNKNOWN = -1


def reset(admin: Admin, options: Options, groups: Sequence[str]) -> None:
    """Reset the offsets of groups, or only print the plan."""
    timeout_ms = options.value("timeout")
    described = admin.describe_consumer_groups(groups, timeout_ms=timeout_ms)
    plans: dict[str, _Plan] = {}
    for group in map_order(groups, string_hash):
        outcome = described[group]
        if isinstance(outcome, Exception) and not isinstance(outcome, GroupIdNotFound):
            raise outcome
        if isinstance(outcome, Exception) or str(outcome.state) in ("Empty", "Dead"):
            plans[group] = _reset_one(admin, options, group)
        else:
            print(
                f"\nError: Assignments can only be reset if the group '{group}' is inactive, "
                f"but the current state is {outcome.state}."
            )
            plans[group] = {}
    ordered = {
        group: {key: plan[key] for key in map_order(plan, partition_hash)} for group, plan in plans.items()
    }
    if options.has("export"):
        print(_as_csv(ordered, with_group=len(options.values("group")) != 1))
    else:
        _show(ordered)


def _reset_one(admin: Admin, options: Options, group: str) -> _Plan:
    timeout_ms = options.value("timeout")
    keys = _partitions(admin, options, group)
    _check_partitions(admin, keys, timeout_ms)
    plan = _plan(admin, options, group, keys)
    if options.has("execute") and not options.has("dry-run"):
        admin.alter_consumer_group_offsets(group, plan, timeout_ms=timeout_ms).all()
    return plan


def _show(plans: Mapping[str, _Plan]) -> None:
    group_width = max([15, *(len(group) for group in plans)])
    topic_width = max([15, *(len(key.topic) for plan in plans.values() for key in plan)])
    rows = [("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")] if plans else []
    rows += [
        (group, key.topic, str(key.partition), str(offset))
        for group, plan in plans.items()
        for key, offset in plan.items()
    ]
    for group, topic, partition, offset in rows:
        print(f"\n{group:<{group_width}} {topic:<{topic_width}} {partition:<10} {offset}", end="")
    print()


def _as_csv(plans: Mapping[str, _Plan], *, with_group: bool) -> str:
    lines = []
    for group, plan in plans.items():
        for key, offset in plan.items():
            cells = [_quoted(key.topic), str(key.partition), str(offset)]
            lines.append(",".join([_quoted(group), *cells] if with_group else cells) + "\n")
    return "".join(lines)


def _quoted(text: str) -> str:
    """Quote texts that may need it; long ones are quoted unchecked."""
    if len(text) < _QUOTED_FROM_LENGTH and all(character > "," for character in text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


# Selecting partitions


def _partitions(admin: Admin, options: Options, group: str) -> list[TopicPartition]:
    timeout_ms = options.value("timeout")
    if options.has("all-topics"):
        return list(admin.list_consumer_group_offsets(group, timeout_ms=timeout_ms).result(group))
    if options.has("topic"):
        written = options.values("topic")
        keys = [key for text in written if ":" in text for key in partitions_in(options, text)]
        topics = [text for text in written if ":" not in text]
        described = admin.describe_topics(topics, timeout_ms=timeout_ms).all()
        for topic in map_order(topics, string_hash, len(topics)):
            keys += [TopicPartition(topic, one.partition) for one in described[topic].partitions]
        return list(dict.fromkeys(keys))
    if not options.has("from-file"):
        raise options.parser.error("One of the reset scopes should be defined: --all-topics, --topic.")
    return []


def partitions_in(options: Options, written: str) -> list[TopicPartition]:
    """Parse the partitions of `topic:0,1`."""
    topic, *rest = written.split(":")
    if len(rest) != 1 or not rest[0]:
        raise options.parser.error(f"Invalid topic arg '{written}', expected topic name and partitions")
    for text in rest[0].split(","):
        if not re.fullmatch(r"[+-]?\d+", text):
            raise options.parser.error(f"Invalid partition '{text}' specified in topic arg '{written}''")
    return [TopicPartition(topic, int(text)) for text in rest[0].split(",")]


def all_of(results: Results[K, V]) -> dict[K, V]:
    """All results, or an error in the format that Kafka's tool uses for inner calls."""
    for error in results.failed.values():
        raise Failure(f"java.util.concurrent.ExecutionException: {text_of(error)}") from error
    return results.succeeded


def leaderless(admin: Admin, keys: Collection[TopicPartition], timeout_ms: int) -> set[TopicPartition]:
    """The partitions without a leader."""
    described = all_of(admin.describe_topics({key.topic for key in keys}, timeout_ms=timeout_ms))
    return {
        TopicPartition(topic, one.partition)
        for topic, found in described.items()
        for one in found.partitions
        if one.leader is None
    } & set(keys)


def _check_partitions(admin: Admin, keys: Sequence[TopicPartition], timeout_ms: int) -> None:
    described = all_of(admin.describe_topics({key.topic for key in keys}, timeout_ms=timeout_ms))
    leaders = {
        TopicPartition(topic, one.partition): one.leader
        for topic, found in described.items()
        for one in found.partitions
    }
    missing = ",".join(str(key) for key in keys if key not in leaders)
    if missing:
        raise UnknownTopicOrPartition(f'The partitions "{missing}" do not exist')
    waiting = ",".join(str(key) for key in keys if leaders[key] is None)
    if waiting:
        raise LeaderNotAvailable(f'The partitions "{waiting}" have no leader')


# Computing offsets


def _plan(admin: Admin, options: Options, group: str, keys: Sequence[TopicPartition]) -> _Plan:
    from ottla.client.admin.offsets import OffsetSpec

    timeout_ms = options.value("timeout")
    if options.has("to-offset"):
        return _within(admin, dict.fromkeys(keys, options.values("to-offset")[0]), timeout_ms)
    if options.has("to-earliest"):
        return _listed(admin, keys, OffsetSpec.EARLIEST, timeout_ms)
    if options.has("to-latest"):
        return _listed(admin, keys, OffsetSpec.LATEST, timeout_ms)
    if options.has("shift-by"):
        current = _committed(admin, group, timeout_ms)
        for key in keys:
            if key not in current:
                raise options.parser.error(
                    f"Cannot shift offset for partition {key} since there is no current committed offset"
                )
        shift = options.value("shift-by")
        return _within(admin, {key: current[key] + shift for key in keys}, timeout_ms)
    if options.has("to-datetime"):
        return _at_time(admin, keys, _datetime_ms(options.values("to-datetime")[0]), timeout_ms)
    if options.has("by-duration"):
        ago = datetime.now(UTC) - _duration(options.value("by-duration"))
        return _at_time(admin, keys, int(ago.timestamp() * 1000), timeout_ms)
    if options.has("from-file"):
        plan = _from_file(options).get(group)
        if plan is None:
            print(f"\nError: No reset plan for group {group} found")
            return {}
        return _within(admin, plan, timeout_ms)
    if options.has("to-current"):
        current = _committed(admin, group, timeout_ms)
        ends = _listed(admin, [key for key in keys if key not in current], OffsetSpec.LATEST, timeout_ms)
        return {key: current[key] for key in keys if key in current} | ends
    scenarios = (
        "[to-offset], [shift-by], [to-datetime], [by-duration], [to-earliest], [to-latest], [to-current]"
    )
    raise options.parser.error(
        f"Option '[reset-offsets]' requires one of the following scenarios: {scenarios}, [from-file]"
    )


def _committed(admin: Admin, group: str, timeout_ms: int) -> _Plan:
    offsets = admin.list_consumer_group_offsets(group, timeout_ms=timeout_ms).result(group)
    return {key: at.offset for key, at in offsets.items() if at is not None}


def _listed(admin: Admin, keys: Iterable[TopicPartition], spec: int | OffsetSpec, timeout_ms: int) -> _Plan:
    found = all_of(admin.list_offsets(dict.fromkeys(keys, spec), timeout_ms=timeout_ms))
    return {key: one.offset for key, one in found.items()}


def _within(admin: Admin, plan: _Plan, timeout_ms: int) -> _Plan:
    from ottla.client.admin.offsets import OffsetSpec

    starts = _listed(admin, plan, OffsetSpec.EARLIEST, timeout_ms)
    ends = _listed(admin, plan, OffsetSpec.LATEST, timeout_ms)
    return {key: max(min(offset, ends[key]), min(starts[key], ends[key])) for key, offset in plan.items()}


def _at_time(admin: Admin, keys: Sequence[TopicPartition], timestamp_ms: int, timeout_ms: int) -> _Plan:
    from ottla.client.admin.offsets import OffsetSpec

    found = _listed(admin, keys, timestamp_ms, timeout_ms)
    late = [key for key in map_order(keys, partition_hash) if found[key] == _UNKNOWN]
    for key in late:
        print(
            f"\nWarn: Partition {key.partition} from topic {key.topic} is empty. "
            "Falling back to latest known offset."
        )
    return found | _listed(admin, late, OffsetSpec.LATEST, timeout_ms)


def _datetime_ms(written: str) -> int:
    day, letter, time = written.partition("T")
    if not letter:
        raise Failure(
            "java.text.ParseException: Error parsing timestamp. "
            "It does not contain a 'T' according to ISO8601 format"
        )
    zoned = written if re.search(r"[+\-Z]", time) else f"{written}Z"
    try:
        found = datetime.fromisoformat(zoned)
    except ValueError as error:
        raise Failure(f'java.text.ParseException: Unparseable date: "{zoned}"') from error
    if not re.fullmatch(r"\d{1,4}-\d{1,2}-\d{1,2}", day) or "." not in time:
        raise Failure(f'java.text.ParseException: Unparseable date: "{zoned}"')
    return int(found.timestamp() * 1000)


def _duration(written: str) -> timedelta:
    found = _DURATION.fullmatch(written)
    if found is None or not any(found.groups()[1:]):
        raise Failure("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds = found.groups()
    length = timedelta(
        days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0), seconds=float(seconds or 0)
    )
    return -length if sign == "-" else length


def _from_file(options: Options) -> dict[str, _Plan]:
    """Parse the plans in a CSV file: topic, partition, offset; with several groups, the group comes first."""
    path = options.values("from-file")[0]
    with open(path, encoding="utf-8") as file:
        rows = [row for row in csv.reader(io.StringIO(file.read())) if row]
    groups = options.values("group")
    plans: dict[str, _Plan] = {}
    try:
        for row in rows:
            group = groups[0] if len(row) == 3 and len(groups) == 1 else row[-4]
            topic, partition, offset = row[-3:]
            plans.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
    except (ValueError, IndexError) as error:
        raise Failure(
            f"{path} is not a valid reset plan: {','.join(row)} is not topic,partition,offset"
        ) from error
    return plans
