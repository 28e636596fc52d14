"""A simulated world with a whole cluster: see `ottla.testing.world.world`, and `disk` for disks alone.

process.py, loop.py  an asyncio loop on virtual time. Within a process `call_soon` is first in, first out,
                     as asyncio promises; the seed orders everything else: processes, timers of one
                     instant, connections. Threads, sockets and signals are refused.
network.py           with streams.py and transport.py: delays, splits at any byte, back-pressure, cuts of
                     one direction, half-open connections to a host without power, resets, bytes of an old
                     connection that arrive after those of the new one
storage.py, disk.py  the content that programs see, and the content that survives. A journal holds unsynced
                     changes; a power loss keeps any legal subset: writes torn at 512 bytes, names in two
                     models ("posix" and "journaled"). EIO, ENOSPC, a failing fsync that drops its pages,
                     several file systems without order between them, bit flips, slow calls, a crash within
                     the n-th change. Both work without a world; `crash_states(disk.storage)` enumerates
                     the states after a power loss.
clock.py, random.py  a clock per process that jumps and drifts; a stream of random numbers per part, so that
                     the draws of one part do not change those of another
nodes.py, world.py   nodes and clients, faults by method, `timeline`, `trace_hash`, `unhandled` (exceptions
                     that nobody caught) and `logged` (errors in the log)
nemesis.py           named faults, chosen by the seed and all healed at the end
request_tap.py       shows requests as they arrive, so that a fault can hit a certain step
rare_paths.py        decides which rare paths of production code (`ottla.rare_paths`) this world takes
timeline_svg.py      draws the timeline as SVG
"""

from ottla.testing.world.loop import Crashed, Deadlock, Livelock, Refused, Unhandled, WorldError
from ottla.testing.world.nodes import SimulatedClient, SimulatedNode
from ottla.testing.world.process import Process, ProcessDied
from ottla.testing.world.world import Event, TookTooLong, World

__all__ = [
    "Crashed",
    "Deadlock",
    "Event",
    "Livelock",
    "Process",
    "ProcessDied",
    "Refused",
    "SimulatedClient",
    "SimulatedNode",
    "TookTooLong",
    "Unhandled",
    "World",
    "WorldError",
]
