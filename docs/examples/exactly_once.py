"""Consume, transform, produce, exactly once: results and the offsets they come from are one transaction.

If the program dies, or an exception leaves the transaction, nothing of it is seen by readers with
`isolation.level=read_committed`, and the next run begins where the last committed transaction ended.
Run it with `python exactly_once.py localhost:9092 orders totals`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import ottla


def transform(
    bootstrap_servers: str,
    source: str,
    target: str,
    change: Callable[[bytes], bytes],
    *,
    name: str = "totals",
) -> Iterator[int]:
    """Write `change(value)` of each record to another topic. Yields the size of each transaction."""
    consumer = ottla.Consumer[bytes, bytes](
        bootstrap_servers,
        group_id=name,
        topics=[source],
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    # One name for each instance that runs at the same time: a new one takes over from an old one of its name.
    producer = ottla.Producer(bootstrap_servers, transactional_id=f"{name}-1")
    with consumer, producer:
        while True:
            records = consumer.poll(timeout=1.0)
            if not records:
                continue
            with producer.transaction():
                for record in records:
                    producer.send(target, change(record.value), key=record.key)
                producer.send_offsets(consumer)
            yield len(records)


if __name__ == "__main__":
    servers, source_topic, target_topic = sys.argv[1:4]
    for count in transform(servers, source_topic, target_topic, bytes.upper):
        print(f"{count} records")
