"""Records that a decision builds as bytes, without message objects, which would cost time."""

from __future__ import annotations

from ottla.coordinator.result import Record


class EncodedRecord(Record):
    """A record in the form that the log has: `encode` returns the bytes as they are.

    A subclass has `key`, `value` and `version` as properties, for code that needs messages.
    """

    __slots__ = ("key_bytes", "value_bytes")

    # A frozen dataclass sets attributes by a Python method, which costs more than all the rest.
    __setattr__ = object.__setattr__

    key_bytes: bytes
    value_bytes: bytes | None
