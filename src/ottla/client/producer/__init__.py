"""The producer: two classes, one that blocks and one that is awaited, on one engine."""
