"""Replica sets of reassignments: from an old set of replicas to a new one and back.

During a reassignment, `replicas` contains the new ones first and then those to be removed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.controller.registrations import PartitionRegistration
from ottla.wire.errors import InvalidReplicaAssignment

Ids = Sequence[int]


def started(partition: PartitionRegistration, target: Ids) -> tuple[list[int], list[int], list[int]]:
    """(replicas, removing, adding) at the start of a reassignment to `target`.

    If another one is in progress, replicas that it was adding and `target` lacks are removed; those that
    `target` contains are still being added.
    """
    current = set(partition.replicas)
    removing = sorted(current.difference(target))
    adding = sorted(set(target).difference(current) | set(partition.adding).intersection(target))
    return [*target, *removing], removing, adding


def completed(replicas: Ids, removing: Ids, adding: Ids, isr: Ids) -> tuple[list[int], list[int]] | None:
    """(replicas, isr) after the reassignment, once enough of the new replicas are in sync; None before."""
    if not removing and not adding:
        return None
    isr_after = [replica for replica in isr if replica not in removing]
    replicas_after = [replica for replica in replicas if replica not in removing]
    if removing and (not isr_after or not replicas_after):
        return None
    if not set(adding) <= set(isr_after):
        return None
    if len(adding) < len(removing) and not set(replicas_after) <= set(isr_after):
        return None
    return replicas_after, isr_after


def reverted(partition: PartitionRegistration) -> tuple[list[int], list[int], bool]:
    """(replicas, isr) of before the reassignment, and whether reverting needs an unclean election."""
    replicas = [replica for replica in partition.replicas if replica not in partition.adding]
    isr = [replica for replica in partition.isr if replica not in partition.adding]
    if isr:
        return replicas, isr, False
    if not replicas:
        raise InvalidReplicaAssignment("Invalid replica assignment: addingReplicas contains all replicas.")
    return replicas, [replicas[0]], True
