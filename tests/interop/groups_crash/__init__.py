"""The node is killed while groups consume, commit and rebalance."""
