"""Tests with peers that Ottla did not write: Kafka itself, its clients and its tools."""
