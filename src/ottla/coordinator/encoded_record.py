"""Records that a decision makes as bytes, where message objects in between would only cost time."""

from __future__ import annotations

from ottla.coordinator.result import Record


class PackedRecord(Record):
    """A record in the form in which it stands in the log: `encode` hands out the bytes as they are.

    A subclass gives `key`, `value` and `version` as properties, for those who want messages.
    """

    __slots__ = ("key_bytes", "value_bytes")

    # Records are frozen by a Python method, which costs more than all the rest of making one.
    __setattr__ = object.__setattr__

    key_bytes: bytes
    value_bytes: bytes | None
