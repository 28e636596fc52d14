"""What a Python process of Spark is told once, since it does one task after the other.

Spark collects all garbage after each task, and so goes through every object of every module each time; and
the C library gives the memory of large buffers back to the system when they are freed, and pays for its pages
again when the next ones are filled. Rule: nothing is changed in processes that Spark does not use again.
"""

from __future__ import annotations

import gc
import os

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, by the header of glibc
_BYTES_KEPT = 64 << 20
_LARGE_BYTES = 16 << 20

_is_settled = False


def settle() -> None:
    """Leave what is imported out of later collections, and keep up to 64 MiB of freed memory."""
    global _is_settled
    if _is_settled or "SPARK_REUSE_WORKER" not in os.environ:
        return
    _is_settled = True
    _keep_memory()
    gc.collect()
    gc.freeze()


def _keep_memory() -> None:
    """Only glibc can be told so. Other C libraries do as they do: that is slower, and nothing else."""
    import ctypes

    try:
        told = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    told(_TRIM_THRESHOLD, _BYTES_KEPT)
    told(_MMAP_THRESHOLD, _LARGE_BYTES)
