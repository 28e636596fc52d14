"""Plans of `ottla reassign`: created for a cluster, read from or written to a file, started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import Misuse, Problem
from ottla.cli.output import count_text
from ottla.cli.reassignment.planner import CannotPlan, Rows, Wish, plan_moves
from ottla.client.values import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.topics import TopicDescription


@dataclass(frozen=True, slots=True)
class Plan:
    """Replicas before and after, for the partitions that change."""

    before: Rows
    after: Rows
    sizes: Mapping[TopicPartition, int]
    others: Rows
    """The partitions that were considered and do not change."""

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": place.topic,
                "partition": place.partition,
                "before": self.before[place],
                "after": self.after[place],
                "adding": [one for one in self.after[place] if one not in self.before[place]],
                "removing": [one for one in self.before[place] if one not in self.after[place]],
                "copied_bytes": self.copied_bytes(place),
            }
            for place in sorted(self.after)
        ]

    def copied_bytes(self, place: TopicPartition) -> int:
        return self.sizes.get(place, 0) * len(set(self.after[place]) - set(self.before[place]))

    def facts(self) -> dict[str, Any]:
        return {
            "partitions": self.rows(),
            "replicas_added": sum(len(row["adding"]) for row in self.rows()),
            "copied_bytes": sum(map(self.copied_bytes, self.after)),
            "brokers": [
                {"broker": broker, "replicas_before": before, "replicas_after": after}
                for broker, before, after in self.loads()
            ],
        }

    def loads(self) -> list[tuple[int, int, int]]:
        """Each broker with its number of replicas before and after, over the planned partitions."""
        stays = Counter(broker for row in self.others.values() for broker in row)
        before = stays + Counter(broker for row in self.before.values() for broker in row)
        after = stays + Counter(broker for row in self.after.values() for broker in row)
        return [(broker, before[broker], after[broker]) for broker in sorted({*before, *after})]


def planned(
    admin: Admin,
    topics: Sequence[str],
    all_topics: bool,
    to: str | None,
    drain: str | None,
    factor: int | None,
    uses_racks: bool,
) -> Plan:
    drained = _ids(drain, "--drain")
    if not topics and not all_topics and not drained:
        raise Misuse("Specify topics, --all, or a broker to --drain.")
    if topics and all_topics:
        raise Misuse("Specify topics or --all, not both.")
    nodes = {node.id: node.rack if uses_racks else None for node in admin.describe_cluster().nodes}
    targets = _ids(to, "--to") or sorted(nodes)
    for broker in targets:
        if broker not in nodes:
            raise Problem(f"Unknown broker {broker}. The brokers are {commas(sorted(nodes))}.")
    described = _topics(admin, topics)
    current = _current(admin, described)
    chosen = current
    if drained and not topics:
        chosen = {place: row for place, row in current.items() if set(row) & set(drained)}
    sizes = _sizes(admin, described)
    loads = Counter(broker for place, row in current.items() if place not in chosen for broker in row)
    in_sync = {
        TopicPartition(name, one.partition): frozenset(node.id for node in one.isr)
        for name, topic in described.items()
        for one in topic.partitions
    }
    wish = Wish(
        racks={broker: nodes[broker] for broker in targets if broker not in drained},
        replication_factor=factor,
        spreads=not drained and (factor is None or to is not None),
        evens_totals=all_topics,
        sizes=sizes,
        loads=loads,
        in_sync=in_sync,
    )
    try:
        after = plan_moves(chosen, wish)
    except CannotPlan as error:
        raise Problem(f"{error} Use fewer replicas or more brokers.") from error
    changed = {place: row for place, row in after.items() if row != chosen[place]}
    return _plan(current, changed, sizes)


def _plan(current: Rows, changed: Rows, sizes: Mapping[TopicPartition, int]) -> Plan:
    others = {place: row for place, row in current.items() if place not in changed}
    return Plan({place: current[place] for place in changed}, changed, sizes, others)


def _topics(admin: Admin, names: Sequence[str]) -> dict[str, TopicDescription]:
    """Topics by name and pattern; all if none is given."""
    from ottla.cli.lookups import describe_topics, matching

    known = admin.list_topics(include_internal=True)
    wanted: list[str] = [] if names else list(known)
    for name in names:
        if any(one in name for one in "*?["):
            found = matching(known, name)
            if not found:
                raise Problem(f"No topic matches {name}. List topics with: ottla topic list")
            wanted += found
        else:
            wanted.append(name)
    return describe_topics(admin, wanted) if wanted else {}


def _current(admin: Admin, topics: Mapping[str, TopicDescription]) -> Rows:
    """The replicas of partitions; for those being reassigned, the target replicas."""
    moving = admin.list_partition_reassignments()
    rows: Rows = {}
    for name, topic in topics.items():
        for one in topic.partitions:
            place = TopicPartition(name, one.partition)
            removing = moving[place].removing if place in moving else ()
            rows[place] = [node.id for node in one.replicas if node.id not in removing]
    return rows


def _sizes(admin: Admin, topics: Mapping[str, TopicDescription]) -> dict[TopicPartition, int]:
    from ottla.cli.lookups import leader_of, replica_sizes

    partitions = [(name, one) for name, topic in topics.items() for one in topic.partitions]
    leaders = {leader for _, one in partitions if (leader := leader_of(one)) is not None}
    known = replica_sizes(admin, sorted(leaders)) if leaders else {}
    return {
        TopicPartition(name, one.partition): found.size_bytes
        for name, one in partitions
        if (leader := leader_of(one)) is not None
        and (found := known.get((leader, TopicPartition(name, one.partition)))) is not None
    }


def start_plan(admin: Admin, found: Plan, rate: int | None) -> None:
    from ottla.operations.reassignments import moves_of, set_throttle

    under_way = admin.list_partition_reassignments()
    if rate is not None:
        set_throttle(admin, moves_of(under_way, found.after, found.before), rate)
    failed = admin.alter_partition_reassignments(found.after).failed
    if failed:
        place, error = min(failed.items())
        more = (
            f" {count_text(len(failed), 'partition')} of {len(found.after)} were rejected." if failed else ""
        )
        raise Problem(f"{place.topic}-{place.partition} cannot be moved: {error}.{more}") from error


def plan_of_file(admin: Admin, path: str) -> Plan:
    from ottla.cli.lookups import describe_topics
    from ottla.operations.failure import Failure
    from ottla.operations.reassignment_files import check_plan, read_plan

    try:
        with open(path, encoding="utf-8-sig") as file:
            plan = read_plan(file.read())
        check_plan(plan)
    except (Failure, UnicodeDecodeError) as error:
        raise Problem(f"{path}: {error}") from error
    if plan.directories:
        raise Problem(
            f"{path} specifies log directories. Use kafka-reassign-partitions --execute for moves between "
            "them."
        )
    described = describe_topics(admin, {place.topic for place in plan.replicas})
    current = _current(admin, described)
    nodes = {node.id for node in admin.describe_cluster().nodes}
    for place, row in plan.replicas.items():
        if place not in current:
            raise Problem(f"{path}: topic {place.topic} has no partition {place.partition}.")
        if missing := [broker for broker in row if broker not in nodes]:
            raise Problem(f"{path}: unknown broker {missing[0]}. The brokers are {commas(sorted(nodes))}.")
    changed = {place: row for place, row in plan.replicas.items() if row != current[place]}
    return _plan(current, changed, _sizes(admin, described))


def write_plan(path: str, rows: Rows) -> None:
    from ottla.operations.reassignment_files import plan_text

    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{plan_text(rows)}\n")


def _ids(text: str | None, flag: str) -> list[int]:
    if text is None:
        return []
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise Misuse(f"{flag} {text}: use comma-separated broker ids, such as 1,2,3.")
    return list(dict.fromkeys(map(int, words)))


def commas(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))
