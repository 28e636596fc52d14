"""The built-in jobs of `ottla pipeline`: mirror, archive, replay, load, profile."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.errors import Misuse, Problem
from ottla.cli.output import print_result, show, size_text
from ottla.cli.session import Flags, Session, pairs, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master. Default: local[*].", metavar="URL")
]
OnceOption = Annotated[bool, typer.Option("--once", help="Process the data available now, then stop.")]
CheckpointOption = Annotated[
    Path | None, typer.Option(help="Checkpoint directory. Default: checkpoints/NAME.", metavar="DIR")
]
NameOption = Annotated[str | None, typer.Option(help="Job name; keep it the same between runs.")]
TopicsArgument = Annotated[list[str], typer.Argument(help="Topics.", metavar="TOPIC...")]


class Kind(StrEnum):
    """The formats of archives."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


def _client(session: Session) -> dict[str, str]:
    return dict(session.settings)


def _check(session: Session, *topics: str, create: str | None = None) -> None:
    """Check that all topics exist, and create the topic `create`."""
    from ottla.cli.errors import unknown

    with session.admin() as admin:
        there = set(admin.list_topics())
        if create is not None and create not in there:
            admin.create_topics([create]).all()
    for topic in topics:
        if topic not in there:
            raise unknown("topic", topic, there, cure="List topics with: ottla topic list")


@contextmanager
def _spark(name: str, checkpoint: str, master: str | None, **settings: str) -> Iterator[SparkSession]:
    from ottla.cli.pipeline import spark_of
    from ottla.spark.pipeline.model import Pipeline

    chosen = {one.replace("__", "."): value for one, value in settings.items()}
    spark = spark_of(
        Pipeline(name=name, checkpoint=checkpoint, sources=(), sinks=(), spark=chosen), master, None
    )
    try:
        yield spark
    finally:
        spark.stop()


def archive(
    context: typer.Context,
    topics: TopicsArgument,
    to: Annotated[str, typer.Option(help="A directory, or for iceberg namespace.table.")],
    kind: Annotated[Kind, typer.Option(help="Format of the archive.")] = Kind.PARQUET,
    catalog: Annotated[
        list[str] | None,
        typer.Option(help="A property of the Iceberg catalog; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    compact: Annotated[int, typer.Option(help="Compact small files every N batches; 0: never.")] = 20,
    every: Annotated[str, typer.Option(help="Trigger interval between batches.")] = "10 seconds",
    batch_records: Annotated[int | None, typer.Option(help="Maximum number of records per batch.")] = None,
    name: NameOption = None,
    checkpoint: CheckpointOption = None,
    once: OnceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per batch.")] = False,
    master: MasterOption = None,
) -> None:
    """Archive topics to Parquet files, a Delta table or an Iceberg table, exactly once."""
    from ottla.cli.pipeline import reporting_errors, run_pipeline

    session = session_of(context)
    with reporting_errors():
        from ottla.spark.pipeline.jobs.archive import archive_pipeline
        from ottla.spark.pipeline.model import FileTarget, IcebergTarget

        chosen = name or f"archive-{topics[0]}"
        target: FileTarget | IcebergTarget
        if kind is Kind.ICEBERG:
            target = IcebergTarget(table=to, catalog=pairs(catalog or [], "--catalog"))
        else:
            target = FileTarget(
                kind=kind, path=str(Path(to).resolve()), partition_by=("date",), compact_batches=compact
            )
        pipeline = archive_pipeline(
            chosen,
            tuple(topics),
            target,
            checkpoint=str((checkpoint or Path("checkpoints") / chosen).resolve()),
            batch_records=batch_records,
            trigger=every,
        )
        run_pipeline(session, pipeline, f"archive {chosen}", once=once, as_json=as_json, master=master)


def load(
    context: typer.Context,
    files: Annotated[str, typer.Argument(help="A directory, or a glob pattern of files.")],
    topic: Annotated[str, typer.Argument(help="Topic to write to, one record per row.")],
    schema: Annotated[str, typer.Option(help="Schema: 'id BIGINT, name STRING'.")],
    file_format: Annotated[
        str, typer.Option("--format", help="File format: csv, json, parquet, orc or text.")
    ] = "json",
    key: Annotated[str | None, typer.Option(help="Column to use as the record key.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="A format option, such as header=true; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    name: NameOption = None,
    checkpoint: CheckpointOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per batch.")] = False,
    master: MasterOption = None,
) -> None:
    """Load files into a topic as JSON, each row exactly once; rerun to load new files."""
    from ottla.cli.pipeline import reporting_errors, run_pipeline

    session = session_of(context)
    with reporting_errors():
        from ottla.spark.pipeline.jobs.archive import load_pipeline

        chosen = name or f"load-{topic}"
        pipeline = load_pipeline(
            chosen,
            str(Path(files).resolve()),
            file_format,
            topic,
            schema=schema,
            key=key,
            checkpoint=str((checkpoint or Path("checkpoints") / chosen).resolve()),
            options=pairs(option or [], "--option"),
        )
        run_pipeline(
            session, pipeline, f"load {chosen}", once=True, as_json=as_json, create_topics=True, master=master
        )


def replay(
    context: typer.Context,
    archived: Annotated[Path, typer.Argument(help="Directory of the archive.", metavar="ARCHIVE")],
    topic: Annotated[str, typer.Argument(help="Topic to write to; created if missing.")],
    kind: Annotated[Kind, typer.Option(help="Archive format: parquet or delta.")] = Kind.PARQUET,
    where: Annotated[
        str | None, typer.Option(help="SQL filter on records: \"timestamp >= '2026-01-31'\".")
    ] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Keep the original partitions.")
    ] = False,
    name: NameOption = None,
    master: MasterOption = None,
) -> None:
    """Write the records of an archive to a topic, in order and exactly once."""
    from ottla.cli.pipeline import reporting_errors

    session = session_of(context)
    if kind is Kind.ICEBERG:
        raise Misuse("Cannot replay an Iceberg table. Use --kind parquet or delta.")
    with reporting_errors():
        from ottla.spark.pipeline.jobs.archive import replay as replayed
        from ottla.spark.pipeline.session import delta_settings

        if not archived.is_dir():
            raise Problem(f"Archive {archived} does not exist. Create one with: ottla pipeline archive")
        chosen = name or f"replay-{topic}"
        _check(session, create=topic)
        settings = delta_settings() if kind is Kind.DELTA else {}
        with _spark(chosen, f"checkpoints/{chosen}", master, **settings) as spark:
            count = replayed(
                spark,
                str(archived.resolve()),
                kind,
                topic,
                client=_client(session),
                name=chosen,
                where=where,
                keep_partitions=keep_partitions,
            )
    print_result(
        session, f"Wrote {count:,} records of {archived} to {topic}.", {"topic": topic, "records": count}
    )


def mirror(
    context: typer.Context,
    topics: TopicsArgument,
    to: Annotated[str, typer.Option(help="Bootstrap servers of the target cluster.", metavar="HOST:PORT")],
    to_config: Annotated[
        str | None, typer.Option(help="Client properties file for the target cluster.", metavar="FILE")
    ] = None,
    prefix: Annotated[str, typer.Option(help="Prefix of topic names on the target cluster.")] = "",
    group: Annotated[
        list[str] | None, typer.Option(help="Translate offsets of this group only; repeatable.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between rounds.")] = 5.0,
    batch_records: Annotated[int | None, typer.Option(help="Maximum number of records per batch.")] = None,
    name: NameOption = None,
    checkpoint: CheckpointOption = None,
    once: OnceOption = False,
    master: MasterOption = None,
) -> None:
    """Copy topics to another cluster exactly once, and translate the committed offsets of groups."""
    from ottla.cli.pipeline import reporting_errors

    session = session_of(context)
    with reporting_errors():
        from ottla.spark.pipeline.jobs.mirror import Mirror, copy_round, make_topics, translate_groups
        from ottla.spark.pipeline.state import locked

        _check(session, *topics)
        chosen = name or f"mirror-{topics[0]}"
        other = Session(Flags(bootstrap_server=to, config=to_config))
        other.check_reachable()
        place = str((checkpoint or Path("checkpoints") / chosen).resolve())
        wanted = Mirror(
            name=chosen,
            topics=tuple(topics),
            source=_client(session),
            target=dict(other.settings),
            checkpoint=f"{place}/mirror",
            prefix=prefix,
            batch_records=batch_records,
        )
        from ottla.spark.pipeline.model import Pipeline

        with locked(Pipeline(name=chosen, checkpoint=place, sources=(), sinks=())):
            make_topics(wanted)
            with _spark(chosen, place, master) as spark:
                while True:
                    copied = copy_round(spark, wanted)
                    rows = translate_groups(wanted, group)
                    _tell_round(session, copied, rows)
                    if once:
                        return
                    time.sleep(every)


def _tell_round(session: Session, copied: int, rows: list[dict[str, Any]]) -> None:
    refused = {row["group"]: row["error"] for row in rows if row["error"] is not None}
    groups = len({row["group"] for row in rows} - refused.keys())
    for group, error in refused.items():
        print(f"Offsets of group {group} were not translated: {error}", file=sys.stderr)
    print_result(
        session,
        f"{copied:,} records copied, {groups} group{'s' if groups != 1 else ''} translated.",
        {"copied": copied, "offsets": rows},
    )


def profile(
    context: typer.Context,
    topics: TopicsArgument,
    schema: Annotated[
        str | None, typer.Option(help="Schema of JSON values, to count NULLs per column.")
    ] = None,
    late: Annotated[
        float,
        typer.Option(help="A record that is older than an earlier record by more seconds counts as late."),
    ] = 60.0,
    report: Annotated[
        Path | None, typer.Option(help="Write a report with plots to this directory.", metavar="DIR")
    ] = None,
    master: MasterOption = None,
) -> None:
    """Profile the data in topics: counts, sizes, key skew, missing values, late records."""
    from ottla.cli.pipeline import reporting_errors

    session = session_of(context)
    with reporting_errors():
        from ottla.spark.pipeline.jobs.profile import profile_topic, write_report

        _check(session, *topics)
        with _spark("profile", "checkpoints/profile", master) as spark:
            found = [
                profile_topic(spark, topic, client=_client(session), schema=schema, late_ms=int(late * 1000))
                for topic in topics
            ]
        file = None if report is None else _reported(write_report, found, report)
    rows = [one.as_dict() for one in found]
    show(
        session,
        rows,
        columns=[
            "topic",
            "records",
            "bytes",
            "keys",
            "top_share",
            "partition_skew",
            "null_keys",
            "null_values",
            "late",
        ],
        wide=["value_sizes", "undecodable", "fields"],
        formats={
            "bytes": size_text,
            "top_share": lambda share: f"{share:.1%}",
            "partition_skew": lambda skew: f"{skew:.2f}",
        },
    )
    if file is not None and not session.is_structured:
        print(f"Wrote {file}.")


def _reported(write: Any, found: Any, directory: Path) -> Path:
    try:
        path: Path = write(found, directory)
    except ImportError as error:
        raise Problem(f"Plots need {error.name}. Install it with `pip install matplotlib`.") from error
    return path
