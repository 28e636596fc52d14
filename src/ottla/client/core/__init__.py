"""What the client decides: metadata, backoff, batches, sequences, membership, positions. It never waits."""
