"""Free ports for nodes that are killed and started again.

A port that the system picks for a listener lies among those that it also gives to outgoing connections, so
a client could hold it when the node comes back. These lie below that range.
"""

from __future__ import annotations

import random
import socket

_FIRST, _LAST = 15_000, 32_000
_TRIES = 1000


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, each another one; OSError if there are not enough."""
    found: set[int] = set()
    for _ in range(_TRIES):
        if len(found) == count:
            return list(found)
        port = random.randrange(_FIRST, _LAST)
        if _can_be_bound(port):
            found.add(port)
    raise OSError(f"There are no {count} free ports from {_FIRST} to {_LAST} on 127.0.0.1.")


def _can_be_bound(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
