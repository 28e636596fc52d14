"""Group membership as state machines: events go in, effects come out.

`classic.py` is the protocol of JoinGroup and SyncGroup, `consumer.py` the one where the coordinator assigns
(KIP-848). Both implement `Membership`, so the engine does not need to know which one it drives.

Rule: a member owns a partition from the moment when the user is notified of its assignment until the user has
been notified of its revocation (or loss). Only after that does the coordinator learn that it was revoked.
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
