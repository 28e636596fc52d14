"""Replication of partitions: the leader's view of its followers, and the follower's fetch loop.

`leader.py`, `follower.py` and `throttle.py` decide and are pure; `fetcher.py` and `isr_changes.py` act on
their decisions, over the network and on disk.
"""
