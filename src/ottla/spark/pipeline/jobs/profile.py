"""Profiles a topic in one pass of Spark: sizes, keys, nulls, late records.

Rule: numbers are exact unless they are called approximate; the profile covers the topic as it was when the
job began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEYS = 20
_QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class PartitionProfile:
    partition: int
    records: int
    bytes: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    late: int
    late_ms_max: int


@dataclass(frozen=True, slots=True)
class TopicProfile:
    """One topic. Sizes cover keys and values without headers; `keys` and the quantiles are approximate."""

    topic: str
    records: int
    bytes: int
    partitions: list[PartitionProfile]
    null_keys: int
    null_values: int
    keys: int
    top_keys: list[tuple[str, int]]
    value_sizes: dict[str, float]
    late: int
    late_ms: int
    per_hour: list[tuple[int, int]] = field(default_factory=list)
    fields: dict[str, int] = field(default_factory=dict)  # schema field -> rows where it is NULL
    undecodable: int = 0

    @property
    def top_share(self) -> float:
        """The most frequent key's share of all records."""
        return self.top_keys[0][1] / self.records if self.top_keys and self.records else 0.0

    @property
    def partition_skew(self) -> float:
        """The largest partition divided by the mean; 1.0 is even."""
        mean = self.records / len(self.partitions) if self.partitions else 0
        return max((one.records for one in self.partitions), default=0) / mean if mean else 1.0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "top_share": self.top_share, "partition_skew": self.partition_skew}


def profile_topic(
    spark: SparkSession,
    topic: str,
    *,
    client: Mapping[str, str],
    schema: str | None = None,
    late_ms: int = 60_000,
) -> TopicProfile:
    """Read a topic and describe it. A record is late if it is `late_ms` older than a record before it."""
    from pyspark.sql import functions as f
    from pyspark.sql.window import Window

    options = {f"kafka.{name}": value for name, value in client.items()}
    frame = spark.read.format("ottla").options(**options, subscribe=topic).load()
    size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    before = Window.partitionBy("partition").orderBy("offset")
    at = f.unix_millis("timestamp")
    rows = frame.select(
        "partition",
        "key",
        "value",
        size.alias("size"),
        f.length("value").alias("value_size"),
        at.alias("at"),
        (f.max(at).over(before) - at).alias("behind"),
    ).cache()
    try:
        return _described(rows, topic, schema, late_ms)
    finally:
        rows.unpersist()


def _described(rows: DataFrame, topic: str, schema: str | None, late_ms: int) -> TopicProfile:
    from pyspark.sql import functions as f

    late = f.col("behind") > late_ms
    each = rows.groupBy("partition").agg(
        f.count("*"),
        f.sum("size"),
        f.min("at"),
        f.max("at"),
        f.count_if(late),
        f.max("behind"),
    )
    partitions = [
        PartitionProfile(row[0], row[1], row[2] or 0, row[3], row[4], row[5], row[6] or 0)
        for row in sorted(each.collect())
    ]
    quantiles = f.percentile_approx("value_size", list(_QUANTILES))
    totals = rows.agg(
        f.count_if(f.col("key").isNull()),
        f.count_if(f.col("value").isNull()),
        f.approx_count_distinct("key"),
        f.min("value_size"),
        f.avg("value_size"),
        f.max("value_size"),
        quantiles,
    ).collect()[0]
    sizes = {"min": totals[3], "mean": totals[4], "max": totals[5]}
    sizes |= {f"p{int(part * 100)}": value for part, value in zip(_QUANTILES, totals[6] or [], strict=False)}
    top = rows.filter("key IS NOT NULL").groupBy("key").count().orderBy(f.desc("count"), "key").limit(_KEYS)
    hours = rows.groupBy((f.col("at") / 3_600_000).cast("long").alias("hour")).count().orderBy("hour")
    fields, undecodable = _field_nulls(rows, schema) if schema else ({}, 0)
    return TopicProfile(
        topic=topic,
        records=sum(one.records for one in partitions),
        bytes=sum(one.bytes for one in partitions),
        partitions=partitions,
        null_keys=totals[0],
        null_values=totals[1],
        keys=totals[2],
        top_keys=[(bytes(row[0]).decode(errors="backslashreplace"), row[1]) for row in top.collect()],
        value_sizes={name: float(value) for name, value in sizes.items() if value is not None},
        late=sum(one.late for one in partitions),
        late_ms=late_ms,
        per_hour=[(row[0] * 3_600_000, row[1]) for row in hours.collect()],
        fields=fields,
        undecodable=undecodable,
    )


def _field_nulls(rows: DataFrame, schema: str) -> tuple[dict[str, int], int]:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructType

    given = StructType.fromDDL(schema)
    assert isinstance(given, StructType), "A list of columns is a struct."
    names = list(given.names)
    wanted = given.add("__corrupt", StringType())
    decoded = rows.filter("value IS NOT NULL").select(
        f.from_json(f.col("value").cast("string"), wanted, {"columnNameOfCorruptRecord": "__corrupt"}).alias(
            "row"
        )
    )
    is_bad = f.col("row").isNull() | f.col("row.__corrupt").isNotNull()
    counts = decoded.agg(
        f.count_if(is_bad), *(f.count_if(~is_bad & f.col(f"row.`{name}`").isNull()) for name in names)
    ).collect()[0]
    return dict(zip(names, counts[1:], strict=True)), counts[0]


def markdown(profiles: list[TopicProfile]) -> str:
    """The report as Markdown."""
    lines = ["# Profile of topics", ""]
    for one in profiles:
        sizes = ", ".join(f"{name} {value:,.0f}" for name, value in one.value_sizes.items())
        lines += [
            f"## {one.topic}",
            "",
            f"- {one.records:,} records, {one.bytes:,} bytes in {len(one.partitions)} partitions "
            f"(largest to mean: {one.partition_skew:.2f})",
            f"- values, bytes: {sizes or 'none'}",
            f"- about {one.keys:,} keys; the most frequent has {one.top_share:.1%} of the records",
            f"- without a key: {one.null_keys:,}; without a value: {one.null_values:,}",
            f"- more than {one.late_ms / 1000:g} s late: {one.late:,}",
        ]
        if one.fields:
            nulls = ", ".join(f"{name} {count:,}" for name, count in one.fields.items())
            lines.append(f"- undecodable: {one.undecodable:,}; NULL in fields: {nulls}")
        lines += ["", "| partition | records | bytes | late | latest by, ms |", "|---|---|---|---|---|"]
        lines += [
            f"| {part.partition} | {part.records:,} | {part.bytes:,} | {part.late:,} | {part.late_ms_max:,} |"
            for part in one.partitions
        ]
        if one.top_keys:
            lines += ["", "| key | records |", "|---|---|"]
            lines += [f"| {key.replace('|', '/')} | {count:,} |" for key, count in one.top_keys[:10]]
        lines += ["", f"![{one.topic}]({one.topic}.png)", ""]
    return "\n".join(lines)


def write_report(profiles: list[TopicProfile], directory: Path) -> Path:
    """Write the report with a plot per topic; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    for one in profiles:
        _plot(one, directory / f"{one.topic}.png")
    report = directory / "profile.md"
    report.write_text(markdown(profiles))
    return report


def _plot(one: TopicProfile, path: Path) -> None:
    from datetime import UTC, datetime

    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.4))
    axes[0].bar([part.partition for part in one.partitions], [part.records for part in one.partitions])
    axes[0].set_title("records by partition")
    keys = one.top_keys[:10]
    axes[1].barh([key[:20] for key, _ in keys], [count for _, count in keys])
    axes[1].invert_yaxis()
    axes[1].set_title("most frequent keys")
    moments = [datetime.fromtimestamp(at / 1000, UTC) for at, _ in one.per_hour]
    axes[2].step(moments, [count for _, count in one.per_hour], where="post", marker="o", markersize=3)
    axes[2].set_title("records by hour")
    axes[2].tick_params(axis="x", rotation=30)
    figure.suptitle(one.topic)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
