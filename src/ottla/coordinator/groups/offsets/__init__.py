"""Committed offsets of groups: their records, their store, and what is asked of them."""
