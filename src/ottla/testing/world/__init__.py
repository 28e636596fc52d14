"""A whole cluster in a simulated world: see `ottla.testing.world.world`, and `disk` for disks alone."""

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
