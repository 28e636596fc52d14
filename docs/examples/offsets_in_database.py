"""Offsets stored with the results, in one transaction of a database: each record counts once.

Counts words. The database knows how far each partition has been counted, so nothing is committed to Kafka;
after a crash counts and offsets are those of the last transaction. The same code runs on SQLite and on
PostgreSQL (psycopg). Run it with `python offsets_in_database.py localhost:9092 lines words.db`.
"""

from __future__ import annotations

import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import ottla

TABLES = (
    "CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY, count BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS progress"
    " (topic TEXT, part INT, next_offset BIGINT NOT NULL, PRIMARY KEY (topic, part))",
)


class Store:
    """Counts and progress. `mark` is how the database's driver writes a parameter."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection = connection
        self._mark = mark
        for table in TABLES:
            self._run(table)
        connection.commit()

    def begin(self, partition: ottla.TopicPartition) -> int:
        """The offset to continue from."""
        self._run("INSERT INTO progress VALUES (?, ?, 0) ON CONFLICT DO NOTHING", *partition)
        found = self._run("SELECT next_offset FROM progress WHERE topic = ? AND part = ?", *partition)
        (next_offset,) = found.fetchone()
        self._connection.commit()
        return int(next_offset)

    def add(self, words: Counter[str], steps: dict[ottla.TopicPartition, tuple[int, int]]) -> None:
        """Counts, and for each partition the step from one offset to the next, at once or not at all."""
        upsert = "INSERT INTO words VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET count = words.count + ?"
        move = "UPDATE progress SET next_offset = ? WHERE topic = ? AND part = ? AND next_offset = ?"
        try:
            for partition, (before, after) in sorted(steps.items()):
                if self._run(move, after, *partition, before).rowcount != 1:
                    raise RuntimeError(f"another member of the group has gone on with {partition}")
            for word, count in sorted(words.items()):
                self._run(upsert, word, count, count)
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise

    def counts(self) -> dict[str, int]:
        found = self._run("SELECT word, count FROM words").fetchall()
        self._connection.commit()
        return dict(found)

    def _run(self, statement: str, *parameters: Any) -> Any:
        cursor = self._connection.cursor()
        cursor.execute(statement.replace("?", self._mark), parameters)
        return cursor


def count_words(bootstrap_servers: str, topic: str, store: Store, *, group: str = "words") -> Iterator[int]:
    """Count the words of a topic. Yields the number of records of each transaction."""
    counted: dict[ottla.TopicPartition, int] = {}

    def go_on(partitions: Iterable[ottla.TopicPartition]) -> None:
        for partition in partitions:
            counted[partition] = store.begin(partition)
            consumer.seek(partition, counted[partition])

    with ottla.Consumer[bytes, str](
        bootstrap_servers,
        group_id=group,
        value_deserializer="string",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe([topic], on_assigned=go_on)
        while True:
            records = consumer.poll(timeout=1.0)
            words = Counter(word for record in records for word in (record.value or "").split())
            ends = {ottla.TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
            if ends:
                store.add(words, {partition: (counted[partition], end) for partition, end in ends.items()})
                counted.update(ends)
                yield len(records)


if __name__ == "__main__":
    database = sqlite3.connect(sys.argv[3])
    for count in count_words(sys.argv[1], sys.argv[2], Store(database, "?")):
        print(f"{count} records")
