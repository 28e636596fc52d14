"""Runs the garbage collector of a node's process in short collections.

A full collection visits every object, and a node with thousands of partitions has a hundred thousand that
live forever. Rules: objects that survive a collection are frozen (`gc.freeze`), so that each collection
visits only new ones. A burst of new objects is frozen without a collection. Since frozen objects can become
garbage too, a full collection runs every `FULL_INTERVAL_S`, in a quiet second if there is one within
`PATIENCE_S`.
"""

from __future__ import annotations

import gc

from ottla.ports import Clock

FEW_OBJECTS = 3_000
COLLECTED_MAX = 10_000
"""Collecting this many objects takes some milliseconds, and 20 on a busy machine."""

FULL_INTERVAL_S = 3600.0
PATIENCE_S = 3600.0


class GarbageCollector:
    """Call `collect` regularly, and `freeze` when there are very many live new objects."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full_s = clock.monotonic()

    def freeze(self) -> None:
        """Freeze the objects created while the collector was off: it would visit them all next."""
        if gc.get_count()[0] > FEW_OBJECTS:
            gc.freeze()

    def collect(self, *, is_quiet: bool) -> None:
        """Collect the new objects, or all if a full collection is due."""
        if not gc.isenabled():
            return  # a long request keeps many objects for a moment
        waited_s = self._clock.monotonic() - self._full_s
        if waited_s >= FULL_INTERVAL_S + (0 if is_quiet else PATIENCE_S):
            self._full_s += waited_s
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            return
        count = len(gc.get_objects())
        if count > COLLECTED_MAX:
            gc.freeze()
        elif count > FEW_OBJECTS:
            gc.collect()
            gc.freeze()
