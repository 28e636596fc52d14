"""`ottla start`: runs one or more nodes on this machine, and prints how to connect once they are ready.

One node is the same as `ottla serve`, several are the same as `ottla cluster up`: same data, same code.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.errors import Misuse, Problem

if TYPE_CHECKING:
    from ottla.cluster.layout import Layout
    from ottla.server.node import Node

app = typer.Typer(no_args_is_help=False)

PORT = 9092
_HOST = "localhost"


@app.command()
def start(
    nodes: Annotated[
        int | None,
        typer.Option("-n", "--nodes", metavar="NUMBER", min=1, help="Number of nodes. Default: 1."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "-d",
            "--data",
            metavar="DIR",
            help="Data directory. Default: data, or cluster with several nodes.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="PORT",
            min=0,
            max=65535,
            help=f"Port of the first node. Default: {PORT}; 0 picks a free port.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="NAME=VALUE", help="A setting for all nodes; repeatable."),
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Show the log of the node.")] = False,
) -> None:
    """Start a node, or a cluster with --nodes 3, and show how to connect. Press Ctrl-C to stop.

    Restarts the data in the directory; formats a new directory.
    """
    from ottla.cluster.group import ClusterError
    from ottla.cluster.layout import is_layout

    directory = data or Path("data" if (nodes or 1) == 1 else "cluster")
    try:
        if (nodes or 1) > 1 or is_layout(directory):
            _start_cluster(directory, nodes, port, override or [])
            return
        code = _start_node(directory, port, override or [], verbose)
    except ClusterError as error:
        raise Problem(str(error)) from error
    if code:
        raise typer.Exit(code)


# One node


def _start_node(directory: Path, port: int | None, override: list[str], verbose: bool) -> int:
    import os

    from ottla.config import ConfigError, development_config
    from ottla.operations.configuration import parse_overrides
    from ottla.server.node import run

    wanted = PORT if port is None else port
    _check_port(wanted)
    try:
        config = development_config(
            data_directory=str(directory),
            port=wanted,
            overrides=parse_overrides(override),
            environment=os.environ,
            base_directory=os.getcwd(),
        )
    except ConfigError as error:
        raise Problem(str(error)) from error
    except ValueError as error:
        raise Misuse(str(error)) from error
    if not verbose:
        logging.disable(logging.INFO)
    try:
        return run(config, on_started=lambda node: _tell_node(node, directory))
    finally:
        logging.disable(logging.NOTSET)


def _check_port(port: int) -> None:
    """Fail if a port is in use, before creating anything."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise Problem(
                f"Cannot bind port {port} ({error.strerror}). Stop the process that uses it, or choose "
                "another with --port; --port 0 picks a free one."
            ) from error


def _tell_node(node: Node, directory: Path) -> None:
    address = f"{_HOST}:{node.port}"
    print_instructions(f"Node started with data in {directory.resolve()}", address)


# Several


def _start_cluster(directory: Path, nodes: int | None, port: int | None, override: list[str]) -> None:
    from ottla.cluster.layout import format_layout
    from ottla.cluster.supervisor import Supervisor, stops_on_signals

    layout = _layout(directory, nodes, port, override)
    supervisor = Supervisor(
        layout.group, lambda line: typer.echo(line, err=True), lambda: format_layout(layout)
    )
    typer.echo(f"Starting {len(layout.nodes)} nodes ...", err=True)
    with stops_on_signals(supervisor.request_stop):
        supervisor.run(
            lambda cluster_id: print_instructions(
                f"{len(layout.nodes)} nodes started with logs and data in {directory.resolve()}",
                layout.bootstrap_servers,
            )
        )


def _layout(directory: Path, nodes: int | None, port: int | None, override: list[str]) -> Layout:
    from ottla.cluster.group import ClusterError
    from ottla.cluster.layout import Plan, is_layout, read_layout, write_layout
    from ottla.operations.configuration import parse_overrides

    if is_layout(directory):
        layout = read_layout(directory)
        there = len(layout.nodes)
        if (nodes is not None and nodes != there) or port is not None or override:
            raise ClusterError(
                f"{directory} contains a cluster of {there} nodes. Start it without --nodes, --port and "
                "--override, or choose another directory with --data."
            )
        return layout
    if (directory / "meta.properties").exists():
        raise ClusterError(
            f"{directory} contains the data of a single node. Choose another directory with --data."
        )
    try:
        overrides = parse_overrides(override)
    except ValueError as error:
        raise Misuse(str(error)) from error
    plan = Plan(nodes=nodes or 3, port=PORT if port is None else port, overrides=overrides)
    return write_layout(directory, plan)


# Output


def print_instructions(what: str, servers: str) -> None:
    """Print what was started, where clients connect, and first commands to try."""
    first = servers.partition(",")[0]
    lines = [f"{what}.", "", f"  Clients connect to  {servers}", ""]
    if first != f"{_HOST}:{PORT}":
        lines += ["  In another terminal:", f"    export OTTLA_BOOTSTRAP_SERVERS={first}"]
    else:
        lines += ["  In another terminal:"]
    lines += [
        "    ottla topic create hello",
        "    ottla record produce hello world",
        "    ottla record consume hello",
        "    ottla doctor",
        "",
        "Press Ctrl-C to stop.",
    ]
    typer.echo("\n".join(lines))
