"""The reasons for which a node ends by itself. There are no others.

At its start: one of `STARTING_ERRORS`, which its owner can cure; the message says how.

While it runs:

- `NO_DIRECTORY`: every log directory is offline, since its disk failed.
- `METADATA_LOG`: the metadata log cannot be read, written or flushed. A full disk and a lack of descriptors
  are no such reason: they pass, and the write is tried again.
- `METADATA_STATE`: a committed record of the metadata cannot be applied, or the leader's log lacks what was
  committed. Whatever this node did from then on could be wrong.

`raft/driver/driver.py` `Driver.fail` gives the last two, `Node` the first; both set `Node.failure`. All else
that is raised is contained by `ottla.failures`: to one partition, one request, or one run of a duty.
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


class Ending(Enum):
    """Why a running node ends."""

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
"""Why a node may not start that its owner can cure: nobody needs a traceback."""
