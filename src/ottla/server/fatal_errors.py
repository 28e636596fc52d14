"""All reasons for which a node stops by itself.

At startup: one of `STARTING_ERRORS`, which the operator can fix; the message says how.

While it runs:

- `NO_DIRECTORY`: every log directory is offline because its disk failed.
- `METADATA_LOG`: the metadata log cannot be read, written or flushed. A full disk and a lack of descriptors
  do not count: they are temporary, and the write is retried.
- `METADATA_STATE`: a committed metadata record cannot be applied, or the leader's log lacks committed
  records. Anything that this node did from then on could be wrong.

`raft/driver/driver.py` `Driver.fail` reports the last two, `Node` the first; both set `Node.failure`. All
other exceptions are contained by `ottla.failures`: to one partition, one request, or one run of a duty.
"""

from __future__ import annotations

from enum import Enum

from ottla.config import ConfigError
from ottla.log.directories.properties import DirectoryError
from ottla.log.segment import LogDamaged
from ottla.raft.driver import MissingSnapshot, UnsupportedQuorum
from ottla.raft.election_state import ElectionFileDamaged
from ottla.raft.snapshots import SnapshotDamaged
from ottla.server.metadata.broker_registration import NotRegistered
from ottla.wire.errors import KafkaStorageError


class StopReason(Enum):
    """Why a running node stops."""

    NO_DIRECTORY = "every log directory is offline"
    METADATA_LOG = "the metadata log cannot be read, written or flushed"
    METADATA_STATE = "committed metadata cannot be applied"


STARTING_ERRORS = (
    ConfigError,
    DirectoryError,
    NotRegistered,
    UnsupportedQuorum,
    MissingSnapshot,
    SnapshotDamaged,
    ElectionFileDamaged,
    LogDamaged,
    KafkaStorageError,
)
"""Errors at startup that the operator can fix: they need no traceback."""
