"""The same questions to Kafka and to Ottla, byte for byte; the answers must be the same too."""
