"""Kafka's clients against a broker: each test is written once and runs on Kafka and on Ottla."""
