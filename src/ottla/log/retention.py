"""Decides which of its oldest segments a log deletes.

Segments expire from the oldest on, up to the first that the rule keeps. A segment with records at or above
the high watermark never expires, nor does an empty active one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.log.segment import Segment
from ottla.log.segments import Segments


class Rule(NamedTuple):
    """A reason for deleting segments. `is_expired` is called once for each segment, from the oldest on."""

    is_expired: Callable[[Segment, Segment | None], bool]
    """Called with a segment and the one that follows it"""
    reason: str
    """For the log line"""


def below_log_start(log_start_offset: int) -> Rule:
    return Rule(
        lambda _segment, following: following is not None and following.base_offset <= log_start_offset,
        "its records are below the log start offset",
    )


def above_size(retention_bytes: int, size_bytes: int) -> Rule:
    """`size_bytes` is the size of the log. A negative limit keeps everything."""
    surplus = size_bytes - retention_bytes if retention_bytes >= 0 else -1

    def is_surplus(segment: Segment, _following: Segment | None) -> bool:
        nonlocal surplus
        if surplus < segment.size_bytes:
            return False
        surplus -= segment.size_bytes
        return True

    return Rule(is_surplus, f"the log is larger than retention.bytes {retention_bytes}")


def above_age(retention_ms: int, now_ms: int) -> Rule:
    """A negative limit keeps everything."""
    return Rule(
        lambda segment, _following: 0 <= retention_ms < now_ms - segment.largest_timestamp,
        f"its records are older than retention.ms {retention_ms}",
    )


def expired_segments(
    segments: Segments, rule: Rule, high_watermark: int, log_end_offset: int
) -> list[Segment]:
    """The segments that the rule deletes."""
    expired: list[Segment] = []
    for segment in segments:
        following = segments.after(segment)
        upper_bound = following.base_offset if following is not None else log_end_offset
        if following is None and not segment.size_bytes:
            break
        if high_watermark < upper_bound or not rule.is_expired(segment, following):
            break
        expired.append(segment)
    return expired
