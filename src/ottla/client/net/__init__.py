"""The client's network: the cluster and its metadata, connections to nodes, and the loop's thread."""
