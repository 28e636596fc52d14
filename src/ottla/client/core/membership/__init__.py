"""Being a member of a group, as state machines: what happened goes in, what to do comes out.

`classic.py` is the protocol of JoinGroup and SyncGroup, `consumer.py` the one where the coordinator assigns
(KIP-848). Both have the same face, `Membership`, so that the engine does not ask which one it drives.

Rule: a member owns a partition from the moment that the user is notified of its assignment until the user was
notified that it is revoked (or lost). Only after that does the coordinator learn that it was given back.
"""

from ottla.client.core.membership.interface import (
    Change,
    Effect,
    Fail,
    MemberSettings,
    Membership,
    Notify,
    RefreshMetadata,
    Send,
)

__all__ = ["Change", "Effect", "Fail", "MemberSettings", "Membership", "Notify", "RefreshMetadata", "Send"]
