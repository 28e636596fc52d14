"""Health checks of a reachable cluster: quorum, clocks, disks, partitions, transactions, groups, settings.

Rule: a check has a time limit and yields findings; a check that fails is a finding too and does not stop the
others. Checks are read-only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.cli.checks.finding import Finding, listed, ok, problem, several, warning
from ottla.client.errors import ClientError
from ottla.wire.errors import KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.admin.groups import ConsumerGroupDescription
    from ottla.client.admin.topics import TopicDescription
    from ottla.client.values import TopicPartition

CLOCK_MS_MAX = 5_000
LAG_MS_MAX = 30_000
REBALANCE_SECONDS = 3.0
HANGING_MS = 15 * 60_000
DISK_LOW = 0.15
DISK_FULL = 0.05
_PARTITIONS_MAX = 5_000
_SILENT_MS = 3_000
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_GIBIBYTE = 1024**3


@dataclass(slots=True)
class Patient:
    """The cluster under examination, and the state that several checks share."""

    admin: Admin
    timeout_ms: int
    now_ms: Callable[[], int]
    sleep: Callable[[float], None] = time.sleep
    unreachable: frozenset[int] = frozenset()
    """Brokers that did not answer: requests to them would only time out."""
    brokers: list[int] = field(default_factory=list)
    fenced: list[int] = field(default_factory=list)
    topics: dict[str, TopicDescription] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)


Check = Callable[[Patient], Iterable[Finding]]


def examine(patient: Patient) -> Iterable[Finding]:
    """Run all checks in order."""
    for name, check in CHECKS.items():
        try:
            yield from check(patient)
        except UnsupportedVersion as error:
            yield warning(
                name,
                f"The brokers do not support this request: {_said(error)}",
                "Upgrade the brokers, or ignore this check",
            )
        except (ClientError, KafkaError) as error:
            yield problem(
                name,
                f"The check failed: {_said(error)}",
                "Fix the problems above first; OTTLA_DEBUG=1 shows details",
            )


def _said(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith(".") else f"{text}."


# Brokers and the quorum


def check_brokers(patient: Patient) -> Iterable[Finding]:
    try:
        cluster = patient.admin.describe_cluster(include_fenced_brokers=True, timeout_ms=patient.timeout_ms)
    except UnsupportedVersion:
        cluster = patient.admin.describe_cluster(timeout_ms=patient.timeout_ms)
    patient.brokers = sorted(node.id for node in cluster.nodes if not node.is_fenced)
    patient.fenced = sorted(node.id for node in cluster.nodes if node.is_fenced)
    if patient.fenced:
        yield problem(
            "brokers",
            f"{_brokers(patient.fenced)} registered but fenced: stopped, or disconnected from the "
            "controllers.",
            f"Start {_them(patient.fenced)}, or check the log; to remove a broker for good: kafka-cluster "
            f"unregister --id {patient.fenced[0]}",
        )
    yield ok(
        "brokers", f"{several(len(patient.brokers), 'broker')} in the cluster: {listed(patient.brokers)}."
    )


def _brokers(ids: list[int]) -> str:
    return f"Broker {ids[0]} is" if len(ids) == 1 else f"Brokers {listed(ids)} are"


def _them(ids: list[int]) -> str:
    return f"broker {ids[0]}" if len(ids) == 1 else f"brokers {listed(ids)}"


def check_quorum(patient: Patient) -> Iterable[Finding]:
    before_ms = patient.now_ms()
    quorum = patient.admin.describe_metadata_quorum(timeout_ms=patient.timeout_ms)
    after_ms = patient.now_ms()
    voters = {one.id: one for one in quorum.voters}
    leader = voters.get(quorum.leader_id)
    if leader is None:
        yield problem(
            "quorum",
            "The quorum has no leader: metadata cannot change.",
            "Start the controllers: a majority must run",
        )
        return
    behind = [one for one in quorum.voters if _is_behind(one, leader)]
    for one in behind:
        yield problem(
            "quorum",
            f"Controller {one.id} is {leader.log_end_offset - one.log_end_offset} records behind the leader"
            f"{_since(one, leader)}.",
            f"Start controller {one.id}, or check its log; ottla quorum replicas lists all replicas",
        )
    if not behind:
        yield ok("quorum", f"Controller {leader.id} leads {several(len(voters), 'voter')}; no voter lags.")
    if len(patient.brokers) >= 3 and len(voters) < 3:
        yield warning(
            "quorum",
            f"{several(len(voters), 'controller')} for {len(patient.brokers)} brokers: metadata becomes "
            "unavailable when one fails.",
            "Add controllers until there are three: kafka-metadata-quorum add-controller",
        )
    elif len(voters) % 2 == 0:
        yield warning(
            "quorum",
            f"{len(voters)} controllers tolerate no more failures than {len(voters) - 1} do.",
            "Add one or remove one: kafka-metadata-quorum add-controller",
        )
    yield from _clock(leader.id, leader.last_fetch_timestamp, before_ms, after_ms)


def _is_behind(one: Any, leader: Any) -> bool:
    """Whether a voter has lagged for a while."""
    if one.id == leader.id or one.log_end_offset >= leader.log_end_offset:
        return False
    caught_up, now = one.last_caught_up_timestamp, leader.last_fetch_timestamp
    return caught_up is None or now is None or now - caught_up > LAG_MS_MAX


def _since(one: Any, leader: Any) -> str:
    if one.last_caught_up_timestamp is None or leader.last_fetch_timestamp is None:
        return ""
    return f", for {(leader.last_fetch_timestamp - one.last_caught_up_timestamp) / 1000:.0f} s"


def _clock(leader: int, leader_ms: int | None, before_ms: int, after_ms: int) -> Iterable[Finding]:
    """Compare clocks; the leader reports its own time."""
    if leader_ms is None:
        yield ok("clock", "The quorum leader did not report its time.")
        return
    ahead_ms = leader_ms - after_ms if leader_ms > after_ms else min(leader_ms - before_ms, 0)
    if abs(ahead_ms) <= CLOCK_MS_MAX:
        yield ok("clock", f"The clocks of controller {leader} and this machine agree.")
        return
    yield warning(
        "clock",
        f"The clock of controller {leader} is {abs(ahead_ms) / 1000:.1f} s "
        f"{'ahead of' if ahead_ms > 0 else 'behind'} this machine's: timestamps and retention will be "
        "wrong.",
        "Synchronize both with NTP: timedatectl set-ntp true",
    )


# Disks


def check_disks(patient: Patient) -> Iterable[Finding]:
    asked = [broker for broker in patient.brokers if broker not in patient.unreachable]
    results = patient.admin.describe_log_dirs(asked, timeout_ms=patient.timeout_ms)
    sound = []
    for broker, error in results.failed.items():
        yield problem(
            "disk",
            f"Broker {broker} did not describe its log directories: {_said(error)}",
            "Check its log",
        )
    for broker, directories in results.succeeded.items():
        for path, one in directories.items():
            found = _disk(broker, path, one)
            if found is not None:
                yield found
            else:
                sound.append(one.usable_bytes)
    if sound:
        known = [one for one in sound if one is not None]
        left = f", at least {min(known) / _GIBIBYTE:.1f} GiB free" if known else ""
        yield ok("disk", f"{several(len(sound), 'log directory', 'log directories')} online{left}.")


def _disk(broker: int, path: str, one: Any) -> Finding | None:
    if one.error is not None:
        return problem(
            "disk",
            f"{path} of broker {broker} is offline: {_said(one.error)}",
            "Repair the disk and restart the broker; replicas on other brokers serve meanwhile",
        )
    if one.total_bytes is None or one.usable_bytes is None or not one.total_bytes:
        return None
    share = one.usable_bytes / one.total_bytes
    if share >= DISK_LOW:
        return None
    make = problem if share < DISK_FULL else warning
    return make(
        "disk",
        f"{path} of broker {broker} has {share:.0%} free, {one.usable_bytes / _GIBIBYTE:.1f} GiB.",
        "Shorten retention: ottla topic alter TOPIC --retention 1d; kafka-log-dirs shows the largest "
        "partitions",
    )


# Partitions


def check_partitions(patient: Patient) -> Iterable[Finding]:
    admin = patient.admin
    names = list(admin.list_topics(include_internal=True, timeout_ms=patient.timeout_ms))
    patient.topics = admin.describe_topics(names, timeout_ms=patient.timeout_ms).succeeded if names else {}
    patient.min_isr = _min_isr(patient)
    offline, under_min, under = [], [], []
    missing: set[int] = set()
    for name, topic in patient.topics.items():
        for one in topic.partitions:
            absent = {node.id for node in one.replicas} - {node.id for node in one.isr}
            if one.leader is None:
                offline.append(f"{name}-{one.partition}")
            elif len(one.isr) < min(patient.min_isr.get(name, 1), len(one.replicas)):
                under_min.append(f"{name}-{one.partition}")
            elif absent:
                under.append(f"{name}-{one.partition}")
            missing |= absent
    cure = _start_missing(missing, patient)
    if offline:
        yield problem(
            "partitions",
            f"{several(len(offline), 'partition')} without a leader, unavailable for reads and writes: "
            f"{listed(offline)}.",
            cure,
        )
    if under_min:
        yield problem(
            "partitions",
            f"{several(len(under_min), 'partition')} with fewer in-sync replicas than "
            f"min.insync.replicas; writes with acks=all fail: {listed(under_min)}.",
            cure,
        )
    if under:
        yield warning(
            "partitions",
            f"{several(len(under), 'partition')} under-replicated: {listed(under)}.",
            cure,
        )
    if not (offline or under_min or under):
        count = sum(len(topic.partitions) for topic in patient.topics.values())
        yield ok(
            "partitions",
            f"{several(count, 'partition')} of {several(len(patient.topics), 'topic')}, all replicas in "
            "sync.",
        )


def _start_missing(missing: set[int], patient: Patient) -> str:
    gone = sorted(missing & {*patient.fenced, *patient.unreachable} or missing - set(patient.brokers))
    if gone:
        return f"Start {_them(gone)}; ottla topic describe shows the recovery"
    slow = sorted(missing)
    return (
        f"Check the log of {_them(slow)}: its replicas lag; ottla topic describe shows them"
        if slow
        else "ottla topic describe shows them"
    )


def _min_isr(patient: Patient) -> dict[str, int]:
    from ottla.client.admin import topic_resource

    found = {}
    resources = {name: topic_resource(name) for name in patient.topics}
    if not resources:
        return {}
    described = patient.admin.describe_configs(
        resources.values(), names=["min.insync.replicas"], timeout_ms=patient.timeout_ms
    ).succeeded
    for name, resource in resources.items():
        entry = _value(described.get(resource), "min.insync.replicas")
        if entry is not None and entry.isdecimal():
            found[name] = int(entry)
    return found


def _value(configs: Any, name: str) -> str | None:
    """The value of a setting in a describe_configs answer."""
    if configs is None:
        return None
    entry = configs.get(name)
    value: str | None = None if entry is None else entry.value
    return value


# Transactions


def check_transactions(patient: Patient) -> Iterable[Finding]:
    from ottla.operations.failure import Failure
    from ottla.operations.hanging_transactions import hanging_transactions

    led = sorted(_led(patient))
    try:
        hanging = hanging_transactions(patient.admin, led[:_PARTITIONS_MAX], HANGING_MS)
    except Failure as error:
        yield problem("transactions", f"The check failed: {error}", "Fix the problems above first")
        return
    for one in hanging:
        name, start = one.partition, one.producer.transaction_start_offset
        yield problem(
            "transactions",
            f"Hanging transaction in {name} at offset {start}: no coordinator will end it, and "
            "read_committed consumers are blocked there.",
            f"ottla txn abort --topic {name.topic} --partition {name.partition} --start-offset {start}",
        )
    if not hanging:
        rest = f" in the first {_PARTITIONS_MAX} partitions" if len(led) > _PARTITIONS_MAX else ""
        yield ok("transactions", f"No hanging transactions{rest}.")


# Groups


def check_groups(patient: Patient) -> Iterable[Finding]:
    admin = patient.admin
    # Every broker is asked, but one that is known to be silent gets less time.
    patience_ms = min(patient.timeout_ms, _SILENT_MS) if patient.unreachable else patient.timeout_ms
    listing = admin.list_consumer_groups(timeout_ms=patience_ms)
    if listing.errors:
        silent = sorted(listing.errors)
        yield warning(
            "groups",
            f"{_them(silent).capitalize()} did not list its groups.",
            f"Start {_them(silent)}, or check the log",
        )
    names = [one.group_id for one in listing.found]
    groups = admin.describe_consumer_groups(names, timeout_ms=patient.timeout_ms).succeeded if names else {}
    moving = [name for name, group in groups.items() if group.state in _REBALANCING]
    stuck = _still_moving(patient, moving)
    for name in stuck:
        yield warning(
            "groups",
            f"Group {name} is stuck in a rebalance; its members consume nothing.",
            f"Find the member that does not join: ottla group describe {name}; max.poll.interval.ms may "
            "be too long",
        )
    lagging = _empty_with_lag(patient, groups)
    for name, lag in lagging.items():
        yield warning(
            "groups",
            f"Group {name} has no members and {several(lag, 'record')} of lag.",
            f"Start its consumers, or, if it is unused: ottla group delete {name}",
        )
    if not (stuck or lagging):
        yield ok("groups", f"{several(len(groups), 'consumer group')}, none stuck or abandoned.")


def _still_moving(patient: Patient, moving: list[str]) -> list[str]:
    if not moving:
        return []
    patient.sleep(REBALANCE_SECONDS)
    again = patient.admin.describe_consumer_groups(moving, timeout_ms=patient.timeout_ms).succeeded
    return [name for name, group in again.items() if group.state in _REBALANCING]


def _empty_with_lag(patient: Patient, groups: dict[str, ConsumerGroupDescription]) -> dict[str, int]:
    from ottla.client.admin import OffsetSpec

    empty = [name for name, group in groups.items() if group.state == "Empty"]
    if not empty:
        return {}
    committed = patient.admin.list_consumer_group_offsets(empty, timeout_ms=patient.timeout_ms).succeeded
    led = _led(patient)
    wanted = {key for offsets in committed.values() for key in offsets if key in led}
    ends = patient.admin.list_offsets(
        dict.fromkeys(sorted(wanted), OffsetSpec.LATEST), timeout_ms=patient.timeout_ms
    ).succeeded
    found = {}
    for name, offsets in committed.items():
        lag = sum(
            max(ends[key].offset - at.offset, 0)
            for key, at in offsets.items()
            if at is not None and key in ends
        )
        if lag:
            found[name] = lag
    return found


def _led(patient: Patient) -> set[TopicPartition]:
    """The partitions whose leaders are online."""
    from ottla.client.values import TopicPartition

    return {
        TopicPartition(name, one.partition)
        for name, topic in patient.topics.items()
        for one in topic.partitions
        if one.leader is not None and one.leader.id not in patient.unreachable
    }


# Settings


def check_settings(patient: Patient) -> Iterable[Finding]:
    found = [*_topic_settings(patient), *_broker_settings(patient)]
    yield from found
    if not found:
        yield ok("settings", "Replication factors and min.insync.replicas suit the cluster.")


def _topic_settings(patient: Patient) -> Iterable[Finding]:
    brokers = len(patient.brokers) + len(patient.fenced)
    impossible, tight, single = [], [], []
    for name, topic in patient.topics.items():
        factor = max((len(one.replicas) for one in topic.partitions), default=0)
        least = patient.min_isr.get(name, 1)
        if least > factor:
            impossible.append(name)
        elif least == factor and factor > 1:
            tight.append(name)
        if factor == 1 and brokers >= 3:
            single.append(name)
    if impossible:
        yield warning(
            "settings",
            f"min.insync.replicas exceeds the replication factor of {listed(impossible)}: old brokers "
            "reject writes with acks=all, new ones require all replicas.",
            f"ottla topic alter {impossible[0]} --set min.insync.replicas=1",
        )
    if tight:
        yield warning(
            "settings",
            f"min.insync.replicas equals the replication factor of {listed(tight)}: writes with acks=all "
            "fail when one broker is down.",
            f"ottla topic alter {tight[0]} --set min.insync.replicas="
            f"{max(patient.min_isr.get(tight[0], 2) - 1, 1)}",
        )
    if single:
        yield warning(
            "settings",
            f"{listed(single)}: one replica on a cluster of {brokers} brokers; losing that broker loses "
            "the data.",
            f"Add replicas: ottla reassign start {single[0]} -r 3",
        )


_DEFAULTS = ("default.replication.factor", "min.insync.replicas", "unclean.leader.election.enable")


def _broker_settings(patient: Patient) -> Iterable[Finding]:
    from ottla.client.admin import broker_resource

    if not patient.brokers:
        return
    resource = broker_resource(patient.brokers[0])
    described = patient.admin.describe_configs([resource], names=_DEFAULTS, timeout_ms=patient.timeout_ms)
    configs = described.result(resource)
    factor = int(_value(configs, _DEFAULTS[0]) or 1)
    least = int(_value(configs, _DEFAULTS[1]) or 1)
    if len(patient.brokers) >= 3 and factor == 1:
        yield warning(
            "settings",
            "New topics get one replica (default.replication.factor=1) on a cluster of "
            f"{len(patient.brokers)} brokers.",
            "Set default.replication.factor=3 and min.insync.replicas=2 in server.properties of all brokers",
        )
    elif factor >= 3 and least == 1:
        yield warning(
            "settings",
            f"New topics have {factor} replicas, but acks=all needs only one (min.insync.replicas=1).",
            "Set it for all brokers: ottla config set broker default min.insync.replicas=2",
        )
    if (_value(configs, _DEFAULTS[2]) or "false").lower() == "true":
        yield warning(
            "settings",
            "unclean.leader.election.enable=true: an out-of-sync replica may become leader and lose records.",
            "Set it to false where records must not be lost",
        )


CHECKS: dict[str, Check] = {
    "brokers": check_brokers,
    "quorum": check_quorum,
    "disk": check_disks,
    "partitions": check_partitions,
    "transactions": check_transactions,
    "groups": check_groups,
    "settings": check_settings,
}
