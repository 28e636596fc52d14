"""The operations of ACLs, and the bit fields in which brokers report the allowed ones."""

from __future__ import annotations

from ottla.client.admin.codes import Code

_NOT_ASKED = -(2**31)


class AclOperation(Code):
    """An operation on a resource. The numbers are the protocol's."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


def operations_of(bits: int) -> frozenset[AclOperation] | None:
    """The operations in a bit field; None if they were not requested."""
    if bits == _NOT_ASKED:
        return None
    return frozenset(
        AclOperation(number)
        for number in range(32)
        if bits & 1 << number and AclOperation(number) is not AclOperation.UNKNOWN
    )
