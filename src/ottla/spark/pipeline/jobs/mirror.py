"""Mirrors topics to another cluster, each record once, and translates the offsets of groups.

Records keep their partition, key, value, headers and timestamp. Offsets differ, because transaction markers
use up offsets, and deleted or compacted records leave gaps. If a group is `k` records before the end of the
mirrored part, its translated offset is `k` records before the end in the other cluster. Rule: groups are
translated exactly, by counting, while nothing is mirrored; a group with members connected to the other
cluster keeps its offsets there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from ottla.client.admin import Admin, IsolationLevel, NewTopic, OffsetSpec
from ottla.client.consumer.consumer import Consumer
from ottla.client.values import OffsetAndMetadata, TopicPartition
from ottla.spark.pipeline.model import Restart
from ottla.spark.pipeline.progress import offsets_of
from ottla.spark.pipeline.run import QueryFailed, is_permanent, reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_SLACK = 1000


class MirrorError(RuntimeError):
    """A topic cannot be mirrored, or an offset cannot be translated; the message says why."""


@dataclass(frozen=True, slots=True)
class Mirror:
    """The source, the target and the topics of a mirror. The target's topic names start with `prefix`."""

    name: str
    topics: tuple[str, ...]
    source: Mapping[str, str]
    target: Mapping[str, str]
    checkpoint: str
    prefix: str = ""
    batch_records: int | None = None

    def named(self, topic: str) -> str:
        return f"{self.prefix}{topic}"


def make_topics(mirror: Mirror) -> list[str]:
    """Create missing topics in the target cluster, with as many partitions; return the created names."""
    with Admin(dict(mirror.source)) as admin:
        found = admin.describe_topics(list(mirror.topics)).all()
        counts = {topic: len(described.partitions) for topic, described in found.items()}
    made = []
    with Admin(dict(mirror.target)) as admin:
        there = set(admin.list_topics())
        new = [topic for topic in mirror.topics if mirror.named(topic) not in there]
        if new:
            admin.create_topics([NewTopic(mirror.named(topic), counts[topic]) for topic in new]).all()
            made = [mirror.named(topic) for topic in new]
        old = [mirror.named(topic) for topic in mirror.topics if topic not in new]
        described = admin.describe_topics(old).all() if old else {}
        for topic in mirror.topics:
            count = len(described[mirror.named(topic)].partitions) if topic not in new else counts[topic]
            if count < counts[topic]:
                raise MirrorError(
                    f"{mirror.named(topic)} has {count} partitions, but {topic} has {counts[topic]}. Add "
                    f"partitions with: ottla topic alter {mirror.named(topic)} --partitions "
                    f"{counts[topic]}."
                )
    return made


def writer(spark: SparkSession, mirror: Mirror) -> DataStreamWriter:
    """The query, ready for a trigger and a start."""
    from pyspark.sql import functions as f

    from ottla.spark.sink import write_stream

    options = {f"kafka.{name}": value for name, value in mirror.source.items()}
    options |= {"subscribe": ",".join(mirror.topics), "startingOffsets": "earliest", "includeHeaders": "true"}
    options |= {"groupId": mirror.name, "kafka.isolation.level": "read_committed"}
    if mirror.batch_records is not None:
        options["maxOffsetsPerTrigger"] = str(mirror.batch_records)
    frame = spark.readStream.format("ottla").options(**options).load()
    topic = f.concat(f.lit(mirror.prefix), f.col("topic")).alias("topic")
    rows = frame.select("key", "value", "headers", "timestamp", "partition", topic)
    client = {name: value for name, value in mirror.target.items() if name != "bootstrap.servers"}
    return write_stream(
        rows,
        bootstrap_servers=mirror.target["bootstrap.servers"],
        transactional_id=mirror.name,
        checkpoint=mirror.checkpoint,
        client=client,
        marker_topic=mirror.named(mirror.topics[0]),
    ).queryName(mirror.name)


def copy_round(spark: SparkSession, mirror: Mirror) -> int:
    """Copy all current records and return their number. A failed round is retried from its checkpoint."""
    policy = Restart(attempts=5)
    copied = 0
    for attempt in range(1, policy.attempts + 2):
        query = writer(spark, mirror).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
            return copied + _records(query)
        except PySparkException as error:
            if attempt > policy.attempts or is_permanent(error):
                raise QueryFailed(f"Mirror {mirror.name!r} failed: {reason_of(error)}") from error
            copied += _records(query)
            time.sleep(policy.delay_of(attempt) / 1000)
        finally:
            query.stop()
    raise AssertionError("The last attempt returns or raises.")


def _records(query: StreamingQuery) -> int:
    return sum(int(one["numInputRows"]) for one in query.recentProgress)


def mirrored_ends(checkpoint: str) -> dict[TopicPartition, int]:
    """The mirrored end offset of each partition: the end of the last batch that Spark committed."""
    commits = [int(one.name) for one in Path(checkpoint, "commits").glob("[0-9]*") if one.name.isdecimal()]
    if not commits:
        return {}
    text = Path(checkpoint, "offsets", str(max(commits))).read_text().splitlines()[-1]
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in offsets_of(json.loads(text)).items()
        for partition, offset in partitions.items()
    }


def translate_groups(mirror: Mirror, groups: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Translate the offsets of groups into the target cluster; return a row per partition.

    Translates the named groups, or all groups that have offsets in the topics. Nothing may be mirrored
    meanwhile.
    """
    ends = mirrored_ends(mirror.checkpoint)
    rows: list[dict[str, Any]] = []
    with Admin(dict(mirror.source)) as here, Admin(dict(mirror.target)) as there:
        names = list(groups) if groups is not None else [one.group_id for one in here.list_groups()]
        for group in names:
            if group == mirror.name or group.startswith("ottla-spark."):
                continue
            found = here.list_consumer_group_offsets([group]).result(group)
            moved: dict[TopicPartition, OffsetAndMetadata] = {}
            for key, stored in sorted(found.items()):
                if key not in ends or stored is None or stored.offset < 0:
                    continue
                offset = translate(mirror, key, stored.offset, ends[key])
                to = TopicPartition(mirror.named(key.topic), key.partition)
                moved[to] = OffsetAndMetadata(offset, metadata=stored.metadata)
                rows.append(
                    {
                        "group": group,
                        "topic": key.topic,
                        "partition": key.partition,
                        "offset": stored.offset,
                        "translated": offset,
                        "error": None,
                    }
                )
            if moved:
                refused = there.alter_consumer_group_offsets(group, moved).failed
                for row in rows[-len(moved) :]:
                    key = TopicPartition(mirror.named(row["topic"]), row["partition"])
                    row["error"] = str(refused[key]) if key in refused else None
    return rows


def translate(mirror: Mirror, partition: TopicPartition, offset: int, end: int) -> int:
    """The target offset of the record at this source offset."""
    left = len(_offsets_between(mirror.source, partition, offset, end))
    there = TopicPartition(mirror.named(partition.topic), partition.partition)
    with Admin(dict(mirror.target)) as admin:
        committed = IsolationLevel.READ_COMMITTED
        last = admin.list_offsets({there: OffsetSpec.LATEST}, isolation_level=committed).result(there).offset
        first = admin.list_offsets({there: OffsetSpec.EARLIEST}).result(there).offset
    if not left:
        return int(last)
    back = left + _SLACK
    while True:
        begin = max(first, last - back)
        offsets = _offsets_between(mirror.target, there, begin, last)
        if len(offsets) >= left:
            return offsets[-left]
        if begin == first:
            raise MirrorError(
                f"{there.topic}-{there.partition} has {len(offsets)} records instead of {left}: some were "
                "deleted on the target cluster."
            )
        back *= 4


def _offsets_between(client: Mapping[str, str], partition: TopicPartition, begin: int, end: int) -> list[int]:
    """The offsets of all committed records in [begin, end)."""
    if begin >= end:
        return []
    with Consumer(dict(client), isolation_level="read_committed", enable_auto_commit=False) as consumer:
        consumer.assign([partition])
        first = consumer.beginning_offsets([partition])[partition]
        consumer.seek(partition, max(begin, first))
        found: list[int] = []
        while consumer.position(partition) < end:
            found.extend(one.offset for one in consumer.poll(timeout=1.0) if one.offset < end)
        return found
