"""What the verifiable producer and consumer print: events as lines of JSON, each with its time and name."""

from __future__ import annotations

import json
import threading

from ottla.tools.measuring import now_ms

_lock = threading.Lock()


def tell(name: str, **facts: object) -> None:
    """Print an event; whole lines, whichever thread tells."""
    text = json.dumps(
        {"timestamp": now_ms(), "name": name, **facts}, separators=(",", ":"), ensure_ascii=False
    )
    with _lock:
        print(text, flush=True)


def place(partition: tuple[str, int]) -> dict[str, object]:
    return {"topic": partition[0], "partition": partition[1]}
