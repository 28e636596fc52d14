"""Kafka's tools for a cluster, run on three Kafka nodes and on three of Ottla; they must print the same."""
