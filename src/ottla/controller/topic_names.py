"""The rules for names of topics.

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
    """Whether the topic is one of the cluster's own."""
    return name in INTERNAL_TOPICS


def validate_topic_name(name: str) -> None:
    """Raise InvalidTopicException unless a topic may have this name."""
    reason = why_invalid(name)
    if reason is not None:
        raise InvalidTopicException(f"Topic name is invalid: {reason}")


def why_invalid(name: str) -> str | None:
    """What is wrong with a topic's name, in Kafka's words; None if nothing is."""
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
    """What colliding names have in common; None for a name that cannot collide."""
    if "." in name:
        return name.replace(".", "_")
    return name if "_" in name else None
