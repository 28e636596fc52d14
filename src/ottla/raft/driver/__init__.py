"""The shell of the quorum: it owns the log `__cluster_metadata-0` and carries out what the replica decides.

`driver.py` starts, stops and fails it, and passes on what other replicas say. It owns one part for each job:

- `effect_queue.py` carries out the replica's effects in their order; `election_writer.py` writes its votes.
- `leader_log.py` appends as the leader, with group commit.
- `follower_log.py` appends and truncates what the leader sent.
- `delivery.py` delivers committed records to the listener.
- `snapshot_lifecycle.py` writes, adopts and cleans up snapshots.
- `log_storage.py` writes and flushes the log, `disk_space.py` waits for space on a full disk, and
  `replica_timer.py` wakes the replica.
"""

from ottla.raft.driver.config import DriverConfig
from ottla.raft.driver.delivery import Listener
from ottla.raft.driver.disk_space import RETRY_SECONDS
from ottla.raft.driver.driver import Driver, UnsupportedQuorum
from ottla.raft.driver.follower_log import DivergedBelowCommit
from ottla.raft.metadata_log import DIRECTORY_NAME, TOPIC, CommittedBatch, MissingSnapshot

__all__ = [
    "DIRECTORY_NAME",
    "RETRY_SECONDS",
    "TOPIC",
    "CommittedBatch",
    "DivergedBelowCommit",
    "Driver",
    "DriverConfig",
    "Listener",
    "MissingSnapshot",
    "UnsupportedQuorum",
]
