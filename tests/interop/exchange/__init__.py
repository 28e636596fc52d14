"""A data directory that changes hands between Kafka and Ottla, and Kafka's own tool reading our files."""
