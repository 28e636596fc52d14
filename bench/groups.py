"""The generators of the group rows: commits over raw connections, and groups with many members."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.generators import GeneratorFailed, Outcome, Target, connection_load, outcome_of, run_program
from bench.members import find_coordinator
from bench.plain_client import CLIENT_ID
from ottla.wire.frame import SIZE_BYTES, read_response, request_frame
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

ROOT = Path(__file__).resolve().parents[1]
COMMIT_VERSION = 9  # the last one with topic names instead of ids
COMMIT_CONNECTIONS = 20
COMMIT_RATE = 5_000
GROUPS = 5
"""The number of groups per load, one after the other: each is short, and varies randomly."""


def commits(target: Target) -> Outcome:
    """On each connection a non-member commits at full speed. Commits per second."""
    find_coordinator(target.port, target.topic, target.timeout_s)
    figures = connection_load(target, commit_frame(target.topic, target.topic), COMMIT_CONNECTIONS)
    check_commits(figures)
    return outcome_of(figures)


def paced_commits(target: Target) -> Outcome:
    """The same at a constant rate; the 99th percentile in milliseconds."""
    find_coordinator(target.port, target.topic, target.timeout_s)
    frame = commit_frame(target.topic, target.topic)
    figures = connection_load(target, frame, COMMIT_CONNECTIONS, COMMIT_RATE)
    check_commits(figures)
    outcome = outcome_of(figures)
    return Outcome(outcome.details["p99_ms"], {**outcome.details, "requests_per_s": outcome.value})


def commit_frame(group: str, topic: str) -> bytes:
    """A commit for one partition by a non-member."""
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=42)
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return request_frame(request, COMMIT_VERSION, 1, CLIENT_ID)


def check_commits(figures: Mapping[str, Any]) -> None:
    """Every commit must have succeeded: the first did, and the others got the same response."""
    frame = bytes.fromhex(figures["first"])[SIZE_BYTES:]
    response: OffsetCommitResponse
    _, response = read_response(frame, OffsetCommitRequest.API_KEY or 0, COMMIT_VERSION)
    errors = {partition.error_code for topic in response.topics for partition in topic.partitions}
    if errors != {0} or figures["different"]:
        raise GeneratorFailed(
            f"Of {figures['requests']} commits {figures['different']} got another answer than the first, "
            f"which had the errors {sorted(errors)}."
        )


def members(protocol: str, figure: str, rebalances: int = 0) -> Callable[[Target], Outcome]:
    """A load with a group of as many members as the target has records; `figure` is the row's figure."""

    def load(target: Target) -> Outcome:
        command = [
            *(sys.executable, "-m", "bench.members", protocol),
            *("--port", str(target.port), "--topic", target.topic, "--partitions", str(target.partitions)),
            *("--members", str(target.records), "--groups", str(GROUPS), "--rebalances", str(rebalances)),
            *("--timeout", str(target.timeout_s)),
        ]
        figures = json.loads(run_program(command, target.timeout_s, environment=_environment()))
        return Outcome(figures[figure], figures)

    return load


def assignor_holds(timeout_s: int) -> Outcome:
    """The longest time that an assignor holds the loop, in milliseconds of CPU time."""
    command = [sys.executable, "-m", "bench.hold"]
    figures = json.loads(run_program(command, timeout_s, environment=_environment()))
    return Outcome(figures["cpu_ms"], figures)


def _environment() -> dict[str, str]:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
