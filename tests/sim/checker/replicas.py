"""White-box checks: leaders, watermarks, replicas and metadata, as observers read them from nodes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.sim.checker.history import Anomaly, History, Partition, ReplicaLog, partition_text


def two_leaders(history: History) -> Iterator[Anomaly]:
    """A partition has one leader per epoch."""
    leaders: dict[tuple[Partition, int], int] = {}
    for leads in history.leads:
        first = leaders.setdefault((leads.partition, leads.epoch), leads.node)
        if first != leads.node:
            yield Anomaly(
                "two leaders",
                f"nodes {first} and {leads.node} led {partition_text(leads.partition)} in {leads.epoch}",
            )


def watermarks_back(history: History) -> Iterator[Anomaly]:
    """A leader's watermark never decreases in its epoch, and the last stable offset never exceeds it."""
    last: dict[tuple[int, Partition, int], int] = {}
    for mark in sorted(history.watermarks, key=lambda mark: mark.at):
        key = (mark.node, mark.partition, mark.epoch)
        if mark.high < last.get(key, 0):
            yield Anomaly(
                "watermark went back",
                f"{partition_text(mark.partition)} on node {mark.node} in epoch {mark.epoch}: "
                f"{last[key]}, then {mark.high}",
            )
        if mark.stable > mark.high:
            yield Anomaly(
                "stable above watermark",
                f"{partition_text(mark.partition)} on node {mark.node}: {mark.stable} above {mark.high}",
            )
        last[key] = max(mark.high, last.get(key, 0))


def exposed_watermarks(history: History) -> Iterator[Anomaly]:
    """Every replica that the controllers may elect has everything below the high watermark."""
    for seen in history.exposed:
        yield Anomaly(
            "exposed watermark",
            f"{partition_text(seen.partition)} had {seen.high} committed on node {seen.node} in epoch "
            f"{seen.epoch} at {seen.at:.3f}; node {seen.replica} was in sync and ended at {seen.replica_end}",
        )


def replicas_differ(history: History) -> Iterator[Anomaly]:
    """Between the highest start and the lowest watermark, replicas have identical batches.

    Compacted logs are checked by their values only, since each replica compacts independently.
    """
    compacted = {log.partition for log in history.final if log.compacted}
    replicas: dict[Partition, list[ReplicaLog]] = {}
    for replica in history.replicas:
        if replica.partition not in compacted:
            replicas.setdefault(replica.partition, []).append(replica)
    for partition, logs in replicas.items():
        high = min(log.high_watermark for log in logs)
        start = max(log.batches[0][0] if log.batches else high for log in logs)
        first = _between(logs[0], start, high)
        for log in logs[1:]:
            other = _between(log, start, high)
            if other != first:
                place = next(
                    (a or b for a, b in _pairs(first, other) if a != b),
                    None,
                )
                yield Anomaly(
                    "replicas differ",
                    f"{partition_text(partition)} on nodes {logs[0].node} and {log.node}, first at {place}",
                )


def metadata_differs(history: History) -> Iterator[Anomaly]:
    """Committed metadata is identical on all nodes, and so are the images at the same offset."""
    entries: dict[int, tuple[int, int, int]] = {}
    images: dict[int, tuple[int, int]] = {}
    for log in history.metadata:
        for offset, epoch, checksum in log.entries:
            first = entries.setdefault(offset, (epoch, checksum, log.node))
            if first[:2] != (epoch, checksum):
                yield Anomaly("metadata differs", f"at {offset} on nodes {first[2]} and {log.node}")
        if log.image is not None:
            image = images.setdefault(log.applied_to, (log.image, log.node))
            if image[0] != log.image:
                yield Anomaly("images differ", f"up to {log.applied_to} on nodes {image[1]} and {log.node}")


def _between(log: ReplicaLog, start: int, end: int) -> list[tuple[int, int, int]]:
    return [batch for batch in log.batches if batch[0] >= start and batch[1] < end]


def _pairs(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]]
) -> Iterator[tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]]:
    for index in range(max(len(one), len(other))):
        yield (
            one[index] if index < len(one) else None,
            other[index] if index < len(other) else None,
        )
