"""The rules for topic names.

Names that differ only in '.' and '_' collide: Kafka's metrics write both as '_'.
"""

from __future__ import annotations

import re

from ottla.wire.errors import InvalidTopicException

METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))
NAME_LENGTH_MAX = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    """Whether the topic is internal."""
    return name in INTERNAL_TOPICS


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicException if the name is invalid."""
    reason = why_invalid(name)
    if reason is not None:
        raise InvalidTopicException(f"Topic name is invalid: {reason}")


def why_invalid(name: str) -> str | None:
    """The fault of a topic name, in Kafka's words; None if it is valid."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str | None:
    """The same key for colliding names; None for a name that cannot collide."""
    if "." in name:
        return name.replace(".", "_")
    return name if "_" in name else None
