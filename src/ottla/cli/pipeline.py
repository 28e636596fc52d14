"""`ottla pipeline`: validates, runs and monitors data pipelines; see ottla.spark.pipeline for the
implementation."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli import pipeline_jobs
from ottla.cli.errors import Misuse, Problem, near_names
from ottla.cli.output import duration_text, is_terminal, print_result, show, size_text, time_text
from ottla.cli.session import Session, session_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.spark.pipeline.build import Builder
    from ottla.spark.pipeline.model import Pipeline
    from ottla.spark.pipeline.progress import Progress

app = typer.Typer(help="Run data pipelines on Spark.", no_args_is_help=True)

FileArgument = Annotated[Path, typer.Argument(help="The pipeline, a YAML file.", metavar="FILE")]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master. Default: local[*].", metavar="URL")
]
RemoteOption = Annotated[
    str | None, typer.Option("--remote", help="Spark Connect server, such as sc://host:15002.", metavar="URL")
]


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Report errors that the user can fix; each error of a file gets its own line."""
    from ottla.spark import SparkMissing

    try:
        from ottla.spark.pipeline.faults import PipelineError
    except ImportError as error:
        raise Problem(
            f"Pipelines need {error.name}. Install it with `pip install 'ottla[spark]'`."
        ) from error
    try:
        yield
    except PipelineError as error:
        for line in str(error).splitlines():
            print(line, file=sys.stderr)
        count = len(error.faults)
        raise Problem(
            f"{error.file} has {count} error{'s' if count > 1 else ''}; nothing was started."
        ) from error
    except SparkMissing as error:
        raise Problem(str(error)) from error
    except (RuntimeError, ValueError) as error:
        known = ("ottla.spark.", "ottla.client.")
        if type(error).__module__.startswith(known):
            raise Problem(" ".join(str(error).split())) from error
        raise


def load(file: Path) -> Pipeline:
    from ottla.spark.pipeline.parse import load as parsed

    return parsed(file, os.environ)


def builder_of(session: Session, spark: SparkSession, pipeline: Pipeline, file: str) -> Builder:
    from ottla.spark.pipeline.build import Builder
    from ottla.spark.pipeline.session import client_properties

    servers, properties = client_properties(session.settings)
    if pipeline.bootstrap_servers is not None and session.flags.bootstrap_server is None:
        servers = pipeline.bootstrap_servers
    return Builder(spark, pipeline, file=file, servers=servers, properties=properties)


def cluster_session(session: Session, pipeline: Pipeline) -> Session:
    """The session with the cluster of the file, unless the command line names one."""
    from dataclasses import replace

    if pipeline.bootstrap_servers is None or session.flags.bootstrap_server is not None:
        return session
    return Session(replace(session.flags, bootstrap_server=pipeline.bootstrap_servers))


def check_topics(session: Session, pipeline: Pipeline, file: str, *, create: bool = False) -> None:
    """Report missing topics; with `create`, create those that the pipeline writes to."""
    from ottla.spark.pipeline.check import topic_faults
    from ottla.spark.pipeline.faults import PipelineError

    with cluster_session(session, pipeline).admin() as admin:
        existing = set(admin.list_topics())
        missing = sorted({topic for topic, _ in pipeline.topics_written()} - existing)
        if create and missing:
            admin.create_topics(list(missing)).all()
            existing |= set(missing)
    faults = topic_faults(pipeline, existing)
    if faults:
        raise PipelineError(faults, file)


def spark_of(pipeline: Pipeline, master: str | None, remote: str | None) -> SparkSession:
    from ottla.spark.pipeline.session import open_session
    from ottla.spark.pipeline.state import local_directory

    if master is not None and remote is not None:
        raise Misuse(
            "--master and --remote are mutually exclusive: --master starts Spark, --remote connects to a "
            "server."
        )
    directory = local_directory(pipeline)
    log_file = None if directory is None else directory / "spark.log"
    return open_session(pipeline, master=master, remote=remote, log_file=log_file)


@app.command("validate")
def validate(
    context: typer.Context,
    file: FileArgument,
    offline: Annotated[bool, typer.Option("--offline", help="Do not check topics on the cluster.")] = False,
    no_spark: Annotated[
        bool, typer.Option("--no-spark", help="Skip the checks that need Spark: SQL and columns.")
    ] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
) -> None:
    """Validate a pipeline without running it: syntax, topics, SQL and columns."""
    session = session_of(context)
    with reporting_errors():
        pipeline = load(file)
        if not offline:
            check_topics(session, pipeline, str(file))
        if not no_spark:
            from ottla.spark.pipeline.check import checked_outputs

            spark = spark_of(pipeline, master, remote)
            try:
                checked_outputs(spark, builder_of(session, spark, pipeline, str(file)), str(file))
            finally:
                spark.stop()
    left = [name for name, was in (("topics", offline), ("SQL and columns", no_spark)) if was]
    but = f" ({' and '.join(left)} not checked)" if left else ""
    print_result(session, f"{file} is valid{but}.", {"file": str(file), "valid": True, "unchecked": left})


@app.command("run")
def run(
    context: typer.Context,
    file: FileArgument,
    once: Annotated[bool, typer.Option("--once", help="Process the data available now, then stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per batch.")] = False,
    create_topics: Annotated[
        bool, typer.Option("--create-topics", help="Create missing topics that the pipeline writes to.")
    ] = False,
    master: MasterOption = None,
    remote: RemoteOption = None,
) -> None:
    """Run a pipeline until Ctrl-C. It resumes from its checkpoint, even after a crash."""
    session = session_of(context)
    with reporting_errors():
        run_pipeline(
            session,
            load(file),
            str(file),
            once=once,
            as_json=as_json,
            create_topics=create_topics,
            master=master,
            remote=remote,
        )


def run_pipeline(
    session: Session,
    pipeline: Pipeline,
    file: str,
    *,
    once: bool,
    as_json: bool,
    create_topics: bool = False,
    master: str | None = None,
    remote: str | None = None,
) -> None:
    """Validate and start a pipeline, show its progress, and stop it on a signal."""
    from ottla.spark.pipeline import state
    from ottla.spark.pipeline.check import checked_outputs
    from ottla.spark.pipeline.run import Runner

    with state.locked(pipeline):
        check_topics(session, pipeline, file, create=create_topics)
        spark = spark_of(pipeline, master, remote)
        try:
            builder = builder_of(session, spark, pipeline, file)
            outputs = checked_outputs(spark, builder, file)
            screen = _Screen(as_json or session.is_structured)
            runner = Runner(pipeline, builder, outputs, once=once, report=screen.report)

            def each_round() -> None:
                state.write_status(pipeline, runner.progress)
                screen.draw(runner.progress)

            with _stops(runner.stop), screen:
                try:
                    runner.run(each_round)
                finally:
                    each_round()
        finally:
            spark.stop()


@contextmanager
def _stops(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops the pipeline; the second one ends the process."""

    def handler(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, handler) for number in signals]
    try:
        yield
    finally:
        for number, was in zip(signals, before, strict=True):
            signal.signal(number, was)


class _Screen:
    """A live table on a terminal, a line per batch in a pipe, or JSON lines."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._live: Any = None
        if not as_json and is_terminal():
            from rich.live import Live

            self._live = Live(refresh_per_second=4)

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def report(self, progress: Progress) -> None:
        if self._as_json:
            print(json.dumps(progress.as_dict()), flush=True)
        elif self._live is None:
            print(_line(progress), flush=True)

    def draw(self, shown: list[Progress]) -> None:
        if self._live is None:
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in _HEADERS:
            table.add_column(name, justify="left" if name in ("SINK", "STATE") else "right")
        for one in shown:
            style = {"failed": "red", "restarting": "yellow", "done": "green"}.get(one.state, "")
            table.add_row(*(Text(text, style=style) for text in _cells(one)))
            if one.error:
                table.add_row(Text(f"  {one.error}", style="red"))
        self._live.update(table)


_HEADERS = (
    *("SINK", "STATE", "BATCH", "ROWS", "INPUT/S", "PROCESSED/S", "LAG", "BATCH TIME", "STATE ROWS"),
    *("STATE SIZE", "RESTARTS"),
)


def _cells(one: Progress) -> list[str]:
    return [
        one.sink,
        one.state,
        "-" if one.batch is None else str(one.batch),
        f"{one.rows_total:,}",
        f"{one.input_rate:,.0f}",
        f"{one.processed_rate:,.0f}",
        "-" if one.lag is None else f"{one.lag:,}",
        "-" if one.batch_ms is None else duration_text(one.batch_ms / 1000),
        f"{one.state_rows:,}",
        size_text(one.state_bytes),
        str(one.restarts),
    ]


def _line(one: Progress) -> str:
    if one.batch is None or one.state != "running":
        return f"{one.sink}: {one.state}" + (f": {one.error}" if one.error else "")
    lag = "-" if one.lag is None else f"{one.lag}"
    return (
        f"{one.sink}: batch {one.batch}, {one.rows} rows in {one.batch_ms} ms, "
        f"{one.processed_rate:.0f} rows/s, lag {lag}, state {one.state_rows} rows"
    )


@app.command("plan")
def plan(
    context: typer.Context,
    file: FileArgument,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write the graph to this SVG file.", metavar="FILE")
    ] = None,
) -> None:
    """Show the graph of a pipeline as text, and with --svg as a picture. Starts nothing."""
    from ottla.spark.pipeline.graph import as_text, nodes

    session = session_of(context)
    with reporting_errors():
        pipeline = load(file)
        if svg is not None:
            from ottla.spark.pipeline.graph_svg import svg as drawn

            svg.write_text(drawn(pipeline))
    if session.is_structured:
        rows = [
            {"name": one.title, "kind": one.kind, "reads": list(one.inputs), "about": list(one.lines)}
            for one in nodes(pipeline)
        ]
        show(session, rows)
        return
    print(as_text(pipeline))
    if svg is not None:
        print(f"Wrote {svg}.")


@app.command("status")
def status(context: typer.Context, file: FileArgument) -> None:
    """Show whether a pipeline is running, and the progress of each sink. Does not need Spark."""
    from ottla.spark.pipeline import state

    session = session_of(context)
    with reporting_errors():
        found = state.status(load(file))
    if session.is_structured:
        show(session, found)
        return
    runs = "runs" if found["running"] else "is not running"
    seen = f"; last seen {time_text(found['shown_at_ms'])}" if found["shown_at_ms"] else ""
    show(
        session,
        found["sinks"],
        columns=["sink", "state", "committed_batch", "rows_total", "processed_rate", "lag", "restarts"],
        wide=["batch_ms", "state_rows", "state_bytes", "late_rows", "error"],
        title=f"The pipeline {found['pipeline']} {runs}{seen}.",
        formats={"processed_rate": lambda rate: "-" if rate is None else f"{rate:.0f}"},
    )


@app.command("reset")
def reset(
    context: typer.Context,
    file: FileArgument,
    sink: Annotated[list[str] | None, typer.Option(help="Only this sink; repeatable.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete the checkpoints of a pipeline, so that it starts over. Written data is kept."""
    from ottla.spark.pipeline import state

    session = session_of(context)
    with reporting_errors():
        pipeline = load(file)
        known = state.sink_names(pipeline)
        names = sink or known
        for name in names:
            if name not in known:
                raise Misuse(f"Unknown sink {name}. {near_names(name, known) or ', '.join(known)}")
        if not yes:
            typer.confirm(
                f"{', '.join(names)} will reprocess everything and write it again. Continue?",
                abort=True,
            )
        client = cluster_session(session, pipeline).client_config("admin")
        # Only Spark can change Delta's log.
        is_delta = any(one.name in names and one.target.kind == "delta" for one in pipeline.sinks)
        spark = spark_of(pipeline, None, None) if is_delta else None
        try:
            done = state.reset(pipeline, names, client)
        finally:
            if spark is not None:
                spark.stop()
    print_result(
        session, f"Reset: {', '.join(done)}. The next run starts from the beginning.", {"reset": done}
    )


for _job in (
    pipeline_jobs.mirror,
    pipeline_jobs.archive,
    pipeline_jobs.replay,
    pipeline_jobs.load,
    pipeline_jobs.profile,
):
    app.command(_job.__name__)(_job)
