"""Consumer groups with unmodified clients as members, and Kafka's own assignors beside ours."""
