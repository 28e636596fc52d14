"""The reference deployment, five nodes on one machine: kills, network partitions, and recovery."""
