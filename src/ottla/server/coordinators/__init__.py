"""The group and transaction coordinators, as handlers call them, and what they need of this node."""
