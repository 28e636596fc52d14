"""What a consumer has fetched as Arrow record batches, `consumer.arrow()`; needs pyarrow.

The rule: no Python object for each record. The kernel copies fetched bytes into the buffers of a record
batch; nothing is deserialized, and interceptors are not called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.records.arrow import Collector

if TYPE_CHECKING:
    from ottla.client.consumer.record_source import RecordSource


def take_batch(source: RecordSource[Any, Any], rows_max: int) -> Any:
    """What was fetched, up to `rows_max` rows, as an Arrow record batch; None: nothing is here."""
    collector = Collector()
    return collector.finish() if source.gather(collector, rows_max) else None
