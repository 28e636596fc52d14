"""Kafka's own tools for groups, run on Kafka and on Ottla; what they print must be the same."""
