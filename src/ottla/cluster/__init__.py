"""A cluster on one machine: its nodes, their files and processes, and its status.

`ottla cluster` (`ottla.cli.cluster`) and `ottla.testing.Cluster` are built on it. The directory of a cluster
holds all of its state: `node-<id>/server.properties`, `data` and `node.log`.
"""

from ottla.cluster.group import ClusterError
from ottla.cluster.layout import Layout, NodeFiles, Plan, read_layout, write_layout
from ottla.cluster.process import NodeProcess

__all__ = ["ClusterError", "Layout", "NodeFiles", "NodeProcess", "Plan", "read_layout", "write_layout"]
