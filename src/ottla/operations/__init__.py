"""What the Kafka-named tools and the `ottla` command share: files they read, plans, decoders, searches."""
