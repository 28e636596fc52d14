"""Checks a `.txnindex` against the batches of its log.

An entry has no checksum in Kafka's format, so the file alone does not show a flipped bit, which would let
readers see aborted records, or hide committed ones. But each entry names batches: the marker that ended the
transaction, its first batch, and the one where the next open transaction began. A load looks them up: two or
three small reads for each aborted transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.log.segment import LogDamaged, Segment
from ottla.log.segments import Segments
from ottla.log.transactions import AbortedTransaction
from ottla.records.batch import BatchHeader


def contradiction(segments: Segments, segment: Segment, *, is_compacted: bool) -> str | None:
    """Why the entries of a segment cannot be right, or None. Compaction may have removed what they name."""
    checked = [segment]
    try:
        for entry in segment.aborted_index.entries():
            for offset, name, is_it in _named(entry):
                holder = segments.floor(offset)
                if holder is None:
                    continue  # the log has been deleted up to a later offset
                checked.append(holder)
                header = _header_of(holder, offset)
                is_gone = is_compacted and header is None and holder is not segments.active
                if not is_gone and (header is None or not is_it(header)):
                    return f"producer {entry.producer_id} has an entry that names offset {offset}: no {name}"
    except LogDamaged:
        return None  # a reader gets this error, and no index could be built from the segment
    finally:
        for one in checked:
            if one is not segments.active:
                one.close_handles()
    return None


def _named(entry: AbortedTransaction) -> Iterator[tuple[int, str, Callable[[BatchHeader], bool]]]:
    """The offsets that an entry names, and what must be there."""
    producer_id, first_offset, last_offset, stable_offset = entry
    yield last_offset, "marker", lambda one: one.is_control and one.producer_id == producer_id
    yield (
        first_offset,
        "beginning of a transaction",
        lambda one: _may_begin(one, first_offset) and one.producer_id == producer_id,
    )
    if stable_offset != last_offset + 1:
        yield (
            stable_offset,
            "beginning of another transaction",
            lambda one: _may_begin(one, stable_offset) and one.producer_id != producer_id,
        )


def _may_begin(header: BatchHeader, offset: int) -> bool:
    """Whether a transaction may begin with this batch, at that offset."""
    return header.is_transactional and not header.is_control and header.base_offset == offset


def _header_of(segment: Segment, offset: int) -> BatchHeader | None:
    """The header of the batch that holds the offset, None if no batch does."""
    position = segment.position_of(offset)
    header = None if position is None else segment.header_at(position)
    return None if header is None or header.base_offset > offset else header
