"""A broker that only pretends to store: the limit of a load generator with a nearly free broker.

It is an Ottla node whose appends assign offsets and drop the batch: no checksum, no validation, no write. If
Ottla comes close to it, the generator limits the row, not the broker.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

from tests.interop.peers import OttlaBroker

import ottla.log.log
from ottla.log.log import Appended
from ottla.records.batch import read_header
from ottla.records.plain_batch import PlainCheck
from ottla.records.validate import Origin, ProduceRules
from ottla.server.replicas.partition import Partition
from ottla.tools.server_start import main

ROOT = Path(__file__).resolve().parents[1]


class CeilingBroker(OttlaBroker):
    """The pretending broker as a process."""

    kind = "ceiling"

    def start_command(self) -> list[str]:
        return [sys.executable, "-m", "bench.ceiling", str(self.properties_file)]

    def environment(self) -> dict[str, str]:
        known = os.environ.get("PYTHONPATH")
        return super().environment() | {
            "PYTHONPATH": os.pathsep.join([str(ROOT), *([known] if known else [])])
        }


def _pretend(
    self: Partition,
    records: memoryview,
    *,
    acks: int,
    now_ms: int,
    origin: Origin = Origin.CLIENT,
    **_options: object,
) -> Appended:
    log = self.leader_log()
    first_offset = log.log_end_offset
    count = read_header(records, 0).record_count
    log.log_end_offset = log.high_watermark = first_offset + count
    return Appended(first_offset, first_offset + count - 1, -1, 0, now_ms, False, len(records), count)


def _never_plain(rules: ProduceRules) -> PlainCheck:
    """A check that finds no batch plain: every append calls `Partition.append`."""
    return PlainCheck(replace(rules, max_message_bytes=0))


if __name__ == "__main__":
    ottla.log.log.PlainCheck = _never_plain  # type: ignore[assignment,attr-defined]
    Partition.append = _pretend  # type: ignore[method-assign]
    sys.exit(main())
