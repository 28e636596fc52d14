"""The quorum of controllers: Kafka's dialect of Raft, over the log `__cluster_metadata-0`.

Pure: `replica.py` takes events (`events.py`) and returns effects (`effects.py`), on which handlers in
`voting.py`, `leading.py`, `following.py` and `log_progress.py` decide. `voter_changes.py` says which changes
of the voters are possible, and `fetch_validation.py` how the leader answers a fetch.

The package `driver/` is the shell: it owns the log, carries out the effects in their order, and delivers what
is committed. `metadata_log.py`, `store.py` and `disk_reserve.py` are its files. Votes and flushes of the log
have threads of their own (`Disk.offload_urgent`).

`tests/unit/raft/simulation.py` simulates quorums under faults, by a seed.
"""
