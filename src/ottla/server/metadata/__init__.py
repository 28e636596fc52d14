"""What this node knows of the cluster: the metadata log, the controller that decides, and the quorum."""
