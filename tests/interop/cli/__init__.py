"""The `ottla` command on Kafka and on Ottla."""
