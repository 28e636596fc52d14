"""Free ports for nodes that are killed and restarted.

A port that the system picks for a listener is in the ephemeral range, so an outgoing connection could occupy
it when the node restarts. These ports are below that range.
"""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 15_000, 32_000
_TRIES = 1000


def free_ports(count: int) -> list[int]:
    """Distinct unused ports of 127.0.0.1; OSError if there are not enough."""
    found: set[int] = set()
    for _ in range(_TRIES):
        if len(found) == count:
            return list(found)
        port = random.randrange(_FIRST, _LAST)
        if _can_be_bound(port):
            found.add(port)
    raise OSError(f"Found fewer than {count} free ports from {_FIRST} to {_LAST} on 127.0.0.1.")


def _can_be_bound(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
