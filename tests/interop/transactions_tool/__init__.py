"""Kafka's own tools for transactions, run on Kafka and on Ottla; what they print must be the same."""
