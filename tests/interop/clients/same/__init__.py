"""The same requests to Kafka and to Ottla, byte for byte; the responses must be the same, too."""
