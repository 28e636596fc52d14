"""A data directory that Kafka and Ottla use in turn, and Kafka's own tool reading our files."""
