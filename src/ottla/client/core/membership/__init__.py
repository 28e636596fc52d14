"""Being a member of a group, as state machines: what happened goes in, what to do comes out.

`classic.py` is the protocol of JoinGroup and SyncGroup, `consumer.py` the one where the coordinator assigns
(KIP-848). Both have the same face, `Membership`, so that the engine does not ask which one it drives.

Rule: a partition is owned from the moment that the user is told of it until the user has been told to give
it back (or that it is lost), and the coordinator hears that it is given back only after that.
"""

from ottla.client.core.membership.interface import (
    Call,
    Change,
    Effect,
    Fail,
    Learn,
    MemberSettings,
    Membership,
    Send,
)

__all__ = ["Call", "Change", "Effect", "Fail", "Learn", "MemberSettings", "Membership", "Send"]
