"""Tunes a Python worker of Spark, which runs many tasks.

Spark collects all garbage after each task, which visits every object of every module each time; and the C
library returns the memory of large buffers to the system when they are freed, then pays for its pages again.
Rule: a process that Spark does not reuse stays as it is.
"""

from __future__ import annotations

import gc
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt parameters, from glibc's header
_BYTES_KEPT = 64 << 20
_LARGE_BYTES = 16 << 20

_is_tuned = False


def tune() -> None:
    """Exclude imported modules from later collections, and keep up to 64 MiB of freed memory."""
    global _is_tuned
    if _is_tuned or "SPARK_REUSE_WORKER" not in os.environ:
        return
    _is_tuned = True
    _keep_memory()
    gc.collect()
    gc.freeze()


def _keep_memory() -> None:
    """Only glibc has mallopt. With another C library tasks are slower, but still work."""
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(_TRIM_THRESHOLD, _BYTES_KEPT)
    mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
