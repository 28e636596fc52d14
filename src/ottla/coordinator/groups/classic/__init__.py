"""The classic group protocol: members join, and the leader among them assigns partitions."""
