"""The node: serves requests, hosts replicas, and runs the controller and the coordinators.

`node.py` wires the parts together; `broker.py` is the interface of these parts for the handlers.
"""
