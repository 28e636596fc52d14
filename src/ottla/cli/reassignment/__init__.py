"""What `ottla reassign` stands on: where replicas should go, and how far they are."""
