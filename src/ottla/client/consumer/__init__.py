"""The consumer: two classes, one that blocks and one that is awaited, on one engine."""
