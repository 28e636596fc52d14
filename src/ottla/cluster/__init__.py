"""A cluster on one machine: which nodes it has, their files, their processes, and how it is.

`ottla cluster` (`ottla.cli.cluster`) and `ottla.testing.Cluster` are built on it. Everything that is known
of a cluster is in its directory: `node-<id>/server.properties`, `data` and `node.log`.
"""

from ottla.cluster.layout import ClusterError, Layout, NodeFiles, Plan, read_layout, write_layout
from ottla.cluster.process import NodeProcess

__all__ = ["ClusterError", "Layout", "NodeFiles", "NodeProcess", "Plan", "read_layout", "write_layout"]
