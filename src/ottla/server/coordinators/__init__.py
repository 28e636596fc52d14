"""The group and transaction coordinators as handlers ask them, and what they need of this node."""
