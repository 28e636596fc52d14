"""The active controller's decisions, and the cluster state that they read.

A request becomes a `Result`: records for the metadata log, and the response that is sent once they are
committed. Only `image.py` changes state, by replay of records.
"""
