"""Real processes, real faults: nodes are killed, stopped, cut off, filled up and damaged under a load."""
