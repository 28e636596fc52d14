"""The agents' side of the line protocol: a JSON object in, a JSON object out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

CLIENT_ID = "txn"
ATTEMPTS = 8
# (records as (partition, value), offset of the source's partition 0 to commit, whether to commit)
TRANSACTIONS: tuple[tuple[tuple[tuple[int, str], ...], int, bool], ...] = (
    (((0, "a0"), (1, "a1"), (0, "a2")), 5, True),
    (((0, "b0"), (1, "b1")), 9, False),
    (((1, "c0"), (0, "c1")), 7, True),
)


def serve(operations: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Answer commands until the input ends."""
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = operations[command["op"]](command)
        except Exception as error:  # noqa: BLE001 (the test judges it)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
