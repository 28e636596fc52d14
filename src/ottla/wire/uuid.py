"""Ids of 16 bytes, and Kafka's text form of them: base64 for URLs without padding.

On the wire and in messages a uuid is `bytes` of length 16; the text is for people and files.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

ZERO = bytes(16)
"""No id."""
ONE = bytes(15) + b"\x01"
"""Reserved: the topic id of the metadata log, `__cluster_metadata`."""

METADATA_TOPIC_ID = ONE

DIRECTORY_MIGRATING = ZERO
"""The replica is in a log directory whose id the controller does not know yet."""
DIRECTORY_UNASSIGNED = ONE
"""The replica has no log directory yet."""
DIRECTORY_LOST = bytes(15) + b"\x02"
"""The replica is in an offline directory."""

_RESERVED_BELOW = 100  # Kafka reserves the first hundred ids; a random one is never among them.


def to_text(identifier: bytes) -> str:
    """The 22 characters that Kafka prints."""
    return base64.urlsafe_b64encode(identifier)[:22].decode("ascii")


def from_text(text: str) -> bytes:
    """Parse the output of `to_text`; raises ValueError if it is invalid."""
    if len(text) > 24:
        raise ValueError(f"The id {text[:24]}... is too long: a UUID has 22 characters of base64.")
    try:
        if "+" in text or "/" in text:
            raise ValueError("a character of standard base64")
        identifier = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"The id {text} is not URL-safe base64.") from error
    if len(identifier) != 16:
        raise ValueError(f"The id {text} has {len(identifier)} bytes; a UUID has 16.")
    return identifier


def random(random_bytes: Callable[[int], bytes]) -> bytes:
    """A new version 4 id that is not reserved and whose text does not start with a dash."""
    while True:
        drawn = bytearray(random_bytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        identifier = bytes(drawn)
        if not is_reserved(identifier) and not to_text(identifier).startswith("-"):
            return identifier


def is_reserved(identifier: bytes) -> bool:
    """Whether Kafka reserves this id."""
    return int.from_bytes(identifier, "big") < _RESERVED_BELOW
