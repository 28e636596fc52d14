"""Committed offsets of groups: their records, their store, and the requests about them."""
