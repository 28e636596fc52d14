"""Requests that a broker hands on to the controller: which they are, and what their way looks like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import Enum

from ottla.wire.errors import ErrorCode
from ottla.wire.message import Struct

Forward = Callable[[bytes, str, str], Awaitable[bytes]]
"""(frame without its size, principal, client's address) -> the frame of the controller's answer."""


class Forwarding(Enum):
    """Whether only the active controller can answer, so that a broker elsewhere hands the request on."""

    NONE = 0
    WHOLE = 1
    PART = 2  # the handler on the broker answers what it can, and hands on the rest


def mentions_error(message: Struct, code: ErrorCode) -> bool:
    """Whether a response has this error, for the whole or for one of its parts."""
    for name in type(message).__slots__:
        value = getattr(message, name)
        if name == "error_code":
            if value == code:
                return True
        elif isinstance(value, list) and any(
            isinstance(part, Struct) and mentions_error(part, code) for part in value
        ):
            return True
    return False
