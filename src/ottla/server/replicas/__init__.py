"""The partitions that this node hosts: leading, following, and applying metadata to them."""
