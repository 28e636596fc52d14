"""Stops several nodes in an order that lets each of them hand over its leaderships.

A stopping broker needs the active controller, which needs a majority of the controllers. So brokers stop
first, in parallel; then the controllers one by one, the active one last.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from ottla.cluster.broker_requests import ask_cluster
from ottla.cluster.group import ClusterError
from ottla.cluster.process import STOP_SECONDS_MAX, NodeProcess


def stop_nodes(nodes: Iterable[NodeProcess]) -> list[str]:
    """Stop the nodes, and kill those that do not stop in time. Returns one sentence per problem."""
    running = [node for node in nodes if node.exit_code is None]
    deadline = time.monotonic() + STOP_SECONDS_MAX
    controllers = [node for node in running if node.start.config.is_controller]
    problems = _stop([node for node in running if node not in controllers], deadline)
    if len(controllers) > 1:
        _, leader = ask_cluster([node.start.local_address for node in controllers if node.is_ready])
        controllers.sort(key=lambda node: node.start.node_id == leader)
    for node in controllers:
        problems += _stop([node], deadline)
    return problems


def _stop(nodes: list[NodeProcess], deadline: float) -> list[str]:
    problems = []
    for node in nodes:
        node.ask_to_stop()
    for node in nodes:
        try:
            code = node.wait(max(deadline - time.monotonic(), 1.0))
        except ClusterError as error:
            problems.append(str(error))
        else:
            if code != 0:
                problems.append(f"Node {node.start.node_id} exited with code {code}: {node.last_words()}")
    return problems
