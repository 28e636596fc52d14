"""Writes the `quorum-state` file, on a thread of its own. On a full disk it retries until there is space."""

from __future__ import annotations

from ottla.ports import DISK_FULL, PASSING, Disk
from ottla.raft.driver.disk_space import DiskSpace
from ottla.raft.election_state import ElectionState
from ottla.raft.replica import Replica
from ottla.raft.store import Store


class ElectionWriter:
    def __init__(self, disk: Disk, store: Store, replica: Replica, space: DiskSpace) -> None:
        self._disk = disk
        self._store = store
        self._replica = replica
        self._space = space
        self._is_stopping = False
        self.is_retrying = False  # the disk is full: what the replica decided on this election waits

    def stop(self) -> None:
        """Let a write that fails now fail for good."""
        self._is_stopping = True

    async def write(self, election: ElectionState) -> None:
        version, voters, space = self._replica.kraft_version.last, self._replica.voters.last, self._space
        while True:
            try:
                await self._disk.offload_urgent(self._store.write_election, election, version, voters)
                space.is_lacking = self.is_retrying = False
                return
            except OSError as error:
                if error.errno not in PASSING or self._is_stopping:
                    raise
                self.is_retrying = True
                if error.errno not in DISK_FULL or not space.reserve.release_block():
                    await space.wait(error)
