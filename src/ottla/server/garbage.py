"""When a process that is a node looks for garbage, so that no look takes long.

A full collection looks at every object, and a node with thousands of partitions has a hundred thousand of
them that stay. The rules: objects that have been looked at are set aside (`gc.freeze`), so that each look is
at what is new. A burst of new objects is set aside without a look. Since those that are set aside can become
garbage too, all are looked at once in `FULL_INTERVAL_S`, in a quiet second if there is one in `PATIENCE_S`.
"""

from __future__ import annotations

import gc

from ottla.ports import Clock

FEW_OBJECTS = 3_000
LOOKED_AT_MAX = 10_000
"""A look at so many objects takes some milliseconds, and 20 on a busy machine."""

FULL_INTERVAL_S = 3600.0
PATIENCE_S = 3600.0


class Garbage:
    """Call `look` now and then, and `set_aside` where there are very many objects that are no garbage."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._full_s = clock.monotonic()

    def set_aside(self) -> None:
        """What was made while nothing was collected would all be looked at next."""
        if gc.get_count()[0] > FEW_OBJECTS:
            gc.freeze()

    def look(self, *, is_quiet: bool) -> None:
        """Look at what is new, or at everything where that is due."""
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
        if count > LOOKED_AT_MAX:
            gc.freeze()
        elif count > FEW_OBJECTS:
            gc.collect()
            gc.freeze()
