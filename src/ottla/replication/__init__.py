"""Partitions with several replicas: what a leader knows of its followers, and how a follower follows.

`leader.py`, `follower.py` and `throttle.py` decide and are pure; `fetcher.py` and `isr_changes.py` do what
they decide, over the network and on disk.
"""
