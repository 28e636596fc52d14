"""The checkpoint directory of a pipeline: its lock, its status, and the reset of a sink.

    CHECKPOINT/ottla.lock       locked by the process that runs the pipeline on this machine
    CHECKPOINT/status.json      the progress it last reported
    CHECKPOINT/SINK/            Spark's checkpoint of each sink

Rule: a process holds the lock while it changes a checkpoint.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.spark.pipeline.graph import LETTER_SINK, dead_letter_streams
from ottla.spark.pipeline.model import Pipeline, Sink, TopicTarget
from ottla.spark.pipeline.progress import Progress
from ottla.spark.pipeline.run import checkpoint_of, table_of, transactional_id_of

_LOCK = "ottla.lock"
_STATUS = "status.json"


class PipelineRuns(RuntimeError):
    """Another process runs the pipeline."""


class PipelineElsewhere(RuntimeError):
    """The checkpoint is not on this machine and cannot be changed from here."""


def local_directory(pipeline: Pipeline) -> Path | None:
    """The path of the checkpoint on this machine; None if it is elsewhere."""
    text = pipeline.checkpoint
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    return None if "://" in text else Path(text)


@contextmanager
def locked(pipeline: Pipeline) -> Iterator[None]:
    """Hold the lock, which keeps other processes of this machine from running the pipeline."""
    directory = local_directory(pipeline)
    if directory is None:
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / _LOCK, "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            who = lock.read().strip() or "another process"
            raise PipelineRuns(
                f"The pipeline {pipeline.name} is already running ({who}). Stop it first, or use another "
                "checkpoint."
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        yield


def is_running(pipeline: Pipeline) -> bool:
    directory = local_directory(pipeline)
    if directory is None or not (directory / _LOCK).exists():
        return False
    try:
        with locked(pipeline):
            return False
    except PipelineRuns:
        return True


def write_status(pipeline: Pipeline, progress: list[Progress]) -> None:
    """Write the progress that `ottla pipeline status` shows."""
    directory = local_directory(pipeline)
    if directory is None:
        return
    document = {
        "pipeline": pipeline.name,
        "at_ms": int(time.time() * 1000),
        "sinks": [one.as_dict() for one in progress],
    }
    new = directory / f"{_STATUS}.new"
    new.write_text(json.dumps(document))
    new.replace(directory / _STATUS)


def status(pipeline: Pipeline) -> dict[str, Any]:
    """The process that runs the pipeline, and each sink's last committed batch and last progress."""
    directory = local_directory(pipeline)
    last_status: dict[str, Any] = {}
    if directory is not None and (directory / _STATUS).exists():
        last_status = json.loads((directory / _STATUS).read_text())
    runs = is_running(pipeline)
    by_name = {one["sink"]: one for one in last_status.get("sinks", [])}
    sinks = []
    for name in sink_names(pipeline):
        last = by_name.get(name, {})
        committed = _last_committed(Path(checkpoint_of(pipeline, name))) if directory is not None else None
        state = last.get("state", "never ran") if committed is None or runs or last else "stopped"
        if not runs and state in ("running", "starting", "restarting"):
            state = "stopped"
        sinks.append({**last, "sink": name, "state": state, "committed_batch": committed})
    return {
        "pipeline": pipeline.name,
        "running": runs,
        "shown_at_ms": last_status.get("at_ms"),
        "sinks": sinks,
    }


def sink_names(pipeline: Pipeline) -> list[str]:
    """The names of all queries: the sinks, and the dead letters if the pipeline has any."""
    letters = [LETTER_SINK] if dead_letter_streams(pipeline) else []
    return [*(sink.name for sink in pipeline.sinks), *letters]


def is_topic(sink: Sink) -> bool:
    return isinstance(sink.target, TopicTarget)


def _last_committed(checkpoint: Path) -> int | None:
    """The last batch in Spark's commit log."""
    commits = checkpoint / "commits"
    if not commits.is_dir():
        return None
    numbers = [int(one.name) for one in commits.iterdir() if one.name.isdecimal()]
    return max(numbers, default=None)


def reset(pipeline: Pipeline, names: list[str], client: dict[str, object]) -> list[str]:
    """Delete the progress of sinks, so that they start over. Their output stays. Returns a report in lines.

    It also releases their markers: a table or topic with rows of the old checkpoint receives them again.
    """
    done = []
    if local_directory(pipeline) is None:
        raise PipelineElsewhere(
            f"The checkpoint {pipeline.checkpoint} is not on this machine. Delete it there, and start the "
            "pipeline under another name: tables and topics have recorded the current name."
        )
    with locked(pipeline):
        for sink in pipeline.sinks:
            table = table_of(pipeline, sink)
            if sink.name in names and table is not None:
                table.forget()
        ids = {sink.name: transactional_id_of(pipeline, sink) for sink in pipeline.sinks if is_topic(sink)}
        ids[LETTER_SINK] = f"{pipeline.name}.{LETTER_SINK}"
        for name in names:
            if name in ids:
                _forget_marker(f"ottla-spark.{ids[name]}", client)
            checkpoint = Path(checkpoint_of(pipeline, name))
            if checkpoint.is_dir():
                shutil.rmtree(checkpoint)
            done.append(name)
        directory = local_directory(pipeline)
        if directory is not None:
            (directory / _STATUS).unlink(missing_ok=True)
    return done


def _forget_marker(group: str, client: dict[str, object]) -> None:
    from ottla.client.admin import Admin
    from ottla.wire.errors import GroupIdNotFound

    with Admin(client) as admin:
        error = admin.delete_groups([group]).failed.get(group)
    if error is not None and not isinstance(error, GroupIdNotFound):
        raise error
