"""`python -m tests.load.sweep.node DIRECTORY FILE`: a node that measures the turns of its event loop.

A turn is everything that the loop does between two looks at its sockets. Its length is the processor time of
the loop's thread: a busy machine makes a turn longer for others, but does not make it take more work. FILE is
shared memory: see `Turns`.
"""

from __future__ import annotations

import asyncio
import gc
import mmap
import signal
import sys
import time
from asyncio import base_events, events
from pathlib import Path
from struct import Struct
from typing import Any

LONG_TURN_MS = 50
_LAYOUT = Struct("=ddqqqq")


class Turns:
    """What a node measured, in memory that it shares with whoever started it.

    Since the last reset: the longest turn, all turns, how many were longer than `LONG_TURN_MS`, how many
    there were. And the node's ports.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_LAYOUT.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _LAYOUT.size)

    def read(self) -> tuple[float, float, int, int, int, int]:
        """(longest_s, total_s, long_count, turns, port, controller port)."""
        return _LAYOUT.unpack_from(self._memory)

    def write(
        self, longest_s: float, total_s: float, long_count: int, turns: int, port: int, controller_port: int
    ) -> None:
        _LAYOUT.pack_into(self._memory, 0, longest_s, total_s, long_count, turns, port, controller_port)

    def reset(self) -> None:
        _, _, _, _, port, controller_port = self.read()
        self.write(0.0, 0.0, 0, 0, port, controller_port)

    def add(self, seconds: float) -> None:
        longest_s, total_s, long_count, turns, port, controller_port = self.read()
        is_long = seconds * 1000 > LONG_TURN_MS
        self.write(
            max(longest_s, seconds), total_s + seconds, long_count + is_long, turns + 1, port, controller_port
        )


def measure(turns: Turns) -> None:
    """Have every event loop of this process report its turns, and name what made a long one."""
    run_once: Any = base_events.BaseEventLoop._run_once  # type: ignore[attr-defined]
    run_handle: Any = events.Handle._run
    slowest: list[Any] = [0.0, ""]
    collected: list[float] = [
        0.0,
        0.0,
    ]  # when one began, how long those of a turn took

    def on_collection(phase: str, _facts: dict[str, int]) -> None:
        if phase == "start":
            collected[0] = time.thread_time()
        else:
            collected[1] += time.thread_time() - collected[0]

    gc.callbacks.append(on_collection)

    def measured_handle(handle: Any) -> None:
        begun = time.thread_time()
        shown = str(handle._callback)
        run_handle(handle)
        taken = time.thread_time() - begun
        if taken > slowest[0]:
            slowest[:] = [taken, shown]

    def measured_turn(loop: Any) -> None:
        begun = time.thread_time()
        slowest[0] = collected[1] = 0.0
        run_once(loop)
        taken = time.thread_time() - begun
        turns.add(taken)
        if taken * 1000 > LONG_TURN_MS:
            print(
                f"{taken * 1000:.0f} ms, of which {slowest[0] * 1000:.0f} ms in {slowest[1]}, and "
                f"{collected[1] * 1000:.0f} ms for the collection of garbage",
                flush=True,
            )

    base_events.BaseEventLoop._run_once = measured_turn  # type: ignore[attr-defined]
    events.Handle._run = measured_handle  # type: ignore[method-assign, assignment]


async def _serve(directory: str, turns: Turns) -> None:
    from ottla.server.node import COLLECTION_THRESHOLDS
    from ottla.testing.broker import make_node

    gc.set_threshold(*COLLECTION_THRESHOLDS)
    settings = {
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        "log.retention.check.interval.ms": "3600000",
        "log.segment.delete.delay.ms": "1000",
    }
    node = make_node(directory, 0, settings, owns_process=True)
    await node.start()
    ports = {listener.name: listener.port for listener in node.listeners}
    turns.write(0.0, 0.0, 0, 0, ports["PLAINTEXT"], ports["CONTROLLER"])
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await node.stop()


def main() -> None:
    turns = Turns(Path(sys.argv[2]))
    measure(turns)
    asyncio.run(_serve(sys.argv[1], turns))


if __name__ == "__main__":
    main()
