"""The active controller's decisions, and the state of the cluster that they are made on.

A request becomes a `Result`: records for the metadata log and the response that leaves once they are
committed. `image.py` is the only thing that changes state, by replay of records.
"""
