"""Connections from this node to other nodes of the cluster."""
