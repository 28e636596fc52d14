"""The `log.dirs` of a node: all its logs, their checkpoints, and moves between directories."""
