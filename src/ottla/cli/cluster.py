"""`ottla cluster`: several nodes on this machine, each a process, under one supervisor."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ottla.cluster.layout import ClusterError, Layout, Plan, is_layout, read_layout, write_layout

app = typer.Typer(help="Run a cluster of several nodes on this machine.", no_args_is_help=True)

NODES = 3
PORT = 9092

DataOption = Annotated[Path, typer.Option("--data", help="Directory of the cluster.", metavar="DIR")]
_DATA = Path("cluster")


@app.command("up")
def up(
    nodes: Annotated[
        int | None, typer.Option(help=f"How many nodes a new cluster has; {NODES} if not given.")
    ] = None,
    controllers: Annotated[
        int | None, typer.Option(help="How many of them, the first ones, are controllers too; 3 or 1.")
    ] = None,
    data: DataOption = _DATA,
    port: Annotated[
        int | None,
        typer.Option(
            help=f"Port of node 1; the other ports are the next ones. {PORT} if not given, 0 takes free ones."
        ),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option(help="Set one setting of all nodes of a new cluster: NAME=VALUE.")
    ] = None,
) -> None:
    """Run a cluster until Ctrl-C or ottla cluster down: make it, or start the one that is in DIR again."""
    from ottla.cluster.supervisor import Supervisor

    with _told():
        layout = _layout(data, nodes, controllers, port, override or [])
        supervisor = Supervisor(layout, lambda line: typer.echo(line, err=True))
        with _stops_on_signals(supervisor.request_stop):
            supervisor.run(lambda cluster_id: _tell_up(layout, cluster_id))
    typer.echo("The cluster has stopped.")


@contextmanager
def _stops_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Have SIGTERM and Ctrl-C stop the cluster, and afterwards do what they did before."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, lambda *_: stop()) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


@app.command("down")
def down(data: DataOption = _DATA) -> None:
    """Stop the cluster that runs in DIR, and return when all its nodes have ended."""
    from ottla.cluster.supervisor import stop_supervisor

    with _told():
        read_layout(data)
        was_running = stop_supervisor(data)
    typer.echo("The cluster has stopped." if was_running else f"The cluster in {data} does not run.")


@app.command("status")
def status(
    data: DataOption = _DATA, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Show the nodes of the cluster in DIR, who leads, and whether all replicas are in sync."""
    from ottla.cluster.status import cluster_status

    with _told():
        found = cluster_status(read_layout(data))
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), indent=2))
        return
    table = Table("node", "roles", "port", "controller", "pid", "state", "restarts", "leads", box=None)
    for node in found.nodes:
        state = "running" if node.is_ready else "starting" if node.is_alive else "stopped"
        cells = (
            node.node_id,
            ", ".join(node.roles),
            node.port,
            node.controller_port,
            node.pid,
            state,
            node.restarts,
        )
        led = node.partitions_led
        table.add_row(*("-" if cell is None else str(cell) for cell in (*cells, led)))
    console = Console()
    (console if console.is_terminal else Console(width=200)).print(table)
    typer.echo()
    if found.supervisor_pid is None:
        typer.echo(f"The cluster does not run: start it with ottla cluster up --data {data}")
    elif found.partitions is None:
        typer.echo("No node answers yet.")
    else:
        led_by = f"Node {found.quorum_leader} leads" if found.quorum_leader is not None else "Nobody leads"
        typer.echo(f"{led_by} the quorum. Clients connect to {found.bootstrap_servers}")
        typer.echo(
            f"{found.partitions} partitions, {found.under_replicated_partitions} under-replicated, "
            f"{found.offline_partitions} without a leader."
        )


@contextmanager
def _told() -> Iterator[None]:
    """An error that a person can do something about is one sentence and exit code 1."""
    try:
        yield
    except ClusterError as error:
        typer.echo(error, err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        typer.echo(f"{error.filename or 'A file'} cannot be used: {error.strerror}.", err=True)
        raise typer.Exit(1) from error


def _layout(
    data: Path, nodes: int | None, controllers: int | None, port: int | None, override: list[str]
) -> Layout:
    from ottla.tools.configuration import parse_overrides

    if is_layout(data):
        layout = read_layout(data)
        _check_same(layout, nodes, controllers, port, override)
        return layout
    if (data / "meta.properties").exists():
        raise ClusterError(
            f"{data} holds the data of a node and no cluster: name another directory with --data."
        )
    try:
        overrides = parse_overrides(override)
    except ValueError as error:
        raise ClusterError(str(error)) from error
    plan = Plan(
        nodes=NODES if nodes is None else nodes,
        controllers=controllers,
        port=PORT if port is None else port,
        overrides=overrides,
    )
    layout = write_layout(data, plan)
    for node in layout.nodes.values():
        typer.echo(f"# {node.properties}\n{node.properties.read_text()}")
    return layout


def _check_same(
    layout: Layout, nodes: int | None, controllers: int | None, port: int | None, override: list[str]
) -> None:
    """What is asked for must be what is there: nodes are not added or changed in passing."""
    there = len(layout.nodes)
    if nodes not in (None, there):
        raise ClusterError(
            f"The cluster in {layout.directory} has {there} nodes, not {nodes}: leave --nodes out to start "
            "it, or make another one in another directory with --data."
        )
    voters = sum(node.config.is_controller for node in layout.nodes.values())
    if controllers not in (None, voters):
        raise ClusterError(
            f"The cluster in {layout.directory} has {voters} controllers, not {controllers}: leave "
            "--controllers out to start it, or make another one in another directory with --data."
        )
    first = next(iter(layout.nodes.values()))
    if override or (port is not None and first.address is not None and first.address[1] != port):
        raise ClusterError(
            f"--port and --override are for a new cluster, and there is one in {layout.directory}: change "
            f"{first.properties} and those of the other nodes."
        )


def _tell_up(layout: Layout, cluster_id: str) -> None:
    typer.echo(f"Cluster {cluster_id} is up: {len(layout.nodes)} nodes.")
    typer.echo(f"Each has its server.properties, node.log and data in {layout.directory}/node-<id>.")
    typer.echo(f"Clients connect to {layout.bootstrap_servers}")
    typer.echo("Ctrl-C, or ottla cluster down in another terminal, stops it.")
