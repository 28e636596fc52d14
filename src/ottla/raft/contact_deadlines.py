"""When a replica may judge the silence of others, on an event loop that can run late.

A deadline says that others were silent for too long. After a stall its timer fires late, and what the others
sent meanwhile lies unread in the sockets: they were not silent, nobody listened. Rules: a deadline whose
timer fires late is extended by the lateness, so that the loop reads first; the extensions of one deadline do
not add up to more than a fetch timeout, so that a loop that is always late still takes part; and what a
follower does with the leader's records does not count as silence of the leader.
"""

from __future__ import annotations

from ottla.raft.roles import Follower, Leader, Resigned, Role

LATE_MS = 2
"""A timer that fires so much after its time is late; below that is the resolution of timers."""
GRACE_MS = 50
"""The least extension: some turns of the loop, to read what lies in the sockets."""


def deadline_of(role: Role) -> int | None:
    """When this role judges the silence of others; None: it does not."""
    if isinstance(role, Leader):
        return role.check_quorum_ms
    return None if isinstance(role, Resigned) else role.deadline_ms


def extend(role: Role, deadline_ms: int) -> None:
    """Give the others time until `deadline_ms`."""
    if isinstance(role, Leader):
        role.check_quorum_ms = deadline_ms
    else:
        role.deadline_ms = deadline_ms


class Patience:
    """Extends the deadlines of one replica. Times are in milliseconds of a clock that never goes back."""

    def __init__(self, extension_ms_max: int) -> None:
        self._extension_ms_max = extension_ms_max
        self._extended_to_ms = -1
        self._extended_ms = 0

    def extend(self, role: Role, due_ms: int, now_ms: int) -> None:
        """A timer that was due at `due_ms` fires now: extend the role's deadline if that was too late."""
        deadline_ms = deadline_of(role)
        late_ms = now_ms - due_ms
        if deadline_ms is None or deadline_ms > now_ms or late_ms < LATE_MS:
            return
        if deadline_ms != self._extended_to_ms:
            self._extended_ms = 0  # another deadline than the last one
        extension_ms = min(max(late_ms, GRACE_MS), self._extension_ms_max - self._extended_ms)
        if extension_ms > 0:
            self._extended_ms += extension_ms
            self._extended_to_ms = now_ms + extension_ms
            extend(role, self._extended_to_ms)


class OwnWork:
    """Work of a follower on what its leader sent: the leader's time stands still meanwhile."""

    def __init__(self, role: Role, now_ms: int) -> None:
        self._role = role
        self._deadline_ms = deadline_of(role)
        self._began_ms = now_ms

    def end(self, role: Role, now_ms: int) -> None:
        """The work is done, in this role."""
        if role is self._role and isinstance(role, Follower) and role.deadline_ms == self._deadline_ms:
            role.deadline_ms += now_ms - self._began_ms
