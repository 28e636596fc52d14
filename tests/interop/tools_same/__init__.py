"""Kafka's tools and ours, run side by side."""
