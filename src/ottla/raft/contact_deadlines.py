"""The deadlines by which a replica must hear from others, on an event loop that can run late.

After a stall, the timer of such a deadline fires late, and what the others sent meanwhile is still unread in
the sockets: they were not silent. So a deadline whose timer fires late is extended by that delay, and the
loop reads first. The extensions of one deadline add up to at most a fetch timeout, so that a replica whose
loop is always late still detects a failure. The time in which a follower works on records of its leader is
no silence of the leader.
"""

from __future__ import annotations

from ottla.raft.roles import Follower, Leader, Resigned, Role

LATE_MS = 2
"""A timer that fires so much after its time is late; less than that is the resolution of timers."""
GRACE_MS = 50
"""The smallest extension: a few turns of the loop, which read the sockets."""


def deadline_of(role: Role) -> int | None:
    """When others have been silent for too long; None if the role waits for nobody."""
    if isinstance(role, Leader):
        return role.check_quorum_ms
    return None if isinstance(role, Resigned) else role.deadline_ms


def _set_deadline(role: Role, deadline_ms: int) -> None:
    if isinstance(role, Leader):
        role.check_quorum_ms = deadline_ms
    else:
        role.deadline_ms = deadline_ms


class DeadlineExtensions:
    """Extends the deadlines of one replica. Times are milliseconds of a monotonic clock."""

    def __init__(self, extension_ms_max: int) -> None:
        self._extension_ms_max = extension_ms_max
        self._extended_to_ms = -1
        self._extended_ms = 0

    def extend(self, role: Role, due_ms: int, now_ms: int) -> None:
        """A timer that was due at `due_ms` fires now: extend the deadline of the role if that is late."""
        deadline_ms = deadline_of(role)
        late_ms = now_ms - due_ms
        if deadline_ms is None or deadline_ms > now_ms or late_ms < LATE_MS:
            return
        if deadline_ms != self._extended_to_ms:
            self._extended_ms = 0  # this is another deadline
        extension_ms = min(max(late_ms, GRACE_MS), self._extension_ms_max - self._extended_ms)
        if extension_ms > 0:
            self._extended_ms += extension_ms
            self._extended_to_ms = now_ms + extension_ms
            _set_deadline(role, self._extended_to_ms)


class FollowerWork:
    """Work of a follower on records of its leader, which extends the leader's deadline when it ends."""

    def __init__(self, role: Role, now_ms: int) -> None:
        self._role = role
        self._deadline_ms = deadline_of(role)
        self._began_ms = now_ms

    def end(self, role: Role, now_ms: int) -> None:
        """Extend the deadline, unless the role or the deadline has changed since."""
        if role is self._role and isinstance(role, Follower) and role.deadline_ms == self._deadline_ms:
            role.deadline_ms += now_ms - self._began_ms
