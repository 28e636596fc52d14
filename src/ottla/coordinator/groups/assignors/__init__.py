"""The assignors: they decide which member of a consumer group gets which partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.coordinator.groups.assignors.range import RangeAssignor
from ottla.coordinator.groups.assignors.spec import (
    Assignment,
    AssignmentFailed,
    Assignor,
    GroupSpec,
    MemberAssignment,
    MemberSpec,
    Steps,
    TopicSpec,
)
from ottla.coordinator.groups.assignors.uniform import UniformAssignor

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor for assignor in (UniformAssignor(), RangeAssignor())
}

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "AssignmentFailed",
    "Assignor",
    "GroupSpec",
    "MemberAssignment",
    "MemberSpec",
    "Steps",
    "TopicSpec",
]
