"""Free ports for nodes that are killed and restarted.

A port that the system picks for a listener is in the ephemeral range, so an outgoing connection could occupy
it when the node restarts. These ports are below that range. Test processes that run side by side set
OTTLA_TEST_PORTS to different ranges (15000-19249), so that none takes a port whose node is down for a moment.
"""

from __future__ import annotations

import os
import random
import socket

FIRST, LAST = 15_000, 32_000
_TRIES = 1000


def free_ports(count: int) -> list[int]:
    """Distinct unused ports of 127.0.0.1; OSError if there are not enough."""
    first, last = _range()
    found: set[int] = set()
    for _ in range(_TRIES):
        if len(found) == count:
            return list(found)
        port = random.randrange(first, last)
        if _can_be_bound(port):
            found.add(port)
    raise OSError(f"Found fewer than {count} free ports from {first} to {last} on 127.0.0.1.")


def _range() -> tuple[int, int]:
    text = os.environ.get("OTTLA_TEST_PORTS")
    if not text:
        return FIRST, LAST
    first, _, last = text.partition("-")
    return int(first), int(last)


def _can_be_bound(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
