"""`ottla quorum`: shows the leader, voters and observers of the metadata log, and their lag."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import typer

from ottla.cli.output import Cell, Styled, duration_text, show
from ottla.cli.session import session_of

if TYPE_CHECKING:
    from ottla.client.admin.nodes import QuorumDescription, QuorumReplica

app = typer.Typer(help="Show the controller quorum and its lag.", no_args_is_help=True)


@app.command("status")
def status(context: typer.Context) -> None:
    """Show the quorum leader, its epoch, and the lag of the followers."""
    session = session_of(context)
    with session.admin() as admin:
        cluster = admin.describe_cluster()
        quorum = admin.describe_metadata_quorum()
    rows = replica_rows(quorum)
    voters = [row for row in rows if row["role"] != "observer"]
    fact = {
        "cluster_id": cluster.cluster_id,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "max_lag": max((row["lag"] for row in rows), default=0),
        "max_lag_seconds": max((row["lag_seconds"] or 0 for row in voters), default=0),
        "voters": [one.id for one in quorum.voters],
        "observers": [one.id for one in quorum.observers],
        "endpoints": {
            str(node): [f"{one.listener}://{one.host}:{one.port}" for one in endpoints]
            for node, endpoints in sorted(quorum.endpoints.items())
        },
    }
    fields = [key for key in fact if key != "endpoints"]
    formats = {"max_lag_seconds": duration_text, "leader_id": _leader_cell}
    show(session, fact, columns=fields, wide=["endpoints"], formats=formats)


def _leader_cell(leader: int) -> Cell:
    return str(leader) if leader >= 0 else Styled("none", "bold red")


@app.command("replicas")
def replicas(context: typer.Context) -> None:
    """Show every replica of the metadata log."""
    session = session_of(context)
    with session.admin() as admin:
        rows = replica_rows(admin.describe_metadata_quorum())
    show(
        session,
        rows,
        columns=["node", "role", "log_end_offset", "lag", "last_fetch_seconds", "lag_seconds"],
        wide=["directory_id"],
        formats={"last_fetch_seconds": _ago, "lag_seconds": duration_text},
    )


def replica_rows(quorum: QuorumDescription) -> list[dict[str, Any]]:
    """A row for the leader, each other voter, and each observer."""
    leader = next((one for one in quorum.voters if one.id == quorum.leader_id), None)
    end = leader.log_end_offset if leader is not None else quorum.high_watermark
    now_ms = time.time() * 1000
    roles = [("leader" if one is leader else "voter", one) for one in quorum.voters]
    roles += [("observer", one) for one in quorum.observers]
    return [_row(role, one, end, now_ms) for role, one in sorted(roles, key=lambda pair: _ORDER[pair[0]])]


_ORDER = {"leader": 0, "voter": 1, "observer": 2}


def _row(role: str, one: QuorumReplica, end: int, now_ms: float) -> dict[str, Any]:
    leads = role == "leader"
    return {
        "node": one.id,
        "role": role,
        "directory_id": one.directory_id,
        "log_end_offset": one.log_end_offset,
        "lag": max(end - one.log_end_offset, 0),
        "last_fetch_seconds": None if leads else _seconds_since(one.last_fetch_timestamp, now_ms),
        "lag_seconds": 0.0 if leads else _seconds_since(one.last_caught_up_timestamp, now_ms),
    }


def _seconds_since(timestamp_ms: int | None, now_ms: float) -> float | None:
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    return round(max(now_ms - timestamp_ms, 0) / 1000, 1)


def _ago(seconds: float | None) -> str:
    return "-" if seconds is None else f"{duration_text(seconds)} ago"
