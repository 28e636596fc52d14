"""The quorum of controllers: Kafka's dialect of Raft, over the log `__cluster_metadata-0`.

Pure: `replica.py` takes events (`events.py`) and returns effects (`effects.py`). `driver.py` is its shell: it
owns the log, carries out the effects in their order, and delivers what is committed. `disk_reserve.py` keeps
some space free for when the disk is full. Votes and flushes of the metadata log have threads of their own
(`Disk.offload_urgent`). `tests/unit/raft/simulation.py` runs many replicas under faults, by a seed.
"""
