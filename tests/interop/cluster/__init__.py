"""The reference deployment, five nodes on one machine: killed, cut off from each other, and healed."""
