"""Delivers the records of producers that a program did not close, and warns of lost ones.

The interpreter ends in steps, and each allows less than the one before:
1. `threading._shutdown` calls its hooks, then joins non-daemon threads. Producers flush here: host names can
   still be resolved, which asyncio does in threads. A forked child of `multiprocessing` ends after this step,
   without the next. The producer stays open, since other threads may still send.
2. `atexit` calls its functions. Here each producer is closed, and undelivered records are logged.
3. Daemon threads stop, and with them the producers' loops. `background.py` has stopped them by then.

Both steps are bounded by `delivery.timeout.ms`, by `SECONDS_MAX`, and by Ctrl-C. A signal that kills the
process and `os._exit` skip both.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - its own hook must be registered, and so run, before ours
import contextlib
import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.client.net import background  # it stops the loops after ours has run, as it registers first

if TYPE_CHECKING:
    from ottla.client.producer.engine import Engine

log = logging.getLogger(__name__)

SECONDS_MAX = 120.0
"""The maximum wait for brokers at exit, however long `delivery.timeout.ms` is."""
ABORT_SECONDS_MAX = 5.0
"""The maximum wait for the abort of a transaction, which the coordinator otherwise aborts itself."""


class Exiting(Protocol):
    """A producer that is called when the program ends."""

    def flush_at_exit(self) -> None: ...

    def close_at_exit(self) -> None: ...


_open: weakref.WeakSet[Exiting] = weakref.WeakSet()
_watched: weakref.WeakSet[Engine] = weakref.WeakSet()
_is_interrupted = False


def register(producer: Exiting) -> None:
    """Call a producer when the program ends, unless it is closed before."""
    _open.add(producer)


def forget(producer: Exiting) -> None:
    """The producer is closed."""
    _open.discard(producer)


def seconds_left(delivery_timeout_ms: int) -> float:
    """How long an exit may wait for deliveries: not at all after Ctrl-C."""
    return 0.0 if _is_interrupted else min(delivery_timeout_ms / 1000, SECONDS_MAX)


def watch(engine: Engine) -> None:
    """Log the records that an engine on the user's own loop loses: it cannot deliver once that ended."""
    engine.is_watched = True
    _watched.add(engine)


def _each(end: Callable[[Exiting], None]) -> None:
    global _is_interrupted
    for producer in background.members(_open):
        try:
            end(producer)
        except KeyboardInterrupt:
            _is_interrupted = True
        except Exception:
            log.exception("Failed to close a producer at exit.")


def _flush_all() -> None:
    _each(lambda producer: producer.flush_at_exit())


def _close_all() -> None:
    _each(lambda producer: producer.close_at_exit())
    if _is_interrupted:
        _each(lambda producer: producer.close_at_exit())
    for engine in background.members(_watched):
        engine.warn_of_loss()


_register_hook = getattr(threading, "_register_atexit", None)
if _register_hook is not None:
    with contextlib.suppress(RuntimeError):  # the first import is at exit
        _register_hook(_flush_all)
atexit.register(_close_all)
