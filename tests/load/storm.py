"""`python -m tests.load.storm PORT PER_SECOND COUNT`: opens connections, asks one question on each.

A process of its own, so that its work is not in the times that others measure. Prints how many were answered
and how many were not.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from struct import pack

from ottla.wire.frame import request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest

_HELLO = request_frame(ApiVersionsRequest(), 0, 1, "storm")
_AT_ONCE_MAX = 500
_RESET = pack("ii", 1, 0)


async def blow(port: int, per_second: int, count: int) -> tuple[int, int]:
    """Start so many a second, whatever becomes of those before; the number answered, and not."""
    answered = refused = 0
    room = asyncio.Semaphore(_AT_ONCE_MAX)

    async def once() -> None:
        nonlocal answered, refused
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(_HELLO)
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                answered += 1
            finally:
                # With a reset: else the port stays taken for a minute, and there are fewer than 30,000.
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
        except (OSError, asyncio.IncompleteReadError):
            refused += 1
        finally:
            room.release()

    tasks: set[asyncio.Task[None]] = set()
    began = time.monotonic()
    for number in range(count):
        late = began + number / per_second - time.monotonic()
        if late > 0:
            await asyncio.sleep(late)
        await room.acquire()
        task = asyncio.create_task(once())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    return answered, refused


if __name__ == "__main__":
    print(*asyncio.run(blow(*map(int, sys.argv[1:4]))))
