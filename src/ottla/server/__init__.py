"""The node: serves requests, hosts replicas, and runs the controller and the coordinators.

`node.py` wires the parts; `broker.py` holds them. Handlers declare which of them they need (`parts.py`).
"""
