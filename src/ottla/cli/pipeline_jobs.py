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
from ottla.cli.output import show, size_text, tell
from ottla.cli.session import Flags, Session, pairs, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark's master; local[*] if not given.", metavar="URL")
]
OnceOption = Annotated[bool, typer.Option("--once", help="Do what is there now, and end.")]
CheckpointOption = Annotated[
    Path | None, typer.Option(help="Where progress is kept; checkpoints/NAME if not given.", metavar="DIR")
]
NameOption = Annotated[str | None, typer.Option(help="The name of the job, which must stay the same.")]
TopicsArgument = Annotated[list[str], typer.Argument(help="Topics.", metavar="TOPIC...")]


class Kind(StrEnum):
    """Where archives are kept."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


def _client(session: Session) -> dict[str, str]:
    return dict(session.settings)


def _check(session: Session, *topics: str, create: str | None = None) -> None:
    """All topics are there, or `create` is made."""
    from ottla.cli.errors import unknown

    with session.admin() as admin:
        there = set(admin.list_topics())
        if create is not None and create not in there:
            admin.create_topics([create]).all()
    for topic in topics:
        if topic not in there:
            raise unknown("topic", topic, there, cure="ottla topic list shows the topics.")


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
    kind: Annotated[Kind, typer.Option(help="What is written.")] = Kind.PARQUET,
    catalog: Annotated[
        list[str] | None, typer.Option(help="A property of the Iceberg catalog.", metavar="NAME=VALUE")
    ] = None,
    compact: Annotated[int, typer.Option(help="Join small files every so many batches; 0: never.")] = 20,
    every: Annotated[str, typer.Option(help="How long batches are apart.")] = "10 seconds",
    batch_records: Annotated[int | None, typer.Option(help="Records of a batch at most.")] = None,
    name: NameOption = None,
    checkpoint: CheckpointOption = None,
    once: OnceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each batch.")] = False,
    master: MasterOption = None,
) -> None:
    """Keep all records of topics in Parquet files, a Delta or an Iceberg table, each once."""
    from ottla.cli.pipeline import run_pipeline, told

    session = session_of(context)
    with told():
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
    files: Annotated[str, typer.Argument(help="A directory, or a pattern of files.")],
    topic: Annotated[str, typer.Argument(help="The topic that gets a record for each row.")],
    schema: Annotated[str, typer.Option(help="The columns: 'id BIGINT, name STRING'.")],
    file_format: Annotated[str, typer.Option("--format", help="csv, json, parquet, orc or text.")] = "json",
    key: Annotated[str | None, typer.Option(help="The column that is the key.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the format, such as header=true.", metavar="NAME=VALUE"),
    ] = None,
    name: NameOption = None,
    checkpoint: CheckpointOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON for each batch.")] = False,
    master: MasterOption = None,
) -> None:
    """Load files into a topic, each row once as JSON; run it again for files that have come meanwhile."""
    from ottla.cli.pipeline import run_pipeline, told

    session = session_of(context)
    with told():
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
    archived: Annotated[Path, typer.Argument(help="The directory of an archive.", metavar="ARCHIVE")],
    topic: Annotated[str, typer.Argument(help="The topic that gets the records; made if it is not there.")],
    kind: Annotated[Kind, typer.Option(help="parquet or delta.")] = Kind.PARQUET,
    where: Annotated[
        str | None, typer.Option(help="Only these records, in SQL: \"timestamp >= '2026-01-31'\".")
    ] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Records go to the partitions they came from.")
    ] = False,
    name: NameOption = None,
    master: MasterOption = None,
) -> None:
    """Put the records of an archive into a topic, each once and in their order."""
    from ottla.cli.pipeline import told

    session = session_of(context)
    if kind is Kind.ICEBERG:
        raise Misuse("An Iceberg table is read with its own tools: replay takes --kind parquet or delta.")
    with told():
        from ottla.spark.pipeline.jobs.archive import replay as replayed
        from ottla.spark.pipeline.session import delta_settings

        if not archived.is_dir():
            raise Problem(f"There is no archive {archived}. ottla pipeline archive makes one.")
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
    tell(session, f"{count:,} records of {archived} are in {topic}.", {"topic": topic, "records": count})


def mirror(
    context: typer.Context,
    topics: TopicsArgument,
    to: Annotated[str, typer.Option(help="Bootstrap servers of the other cluster.", metavar="HOST:PORT")],
    to_config: Annotated[
        str | None, typer.Option(help="Client properties for the other cluster.", metavar="FILE")
    ] = None,
    prefix: Annotated[str, typer.Option(help="Stands before the names of topics there.")] = "",
    group: Annotated[
        list[str] | None, typer.Option(help="Translate this group only; may be given again.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two rounds.")] = 5.0,
    batch_records: Annotated[int | None, typer.Option(help="Records of a batch at most.")] = None,
    name: NameOption = None,
    checkpoint: CheckpointOption = None,
    once: OnceOption = False,
    master: MasterOption = None,
) -> None:
    """Copy topics to another cluster, each record once, and give groups there the place they have here."""
    from ottla.cli.pipeline import told

    session = session_of(context)
    with told():
        from ottla.spark.pipeline.jobs.mirror import Mirror, copy_round, make_topics, translate_groups
        from ottla.spark.pipeline.state import held

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

        with held(Pipeline(name=chosen, checkpoint=place, sources=(), sinks=())):
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
        print(f"The group {group} keeps its place there: {error}", file=sys.stderr)
    tell(
        session,
        f"{copied:,} records copied, {groups} group{'s' if groups != 1 else ''} translated.",
        {"copied": copied, "offsets": rows},
    )


def profile(
    context: typer.Context,
    topics: TopicsArgument,
    schema: Annotated[str | None, typer.Option(help="Columns of JSON values, to count what is NULL.")] = None,
    late: Annotated[float, typer.Option(help="Seconds behind an earlier record that are late.")] = 60.0,
    report: Annotated[
        Path | None, typer.Option(help="Write a report with plots into this directory.", metavar="DIR")
    ] = None,
    master: MasterOption = None,
) -> None:
    """Describe what is in topics: counts, sizes, keys and their skew, what is missing, what comes late."""
    from ottla.cli.pipeline import told

    session = session_of(context)
    with told():
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
        print(f"The report is in {file}.")


def _reported(write: Any, found: Any, directory: Path) -> Path:
    try:
        path: Path = write(found, directory)
    except ImportError as error:
        raise Problem(f"Plots need {error.name}: `pip install matplotlib`.") from error
    return path
