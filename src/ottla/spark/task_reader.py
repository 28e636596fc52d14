"""The source's work in Spark tasks: fetch the records of ranges and yield Arrow record batches.

Spark runs one task after the other in a Python worker, and the worker's consumer stays connected between
tasks. Rule: no Python object per record. The kernel fills the columns; this module only casts their types.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.client.consumer.consumer import Consumer
from ottla.client.consumer.ranges import Lost, read_ranges
from ottla.client.values import Range
from ottla.spark.offset_resolution import report_loss
from ottla.spark.settings import ReadSettings
from ottla.spark.worker_tuning import tune

if TYPE_CHECKING:
    from ottla.spark.filters import Filters

log = logging.getLogger("ottla.spark")

_CONSUMERS_MAX = 4
_FIXED = {"auto.offset.reset": "none", "enable.auto.commit": False, "allow.auto.create.topics": False}
_BULK = {"max.partition.fetch.bytes": 4 << 20, "fetch.max.bytes": 8 << 20, "receive.buffer.bytes": -1}
"""Defaults that suit ranges read from end to end: few large fetches, of which at most two wait, and the
largest socket buffer that the system allows."""

_consumers: dict[tuple[tuple[str, str], ...], Consumer[Any, Any]] = {}

Finish = Callable[[pa.RecordBatch], pa.RecordBatch]


def read_spans(
    settings: ReadSettings, spans: Sequence[Range], finish: Finish, filters: Filters | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of all ranges; `finish` converts a batch to the requested columns."""
    consumer = _consumer(settings)
    tune()
    try:
        for batch in read_ranges(
            consumer,
            spans,
            rows_max=settings.rows_per_batch,
            idle_seconds=settings.idle_seconds,
            on_lost=lambda lost: _lost(settings, lost),
        ):
            kept = batch if filters is None else filters.apply(batch)
            if kept.num_rows:
                yield finish(kept)
    except GeneratorExit:
        raise
    except BaseException:
        _forget(settings)  # its state is unknown; the next task creates a new one
        raise


def _lost(settings: ReadSettings, lost: Lost) -> None:
    report_loss(str(lost), fails=settings.fail_on_data_loss)


def _key(settings: ReadSettings) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(settings.client.items()))


def _consumer(settings: ReadSettings) -> Consumer[Any, Any]:
    key = _key(settings)
    found = _consumers.pop(key, None)
    if found is None:
        found = Consumer({**_BULK, **settings.client, **_FIXED})
        while len(_consumers) >= _CONSUMERS_MAX:
            _consumers.pop(next(iter(_consumers))).close()
    _consumers[key] = found
    return found


def _forget(settings: ReadSettings) -> None:
    consumer = _consumers.pop(_key(settings), None)
    if consumer is not None:
        consumer.close(timeout=1.0)
