"""The marker of a table: the last batch it has, and the decision to write, skip or refuse the next.

Spark repeats only the last batch. Rule: a batch that the marker includes is skipped, the next one is written,
and any other (an older one, or one of another checkpoint, whose numbers mean other rows) is refused before
anything is written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

RELEASED = ""  # no query's checkpoint: accepts any next one


class TableError(RuntimeError):
    """A table cannot accept a batch; the message says why and what to do."""


class CheckpointChanged(TableError):
    """The table was written from another checkpoint, or from a later state of this one."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The last batch of a table, with its query (by name) and checkpoint (by Spark's id)."""

    query: str
    checkpoint: str
    batch: int

    def to_text(self) -> str:
        return json.dumps({"query": self.query, "checkpoint": self.checkpoint, "batch": self.batch})

    @classmethod
    def from_text(cls, text: str) -> Marker:
        found = json.loads(text)
        return cls(str(found["query"]), str(found["checkpoint"]), int(found["batch"]))


def is_done(found: Marker | None, arriving: Marker, table: str) -> bool:
    """Whether the table has this batch already; raises CheckpointChanged if it cannot know."""
    if found is None:
        return False
    if found.query != arriving.query:
        raise TableError(
            f"{table} is written by the query {found.query!r}, not {arriving.query!r}. Use a separate "
            "table for each query."
        )
    if found.checkpoint == RELEASED:
        return False
    if found.checkpoint != arriving.checkpoint:
        raise CheckpointChanged(
            f"{table} has batches up to {found.batch} of another checkpoint of {found.query!r}, but a new "
            "checkpoint restarts the numbering of batches. Continue with the old checkpoint, or make the "
            "table accept the new one with forget() (`ottla pipeline reset` does this)."
        )
    if arriving.batch < found.batch:
        raise CheckpointChanged(
            f"{table} has batch {found.batch} of {found.query!r} but received batch {arriving.batch}: the "
            "checkpoint is older than the table. Restore the matching checkpoint, or use forget()."
        )
    return arriving.batch == found.batch
