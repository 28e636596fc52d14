"""Batches that come with their offsets: from the leader to a follower, or from a Raft leader to its own log.

A writer checks them all, then writes them in runs: one write each, into one segment.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from ottla.records.batch import BASE_OFFSET_MAX, BatchHeader, check_crc, iterate_headers
from ottla.records.validate import Origin
from ottla.wire.errors import CorruptMessage, InvalidRecord, MessageTooLarge

logger = logging.getLogger("ottla.log")

GivenBatch: TypeAlias = tuple[int, BatchHeader]
"""Where a batch begins in the buffer, and its header"""


class OffsetsOutOfOrder(ValueError):
    """Batches whose offsets do not grow."""


def check_given(
    records: memoryview, leader_epoch: int, origin: Origin, name: str, bytes_max: int
) -> list[GivenBatch]:
    """The complete batches, each with a correct checksum and offsets that grow.

    A follower skips batches of a later epoch than `leader_epoch`. From a Raft leader they must have exactly
    this epoch and at most `bytes_max` bytes.
    """
    batches = []
    previous = -1
    for position, header in iterate_headers(records):
        epoch = header.partition_leader_epoch
        if origin is Origin.RAFT_LEADER:
            if epoch != leader_epoch:
                raise InvalidRecord(
                    f"Append from Raft leader did not set the batch epoch correctly, expected "
                    f"{leader_epoch} but the batch has {epoch}"
                )
            if header.length_bytes > bytes_max:
                raise MessageTooLarge(
                    f"The record batch size in the append to {name} is {header.length_bytes} bytes "
                    f"which exceeds the maximum configured value of {bytes_max}."
                )
        elif epoch > leader_epoch:
            logger.info("%s: skipping batches of epoch %d, above epoch %d", name, epoch, leader_epoch)
            break
        check_crc(records, position, header)
        if header.base_offset > BASE_OFFSET_MAX:
            raise CorruptMessage(
                f"A batch for {name} has the base offset {header.base_offset}, which is too large."
            )
        if header.last_offset <= previous or header.base_offset <= previous:
            raise OffsetsOutOfOrder(
                f"Out of order offsets found in append to {name}: {header.base_offset} after {previous}."
            )
        previous = header.last_offset
        batches.append((position, header))
    return batches


def runs_of(batches: list[GivenBatch], bytes_max: int) -> list[list[GivenBatch]]:
    """Batches in runs of at most `bytes_max` bytes, or one batch.

    A transaction marker is a run of its own, because its index entry is written before it.
    """
    runs: list[list[GivenBatch]] = []
    is_open = False
    size = 0
    for item in batches:
        header = item[1]
        is_marker = header.producer_id >= 0 and header.is_control
        size += header.length_bytes
        if is_open and not is_marker and size <= bytes_max:
            runs[-1].append(item)
        else:
            runs.append([item])
            size = header.length_bytes
        is_open = not is_marker
    return runs
