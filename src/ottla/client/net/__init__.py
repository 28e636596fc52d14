"""The client's network: the cluster with its metadata, connections to its nodes, and the loop's thread."""
