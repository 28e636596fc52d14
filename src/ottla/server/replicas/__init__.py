"""The partitions that this node hosts: led, followed, and kept in line with the metadata."""
