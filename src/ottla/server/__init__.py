"""The node: it serves requests, hosts replicas, and runs the controller and the coordinators.

`node.py` wires the parts together; `broker.py` is what the handlers see of them.
"""
