"""Partitions that move between brokers and disks by Kafka's own tool, while they are written."""
