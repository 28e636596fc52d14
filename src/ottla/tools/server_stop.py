"""`kafka-server-stop.sh [--process-role=ROLE] [--node-id=ID]`: stops the Ottla nodes of this machine.

Like Kafka's script, it sends a signal (SIGNAL in the environment, by default TERM) and does not wait. It
stops only Ottla's nodes. It rejects arguments that it does not understand, since ignoring one could stop more
nodes than intended.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.tools.entry_point import finish
from ottla.tools.node_processes import NodeProcess, node_processes, send_signal
from ottla.version import __version__

_NONE = "No kafka server to stop"
_BOTH = "When both node-id and process-role are provided, the value for node-id will take precedence"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return finish(lambda: _work(sys.argv[1:] if arguments is None else arguments))


def _parser() -> OptionParser:
    parser = OptionParser("kafka-server-stop", "Stops the nodes that run on this machine.")
    parser.value("process-role", shown_as="roles", text="Only nodes with these process.roles.")
    parser.value("node-id", shown_as="number", convert=int, text="Only the node with this id.")
    return parser


def _work(arguments: Sequence[str]) -> int:
    parser = _parser()
    options = parser.parse(arguments) if arguments else Options(parser)
    if options.has("version"):
        print(__version__)
        return 0
    if options.rest:
        raise UsageError(f"{options.rest[0]} is not recognized. Nothing was stopped.")
    number = _signal(os.environ.get("SIGNAL") or "TERM")
    node_id: int | None = options.value("node-id")
    roles: str | None = options.value("process-role")
    if node_id is not None and roles is not None:
        print(_BOTH)
        roles = None
    nodes = node_processes()
    if nodes and (node_id is not None or roles is not None):
        nodes = [node for node in nodes if _is_meant(node, node_id, roles)]
    stopped = [node for node in nodes if send_signal(node, number)]
    if not stopped:
        print(_NONE)
        return 1
    return 0


def _signal(name: str) -> signal.Signals:
    try:
        if name.isdecimal():
            return signal.Signals(int(name))
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise Failure(f"Unknown signal {name}. Set SIGNAL to a signal such as TERM.") from None


def _is_meant(node: NodeProcess, node_id: int | None, roles: str | None) -> bool:
    from ottla.config import ConfigError

    try:
        config = node.configuration()
    except (OSError, ValueError, ConfigError) as error:
        print(f"Skipped process {node.pid}: cannot read its configuration: {error}", file=sys.stderr)
        return False
    if node_id is not None:
        return config.node_id == node_id
    has = {"broker": config.is_broker, "controller": config.is_controller}
    return {role.strip() for role in (roles or "").split(",")} == {role for role in has if has[role]}


if __name__ == "__main__":
    sys.exit(main())
